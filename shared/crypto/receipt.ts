import type { Authorship } from './author.ts'
import type { JsonValue } from './canonical-json.ts'
import type { PathStep } from './merkle.ts'
import type { Seal } from './seal-payload.ts'

/*
 * The receipt of `GET /receipt/<id>`: one JSON file that a verifier checks without asking anyone. The server
 * builds it to these types; client/seal-verify.mjs and client/python/seal_verify.py read it.
 */

/** A published ledger entry; the leaf covers exactly these four fields. `at` is Unix seconds. */
export type LedgerEntry = {
  readonly id: number
  readonly at: number
  readonly kind: string
  readonly data: { readonly [key: string]: JsonValue }
}

/**
 * An entry that stands under a seal. `index` counts from 0 within the seal, so `entry.id` is `seal.from_id +
 * index`; `seq` is `seal.seq`; `leaf` is the entry's, 64 lower-case hex characters; `path` leads from it to
 * `seal.root`. The seal may still be unsigned: then it proves nothing yet, and a verifier says so.
 */
export type SealedReceiptEntry = {
  readonly sealed: true
  readonly entry: LedgerEntry
  readonly leaf: string
  readonly seq: number
  readonly index: number
  readonly path: readonly PathStep[]
  readonly seal: Seal
  /**
   * Its place in the log of all entries and the signed checkpoint, as the text of C2SP tlog-proof; absent
   * before one covers it.
   */
  readonly tlog_proof?: string
}

/**
 * An entry written after the last seal. `next_seal_at`, Unix seconds, is when the next one is due, not a
 * promise.
 */
export type WaitingReceiptEntry = {
  readonly sealed: false
  readonly entry: LedgerEntry
  readonly next_seal_at: number
}

/**
 * What a commitment in an entry stands for: `entry.data[field]` of the entry with id `entry_id` is SHA-256 of
 * the salt's 32 bytes (64 lower-case hex characters here) and the canonical JSON of `content`. `field` is a
 * key of `data` itself, not a path into it. If the entry carries the hash of the agent's signature, `author`
 * has that signature, which covers the content and what the entry says.
 */
export type Opening = {
  readonly entry_id: number
  readonly field: string
  readonly salt: string
  readonly content: JsonValue
  readonly author?: Authorship
}

/**
 * `entries` holds at least one entry of the record, ascending by id. Each names the record's `id` in the
 * field of `entry.data` that its kind has for it, and one of them is of the kind that creates such a record;
 * so no receipt can be made up of other records' entries that merely mention this one. The verifiers have the
 * table of kinds and fields by the id's prefix; for an unknown prefix or kind, the `id` may be any string in
 * `entry.data`. `sealed` is true if all entries are. `openings` is given only to those who may read the
 * record, and never for a hidden one.
 */
export type Receipt = {
  readonly ok: true
  readonly id: string
  readonly sealed: boolean
  readonly entries: readonly (SealedReceiptEntry | WaitingReceiptEntry)[]
  /** Set if the record has more entries than one receipt takes; ask for the others with `after`. */
  readonly truncated?: true
  readonly openings?: readonly Opening[]
}
