import { z } from 'zod'
import { canonicalJson } from '../crypto/canonical-json.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { maybe, number, text, type RecordOf } from '../platform/fields.ts'
import { hex, idView, unixTime } from '../platform/schema.ts'

/**
 * A public statement by the operator, signed with the key that signs the seals; it is listed once it is
 * signed. `at` is in Unix seconds.
 */
export const announcementFields = {
  _id: text,
  at: number,
  kind: text,
  text,
  /** Opens the commitment to the text in the announcement's ledger entry. */
  salt: text,
  /** Ed25519, base64; absent until the worker that has the key has signed. */
  signature: maybe.text,
  /** The signing key's public key: 32 bytes as hex. */
  pubkey: maybe.text,
}
export type AnnouncementRecord = RecordOf<typeof announcementFields> & Ledgered

export type SignedAnnouncement = AnnouncementRecord &
  Required<Pick<AnnouncementRecord, 'signature' | 'pubkey'>>

export const announcementView = z
  .object({
    id: idView('announcement'),
    at: unixTime(),
    kind: z.string(),
    text: z.string(),
    signature: z.string().describe('Ed25519 over the canonical JSON of at, id, kind and text; base64'),
    pubkey: hex(64).describe('32 raw bytes'),
    algo: z.literal('ed25519'),
  })
  .meta({ id: 'Announcement' })

/**
 * Returns the bytes that an announcement's signature covers: the UTF-8 of the canonical JSON of its `at`,
 * `id`, `kind` and `text`.
 */
export function announcementPayload(
  announcement: Pick<AnnouncementRecord, '_id' | 'at' | 'kind' | 'text'>,
): Uint8Array {
  return Buffer.from(
    canonicalJson({
      at: announcement.at,
      id: announcement._id,
      kind: announcement.kind,
      text: announcement.text,
    }),
    'utf8',
  )
}

/** Returns what an announcement's ledger entry commits to, without its id. */
export function announcementContent(announcement: Pick<AnnouncementRecord, 'kind' | 'text'>) {
  return { kind: announcement.kind, text: announcement.text }
}

export function viewAnnouncement(announcement: SignedAnnouncement): z.input<typeof announcementView> {
  return {
    id: announcement._id,
    at: announcement.at,
    kind: announcement.kind,
    text: announcement.text,
    signature: announcement.signature,
    pubkey: announcement.pubkey,
    algo: 'ed25519',
  }
}
