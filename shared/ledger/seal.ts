import { z } from 'zod'
import {
  SEAL_ALGO,
  sealPayloadHash,
  type Seal,
  type SealFields,
  type SealSignature,
} from '../crypto/seal-payload.ts'
import { flag, maybe, number, text, textOrNull, type RecordOf } from '../platform/fields.ts'
import { hex, unixTime } from '../platform/schema.ts'

/**
 * A seal as MongoDB holds it. Everything but the signature is immutable from its insert on. Times are Unix
 * seconds.
 */
export const sealRecordFields = {
  /** seq: 1, 2, 3, … */
  _id: number,
  at: number,
  /** Number of its entries. */
  count: number,
  root: text,
  /** Null in seal 1. */
  prev_root: textOrNull,
  from_id: number,
  to_id: number,
  signed: flag,
  signature: maybe.text,
  pubkey: maybe.text,
  algo: maybe.textOf<typeof SEAL_ALGO>(),
  signed_at: maybe.number,
  /** The log up to the last entry, signed with the seal: see checkpoint.ts. */
  origin: maybe.text,
  log_root: maybe.text,
  note: maybe.text,
}
export type SealRecord = RecordOf<typeof sealRecordFields>

/**
 * Stored records, the seal memory or the key don't fit together: numbering, sealing or signing stops, and the
 * message says what an operator has to look at.
 */
export class SealError extends Error {
  override name = 'SealError'
}

export const sealView = z
  .object({
    seq: z.int().min(1).describe('position in the chain, from 1'),
    at: unixTime(),
    count: z.int().min(1).describe('ledger entries covered'),
    root: hex(64),
    prev_root: hex(64).nullable().describe('root of the previous seal; null for the first'),
    from_id: z.int().min(1),
    to_id: z.int().min(1),
    signature: z.string().nullable().describe('Ed25519, base64'),
    pubkey: hex(64).nullable(),
    algo: z.literal(SEAL_ALGO).nullable(),
    signed_at: unixTime().nullable(),
    signed: z.boolean(),
  })
  .meta({ id: 'Seal' })

/** The fields that are signed. */
export function sealFields(seal: SealRecord): SealFields {
  const { _id: seq, at, count, root, prev_root, from_id, to_id } = seal
  return { seq, at, count, root, prev_root, from_id, to_id }
}

/** A seal, identified by what its signature commits to. */
export interface SealHead {
  seq: number
  /** SHA-256 of its payload, as hex. */
  payloadHash: string
}

export const NO_PAYLOAD_HASH = '0'.repeat(64)

/** A stored seal by its seq and payload hash; without a seal, seq 0 and zeros. */
export function headOf(seal: SealRecord | undefined): SealHead {
  if (seal === undefined) return { seq: 0, payloadHash: NO_PAYLOAD_HASH }
  return { seq: seal._id, payloadHash: sealPayloadHash(sealFields(seal)) }
}

/** The signature's fields. @throws SealError if one of them is missing */
export function sealSignature(seal: SealRecord): SealSignature {
  const { signature, pubkey, algo, signed_at } = seal
  if (signature === undefined || pubkey === undefined || algo === undefined || signed_at === undefined) {
    throw new SealError(
      `seal ${seal._id} says that it is signed and has not all of signature, pubkey, algo and signed_at`,
    )
  }
  return { signature, pubkey, algo, signed_at }
}

/** A seal as `GET /seal` lists it. */
export function viewSeal(seal: SealRecord): Seal {
  const fields = sealFields(seal)
  return seal.signed
    ? { ...fields, ...sealSignature(seal), signed: true }
    : { ...fields, signature: null, pubkey: null, algo: null, signed_at: null, signed: false }
}

/** The record id of ledger entries that are about a seal itself. */
export const sealRecordId = (seq: number): string => `seal_${seq}`

/**
 * The source of the entry that closes seal `seq`, the last entry under it. If another kind of entry has taken
 * that source, the first free one of `<source>/2`, `<source>/3`, … is used.
 */
export const closingSource = (seq: number): string => `${sealRecordId(seq)}/solvency`

/**
 * Returns when the next seal is due, in Unix seconds, never before now: one interval after the last seal. If
 * there is no seal, or it lies ahead of the clock, one interval after the first waiting entry, at once if
 * that lies ahead too, or one interval after now if no entry waits. All times are Unix seconds.
 *
 * @param lastAt `at` of the last seal
 * @param waitingAt `at` of the first entry that is under no seal yet
 */
export function nextSealAt(
  lastAt: number | undefined,
  waitingAt: number | undefined,
  intervalSeconds: number,
  nowSeconds: number,
): number {
  if (lastAt !== undefined && lastAt <= nowSeconds) return Math.max(lastAt + intervalSeconds, nowSeconds)
  // No seal yet, or the clock was set back behind the last one: then the first entry's age decides.
  if (waitingAt === undefined) return nowSeconds + intervalSeconds
  return waitingAt > nowSeconds ? nowSeconds : Math.max(waitingAt + intervalSeconds, nowSeconds)
}
