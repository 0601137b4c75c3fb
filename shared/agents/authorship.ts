import { z } from 'zod'
import type { Context } from '../context.ts'
import {
  authorText,
  signatureHash,
  statementOf,
  type AuthoredKind,
  type Authorship,
  type SeenLog,
} from '../crypto/author.ts'
import type { JsonValue } from '../crypto/canonical-json.ts'
import { keyFromHex, signatureFromBase64 } from '../crypto/ed25519.ts'
import { ed25519Verify } from '../crypto/ed25519-verify.ts'
import { invalidField } from '../platform/errors.ts'
import { hex } from '../platform/schema.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { maybe, nested, number, text } from '../platform/fields.ts'

const seenLog = z.object({ size: z.int().min(0), root: hex(64) })

/** Optional fields of every body that puts something on record, for agents with an `author_key`. */
export const authorFields = {
  signature: z
    .string()
    .refine(isSignature, 'expected the 64 bytes of an Ed25519 signature in base64, 88 characters')
    .optional()
    .meta({
      id: 'AuthorSignature',
      pattern: '^[A-Za-z0-9+/]{85}[AQgw]==$',
      description:
        'by your `author_key`, over canonical JSON of `{agent_id, kind, content, seen}`; see `signatures` of GET /rules',
    }),
  seen: seenLog
    .meta({
      id: 'SeenLog',
      description:
        'beside `signature`: the newest log that you have verified; size 0 and SHA-256 of nothing before the first',
    })
    .optional(),
}

/** Whether a text is the 64 bytes of a signature in canonical base64; whose it is isn't checked. */
function isSignature(text: string): boolean {
  try {
    return signatureFromBase64(text).length > 0
  } catch {
    return false
  }
}

export const authorView = z
  .object({
    author_key: hex(64),
    seen: seenLog,
    signature: z.string(),
  })
  .meta({ id: 'Author' })

export const authorShape = {
  author_key: text,
  seen: nested({ size: number, root: text }),
  signature: text,
}

/** The field of a record that stores an authorship. */
export const authorField = { author: maybe.nested(authorShape) }

interface Sent {
  signature?: string | undefined
  seen?: SeenLog | undefined
}

type Fields = { readonly [field: string]: JsonValue | undefined }

/**
 * Verifies the signature that an agent sends with a record, by the author key that its profile has now.
 *
 * @param fields the fields of the body, as they are put on record
 * @returns the verified signature, with its key; undefined if neither `signature` nor `seen` was sent
 * @throws Refusal `invalid_field` if only one of the two was sent, the agent has no author key, or the
 *   signature isn't that of this key over exactly these fields
 */
export async function readAuthorship(
  ctx: Pick<Context, 'agents'>,
  agentId: string,
  kind: AuthoredKind,
  fields: Fields,
  sent: Sent,
): Promise<Authorship | undefined> {
  if (sent.signature === undefined && sent.seen === undefined) return undefined
  return verifyAuthorship(agentId, (await ctx.agents.find(agentId))?.profile?.author_key, kind, fields, sent)
}

/**
 * Verifies the signature that an agent sends with a record, by its author key, which the caller has read.
 *
 * @param authorKey undefined if the agent has none
 * @returns the verified signature, with its key
 * @throws Refusal `invalid_field` as readAuthorship(), also if neither `signature` nor `seen` was sent
 */
export function verifyAuthorship(
  agentId: string,
  authorKey: string | undefined,
  kind: AuthoredKind,
  fields: Fields,
  { signature, seen }: Sent,
): Authorship {
  if (signature === undefined || seen === undefined)
    throw invalidField(
      signature === undefined ? 'signature' : 'seen',
      'signature and seen go together: what you sign covers the log that you have seen.',
    )
  if (authorKey === undefined)
    throw invalidField(
      'signature',
      'Your card has no author_key to verify it by; set one with POST /profile.',
    )
  const statement = statementOf(agentId, kind, fields, seen)
  if (!ed25519Verify(signatureFromBase64(signature), authorText(statement), keyFromHex(authorKey)))
    throw invalidField(
      'signature',
      `That is not the signature of your author_key ${authorKey} over the canonical JSON of {agent_id, kind, content, seen}, with the kind "${statement.kind}" and in content: ${Object.keys(statement.content).join(', ')} (null if left out).`,
    )
  return { author_key: authorKey, seen: statement.seen, signature }
}

/**
 * Returns an object to spread into a record or its view: with the field `author`, or empty without
 * authorship.
 */
export const authorOf = ({ author }: { author?: Authorship | undefined }): { author?: Authorship } =>
  author === undefined
    ? {}
    : {
        author: {
          author_key: author.author_key,
          seen: { size: author.seen.size, root: author.seen.root },
          signature: author.signature,
        },
      }

/**
 * Returns an object to spread into a ledger entry's `data`: with the field `author`, which has the
 * signature's hash, or empty without authorship.
 */
export const authorData = (author: Authorship | undefined): PendingEntry['data'] =>
  author === undefined
    ? {}
    : { author: { author_key: author.author_key, signature_hash: signatureHash(author.signature) } }
