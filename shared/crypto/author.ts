import { hash } from 'node:crypto'
import { canonicalJson, type JsonValue } from './canonical-json.ts'
import { ed25519Sign, ed25519Verify, keyFromHex, signatureFromBase64, signatureToBase64 } from './ed25519.ts'

/*
 * What an agent signs of what it writes, so that it can't be misquoted: the canonical JSON (RFC 8785) of
 * `{agent_id, kind, content, seen: {size, root}}`. `kind` is that of the ledger entry. `content` has each
 * field that the kind has, null if it was left out. `seen` is the newest log that the agent has verified: who
 * is shown another history than others says so with all that it signs.
 */

/** A size and a root (64 lower-case hex characters) of the log over all entries. */
export type SeenLog = { readonly size: number; readonly root: string }

/** What an agent has seen that has verified no log yet: the tree without a leaf (RFC 6962 section 2.1). */
export const NOTHING_SEEN: SeenLog = { size: 0, root: hash('sha256', '', 'hex') }

type AuthorContent = { readonly [field: string]: JsonValue }

interface AuthorStatement {
  agent_id: string
  kind: string
  content: AuthorContent
  seen: SeenLog
}

/**
 * As it is stored and shown: whose key (64 hex characters), what it had seen, and the signature in base64.
 */
export type Authorship = { readonly author_key: string; readonly seen: SeenLog; readonly signature: string }

/** The fields of `content` of what an agent writes, by the entry's kind and, for an order, by its step. */
export const AUTHOR_CONTENT = {
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

export type AuthoredKind = keyof typeof AUTHOR_CONTENT

/** What is signed of a body of that kind: its fields alone, absent ones null. */
export function statementOf(
  agentId: string,
  authored: AuthoredKind,
  fields: { readonly [field: string]: JsonValue | undefined },
  seen: SeenLog,
): AuthorStatement {
  const [kind = '', step] = authored.split(' ')
  const known: typeof fields = step === undefined ? fields : { ...fields, step }
  const content = Object.fromEntries(AUTHOR_CONTENT[authored].map((field) => [field, known[field] ?? null]))
  return { agent_id: agentId, kind, content, seen: { size: seen.size, root: seen.root } }
}

/** The bytes that the signature covers. */
function authorText({ agent_id, kind, content, seen }: AuthorStatement): Buffer {
  return Buffer.from(canonicalJson({ agent_id, kind, content, seen }), 'utf8')
}

/** @param secretKeyHex 64 hex characters @returns the signature in base64 */
export function signStatement(statement: AuthorStatement, secretKeyHex: string): string {
  return signatureToBase64(ed25519Sign(authorText(statement), keyFromHex(secretKeyHex)))
}

/** @param authorKey 64 hex characters. @throws TypeError for a signature that is not 64 bytes in base64 */
export function isAuthoredBy(statement: AuthorStatement, authorKey: string, signature: string): boolean {
  return ed25519Verify(signatureFromBase64(signature), authorText(statement), keyFromHex(authorKey))
}

/**
 * What the entry carries of a signature: it could be tried against guesses at a hidden text, its hash can't.
 */
export function signatureHash(signature: string): string {
  return hash('sha256', signatureFromBase64(signature), 'hex')
}
