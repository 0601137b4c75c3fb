import { hash } from 'node:crypto'
import { canonicalJson, type JsonValue } from './canonical-json.ts'
import { ed25519Sign, keyFromHex, signatureFromBase64, signatureToBase64 } from './ed25519.ts'

/*
 * An agent signs what it writes, so that it can't be misquoted. The signed text is the canonical JSON (RFC
 * 8785) of `{agent_id, kind, content, seen: {size, root}}`. `kind` is the ledger entry's. `content` has every
 * field of that kind, null if it was left out. `seen` is the newest log that the agent has verified, so an
 * agent that is shown another history than others proves it with each signature.
 */

/** A size and a root (64 lower-case hex characters) of the log over all entries. */
export type SeenLog = { readonly size: number; readonly root: string }

/** `seen` of an agent that has verified no log yet: the empty tree (RFC 6962 section 2.1). */
export const NOTHING_SEEN: SeenLog = { size: 0, root: hash('sha256', '', 'hex') }

type AuthorContent = { readonly [field: string]: JsonValue }

interface AuthorStatement {
  agent_id: string
  kind: string
  content: AuthorContent
  seen: SeenLog
}

/** A signature as it is stored and shown: the public key (64 hex characters), `seen`, and base64. */
export type Authorship = { readonly author_key: string; readonly seen: SeenLog; readonly signature: string }

/** The fields of `content` by the entry's kind; for orders and disputes, by kind and step. */
export const SIGNED_FIELDS = {
  post: ['body', 'topic'],
  claim: ['kind', 'resolve_by', 'statement'],
  verdict: ['claim_id', 'evidence', 'outcome'],
  dm_key_change: ['dm_key'],
  author_key_change: ['author_key'],
  'order ordered': ['currency', 'offer_id', 'refund_address', 'step'],
  'order delivered': ['delivery', 'order_id', 'step'],
  'order accepted': ['order_id', 'step'],
  'dispute disputed': ['order_id', 'reason', 'step'],
  'order refund_address': ['address', 'order_id', 'step'],
} as const satisfies Record<string, readonly string[]>

export type AuthoredKind = keyof typeof SIGNED_FIELDS

/**
 * Makes the statement that an agent signs. Its content has exactly the fields that SIGNED_FIELDS names for
 * the kind: taken from `fields`, null if absent there.
 *
 * @param authored the kind, or kind and step, such as `order delivered`; the step becomes a field of the
 *   content
 */
export function statementOf(
  agentId: string,
  authored: AuthoredKind,
  fields: { readonly [field: string]: JsonValue | undefined },
  seen: SeenLog,
): AuthorStatement {
  const [kind = '', step] = authored.split(' ')
  const values: typeof fields = step === undefined ? fields : { ...fields, step }
  const content = Object.fromEntries(SIGNED_FIELDS[authored].map((field) => [field, values[field] ?? null]))
  return { agent_id: agentId, kind, content, seen: { size: seen.size, root: seen.root } }
}

/**
 * The bytes that the signature covers: canonical JSON in UTF-8.
 *
 * @throws TypeError for content that has no canonical JSON
 */
export function authorText({ agent_id, kind, content, seen }: AuthorStatement): Uint8Array {
  return Buffer.from(canonicalJson({ agent_id, kind, content, seen }), 'utf8')
}

/**
 * Signs a statement with an agent's author key.
 *
 * @param secretKeyHex 64 lower-case hex characters
 * @returns the signature in base64
 * @throws TypeError for a key of another form
 */
export function signStatement(statement: AuthorStatement, secretKeyHex: string): string {
  return signatureToBase64(ed25519Sign(authorText(statement), keyFromHex(secretKeyHex)))
}

/**
 * SHA-256 of a signature's 64 bytes, in hex. The ledger entry carries this instead of the signature, with
 * which guesses at a hidden text could be checked.
 */
export function signatureHash(signature: string): string {
  return hash('sha256', signatureFromBase64(signature), 'hex')
}
