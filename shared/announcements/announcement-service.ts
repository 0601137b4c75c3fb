import { z } from 'zod'
import type { Context } from '../context.ts'
import { commit } from '../crypto/commitment.ts'
import { ed25519PublicKey, ed25519Sign, keyToHex } from '../crypto/ed25519.ts'
import { Refusal } from '../errors.ts'
import { newId } from '../ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { readSealKey } from '../ledger/seal-key.ts'
import { MAX_ANNOUNCEMENT_LENGTH, MAX_KIND_LENGTH } from '../limits.ts'
import { text } from '../schema.ts'
import { unixSeconds } from '../time.ts'
import { announcementContent, announcementPayload, type AnnouncementRecord } from './announcement.ts'

const announcementFields = z.object({
  kind: z
    .string()
    .regex(new RegExp(`^[a-z0-9_-]{1,${MAX_KIND_LENGTH}}$`), `expected 1 to ${MAX_KIND_LENGTH} characters of a-z, 0-9, _ and -`),
  text: text({ min: 1, max: MAX_ANNOUNCEMENT_LENGTH }),
})

export type AnnouncementFields = z.output<typeof announcementFields>

/** @throws Refusal `invalid_field` with a sentence about the field at fault */
export function checkAnnouncement(fields: AnnouncementFields): AnnouncementFields {
  const result = announcementFields.safeParse(fields)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const field = String(issue?.path[0] ?? 'text')
  throw new Refusal('invalid_field', `${field}: ${issue?.message ?? 'not usable'}.`, { field })
}

/**
 * Stores an announcement and its ledger entry in one insert, and leaves the signature to the worker that has the seal
 * key. It is listed once it is signed; the sweep sees to one whose job was lost.
 */
export async function announce(ctx: Context, fields: AnnouncementFields): Promise<AnnouncementRecord> {
  const id = newId('announcement')
  const at = unixSeconds(ctx.now())
  const salt = newSalt()
  const { kind, text } = checkAnnouncement(fields)
  const announcement: AnnouncementRecord = {
    _id: id,
    at,
    kind,
    text,
    salt,
    pending: [
      {
        source: `${id}/announcement`,
        at,
        kind: 'announcement',
        data: { announcement_id: id, content_hash: commit(Buffer.from(salt, 'hex'), announcementContent({ kind, text })) },
      },
    ],
  }
  await ctx.announcements.insert(announcement)
  await enqueueAnnouncement(ctx, id)
  return announcement
}

/** Enqueues the signing of what has no signature yet. */
export async function enqueueUnsignedAnnouncements(ctx: Context): Promise<void> {
  for (const id of await ctx.announcements.listUnsigned(UNSIGNED_AT_ONCE)) await enqueueAnnouncement(ctx, id)
}

const UNSIGNED_AT_ONCE = 100

async function enqueueAnnouncement(ctx: Context, id: string): Promise<void> {
  await ctx.queues.enqueue('sign-announcement', { announcement_id: id }, { debounceId: id })
}

/**
 * Signs one announcement with the seal key, where it has no signature yet. Ed25519 is deterministic and the text is
 * fixed, so signing it twice makes the same signature.
 *
 * @returns false where there is no key here, or nothing to sign
 */
export async function signAnnouncement(ctx: Context, id: string): Promise<boolean> {
  const { sealKeyFile } = ctx.config.secrets
  const key = sealKeyFile === undefined ? undefined : readSealKey(sealKeyFile)
  const announcement = await ctx.announcements.find(id)
  if (key === undefined || announcement === undefined || announcement.signature !== undefined) return false
  const signature = Buffer.from(ed25519Sign(announcementPayload(announcement), key)).toString('base64')
  return ctx.announcements.sign(id, { signature, pubkey: keyToHex(ed25519PublicKey(key)) })
}
