import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { SIGNED_FIELDS, authorText, signatureHash, statementOf } from '../../shared/crypto/author.ts'
import { leafHash } from '../../shared/crypto/merkle.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { refusal } from './findings.ts'
import type { Sentence } from './wording.ts'
import { isSignedBy, isWeakKey } from '../../shared/crypto/ed25519-verify.ts'
import { decodeSignature, isHexHash, isObject, isWhole, memberOf, show, type Fields } from './values.ts'

/*
 * Single entries: their form, the record that each is of, and the signatures of agents over what they put on
 * record.
 */

/** Reads an entry. @throws Refused `malformed_entry` */
export function readEntry(value: unknown): LedgerEntry {
  const isWellFormed =
    isObject(value) &&
    isWhole(value['id']) &&
    isWhole(value['at']) &&
    typeof value['kind'] === 'string' &&
    isObject(value['data'])
  if (!isWellFormed) throw refusal('malformed_entry.form')
  return value as LedgerEntry
}

/** What `make` makes of a value in canonical JSON. @throws Refused with this sentence if it has none */
export function inCanonicalForm<T>(sentence: Sentence, make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw error instanceof TypeError ? refusal(sentence, error.message) : error
  }
}

/** An entry's leaf, 64 hex characters. @throws Refused `malformed_entry` */
export const leafOf = (entry: LedgerEntry): string =>
  inCanonicalForm('malformed_entry.json', () => leafHash(entry))

/** @throws Refused unless `leaf` is the entry's */
export function checkLeaf(entry: LedgerEntry, leaf: unknown): void {
  const own = leafOf(entry)
  if (leaf !== own) throw refusal('wrong_leaf', own, show(leaf))
}

// ——— signatures of agents

/** The opening that the signature of an entry of this kind comes with. */
const SIGNED_OPENINGS: Fields = { post: 'content_hash', claim: 'content_hash', verdict: 'evidence_hash' }

/** The field of `data` that has the key, by the kind of entry that changes one. */
export const KEY_FIELDS = { dm_key_change: 'dm_key', author_key_change: 'author_key' } as const
export const keyFieldOf = (kind: string): 'dm_key' | 'author_key' | undefined =>
  kind === 'dm_key_change' || kind === 'author_key_change' ? KEY_FIELDS[kind] : undefined

/** Which key signed which entry. */
export type AuthorAt = { readonly entry_id: number; readonly author_key: string }

/**
 * Checks an author's signature over what an entry says.
 *
 * @param author as the entry or an opening has it
 * @param opened the content that the entry has a commitment to
 * @throws Refused `wrong_author`
 */
function checkAuthor(
  { id, kind, data }: LedgerEntry,
  author: unknown,
  opened: Fields,
): AuthorAt & { signature: string } {
  const { author_key: key, seen, signature } = isObject(author) ? author : {}
  const bytes = decodeSignature(signature)
  const { size, root } = isObject(seen) ? seen : {}
  if (!isHexHash(key) || bytes === undefined || !isWhole(size) || !isHexHash(root))
    throw refusal('wrong_author.form')
  if (typeof data['agent_id'] !== 'string') throw refusal('wrong_author.agent')
  const names: readonly string[] = SIGNED_FIELDS[kind as 'post']
  const fields = Object.fromEntries(
    names.map((name) => [name, memberOf(Object.hasOwn(opened, name) ? opened : data, name)]),
  )
  const statement = statementOf(data['agent_id'], kind as 'post', fields as typeof data, { size, root })
  const text = inCanonicalForm('wrong_author.json', () => authorText(statement))
  if (isWeakKey(key)) throw refusal('wrong_author.weak', key)
  if (!isSignedBy(bytes, text, Buffer.from(key, 'hex'))) throw refusal('wrong_author.signature', key)
  return { entry_id: id, author_key: key, signature: String(signature) }
}

/** Whether an entry changes a key and carries the whole signature of the author key that stood before it. */
export const isSignedChange = ({ kind, data }: LedgerEntry): boolean =>
  keyFieldOf(kind) !== undefined && Object.hasOwn(data, 'author')

/** Checks the signature of a change of a key. @throws Refused `wrong_author` */
export function checkKeyChange(entry: LedgerEntry): AuthorAt {
  const { entry_id, author_key } = checkAuthor(entry, entry.data['author'], {})
  return { entry_id, author_key }
}

/**
 * Checks the author's signature that comes with an opening.
 *
 * @returns none if the entry states no author, or carries its signature elsewhere
 * @throws Refused `wrong_author`
 */
export function checkOpenedAuthor(opening: Fields, entry: LedgerEntry): AuthorAt[] {
  const { kind, data } = entry
  if (memberOf(SIGNED_OPENINGS, kind) !== opening['field']) return []
  const [states, shows] = [Object.hasOwn(data, 'author'), Object.hasOwn(opening, 'author')]
  if (!states && !shows) return []
  if (!shows) throw refusal('wrong_author.not_shown')
  if (!states) throw refusal('wrong_author.not_carried')
  const { content } = opening
  const shown = checkAuthor(entry, opening['author'], isObject(content) ? content : {})
  const stated: unknown = data['author']
  if (
    !isObject(stated) ||
    stated['author_key'] !== shown.author_key ||
    stated['signature_hash'] !== signatureHash(shown.signature)
  )
    throw refusal('wrong_author.other')
  return [{ entry_id: entry.id, author_key: shown.author_key }]
}

// ——— the record that an entry is of

/**
 * By the prefix of a record's id: the kind of entry that makes it; then, by the fields of `data` of which the first that is
 * there has its id, the kinds that may stand under it. The ids of other records may stand in the same data, so that one
 * that stands anywhere says little: a credit for a claim names the agent too, and is the claim's.
 */
const RECORDS: Readonly<
  Record<string, readonly [madeBy: string | undefined, Readonly<Record<string, string>>]>
> = {
  agt: [
    'registration',
    {
      agent_id:
        'registration token_rotation dm_key_change author_key_change witness_key ban unban hide unhide',
      'claim_id payment_id invoice_id order_id agent_id': 'pass_credit',
    },
  ],
  pst: ['post', { post_id: 'post hide unhide' }],
  clm: ['claim', { claim_id: 'claim proposal_accepted pass_credit hide unhide' }],
  vrd: ['verdict', { verdict_id: 'verdict' }],
  ann: ['announcement', { announcement_id: 'announcement' }],
  ofr: ['offer', { offer_id: 'offer offer_closed hide unhide' }],
  mkt: ['order', { order_id: 'order fee payment dispute dispute_outcome' }],
  wrk: ['pass_credit', { order_id: 'pass_credit' }],
  inv: ['pass_credit', { 'payment_id invoice_id': 'pass_credit' }],
  // A payment with a step is of an order, and a step is no id.
  pay: ['payment', { 'step payment_id': 'payment', payment_id: 'pass_credit' }],
  out: ['payout', { payout_id: 'payout' }],
  opr: ['operator_act', { act_id: 'operator_act' }],
  rcn: ['reconcile', { reconciliation_id: 'reconcile' }],
  seal: [undefined, { seal: 'solvency seal_adoption' }],
}

const prefixOf = (recordId: string): string => recordId.split('_', 1)[0] ?? ''

/** The fields that may have a record's id, by its prefix and the kind of entry. */
const ID_FIELDS = /* @__PURE__ */ new Map(
  Object.entries(RECORDS).flatMap(([prefix, [, kinds]]) =>
    Object.entries(kinds).flatMap(([fields, names]) =>
      names.split(' ').map((kind): [string, string[]] => [`${prefix} ${kind}`, fields.split(' ')]),
    ),
  ),
)
const KNOWN_KINDS = /* @__PURE__ */ new Set([...ID_FIELDS.keys()].map((key) => key.split(' ')[1]))

/**
 * Whether an entry belongs to the record of this id. A kind that is in no row of the table is newer than it:
 * then the id must be some string in the data.
 */
export function isOfRecord({ kind, data }: LedgerEntry, recordId: string): boolean {
  const fields = ID_FIELDS.get(`${prefixOf(recordId)} ${kind}`)
  if (fields === undefined) return !KNOWN_KINDS.has(kind) && names(data, recordId)
  const field = fields.find((name) => Object.hasOwn(data, name))
  return field !== undefined && data[field] === recordId
}

/**
 * Checks that the entry that makes the record is among these: a record that was never made must not be proven
 * by what others say of it.
 *
 * @throws Refused `wrong_record`
 */
export function checkMaking(recordId: string, entries: Iterable<LedgerEntry>): void {
  const [madeBy] = memberOf(RECORDS, prefixOf(recordId)) ?? []
  if (madeBy !== undefined && ![...entries].some(({ kind }) => kind === madeBy))
    throw refusal('wrong_record.making', madeBy, show(recordId))
}

/** Whether some string in `value` is `recordId`. */
function names(value: unknown, recordId: string): boolean {
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (next === recordId) return true
    // One by one: a call takes only so many arguments.
    if (typeof next === 'object' && next !== null) for (const part of Object.values(next)) open.push(part)
  }
  return false
}

/** The data of an entry as one line of at most 300 characters. */
export const showData = ({ data }: LedgerEntry): string =>
  inCanonicalForm('malformed_entry.json', () => canonicalJson(data)).slice(0, 300)
