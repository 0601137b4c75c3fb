import { MAX_SIGNED_AHEAD_MS } from '../platform/limits.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import type { StatedKeys } from './agent-keys.ts'
import type { LogState } from './log.ts'
import { headOf, type SealHead, type SealRecord } from './seal.ts'
import type { Remembered } from './seal-memory.ts'

/* What may be signed: rules that only compute. signing.ts reads what they need, and does what they say. */

/** Where signing stands in the database. */
export interface SigningPosition {
  last: SealRecord | undefined
  /** The seq of the first unsigned one. */
  firstUnsigned: number | undefined
  next: SealRecord | undefined
}

/** Finds the seal to sign: the one after the last signed one, which must be the first that is unsigned. */
export function findNextSeal({
  last,
  firstUnsigned,
  next,
}: SigningPosition):
  { kind: 'none' } | { kind: 'next'; seal: SealRecord } | { kind: 'out_of_order'; sentence: string } {
  if (firstUnsigned === undefined) return { kind: 'none' }
  if (last !== undefined && firstUnsigned < last._id)
    return {
      kind: 'out_of_order',
      sentence: `seal ${firstUnsigned} has no signature and seal ${last._id} after it has one`,
    }
  if (next === undefined)
    return {
      kind: 'out_of_order',
      sentence: `seal ${(last?._id ?? 0) + 1} is missing, and seal ${firstUnsigned} comes after it`,
    }
  return { kind: 'next', seal: next }
}

/** A seal, and all that decides whether it may be signed. */
export interface SealToSign {
  seal: SealRecord
  /** The last signed seal in the database, which `seal` follows. */
  last: SealRecord | undefined
  remembered: Remembered
  /** The key that would sign, as hex. */
  pubkey: string
  origin: string
  /** The log and the agents' keys after the seal, by its entries. */
  after: { log: LogState; keys: StatedKeys }
  /** By this machine's clock and the database's. */
  nowMs: number
  databaseMs: number
}

/**
 * Decides whether a seal may be signed, whose entries were read again.
 *
 * @returns what to remember before it is signed, and the time of the signature (Unix seconds); or why not, as
 *   a sentence without a full stop
 */
export function decideSigning(
  facts: SealToSign,
):
  | { kind: 'sign'; remember: Remembered; signedAt: number }
  | { kind: 'memory_differs' | 'date_ahead' | 'clock_behind'; sentence: string } {
  const { seal, last, remembered, pubkey, origin, after, nowMs, databaseMs } = facts
  const head = headOf(seal)
  // A time that was signed before may be repeated: the next seal can't have an earlier one.
  const fault = seal.at === last?.at ? undefined : findTimeFault(seal.at, nowMs, databaseMs)
  if (fault !== undefined) return fault
  const conflict =
    findMemoryConflict(remembered, headOf(last), head, pubkey) ?? findLogConflict(remembered, after.log)
  if (conflict !== undefined) return { kind: 'memory_differs', sentence: conflict }
  return {
    kind: 'sign',
    remember: { ...remembered, seq: head.seq, payload_hash: head.payloadHash, pubkey, origin, ...after },
    // By this machine's clock, unless it is too far ahead of the database's.
    signedAt: Math.max(unixSeconds(Math.min(nowMs, databaseMs + MAX_SIGNED_AHEAD_MS)), seal.at),
  }
}

/**
 * Says why the next seal must not be signed, by the seal memory; returns undefined if it may be.
 *
 * In an unbroken history the memory holds the last signed seal of the database, or the next one if its
 * signature was made and not stored. Anything else means that the database, the memory or the key is not the
 * one that was in use, and that this may be the second signature for its seq: a fork, which only an operator
 * may decide on.
 *
 * @param last the last signed seal in the database; its seq is 0 while none is signed
 * @param next the seal to be signed, the one after `last`
 * @param pubkey the key that would sign, as hex
 */
export function findMemoryConflict(
  remembered: Remembered,
  last: SealHead,
  next: SealHead,
  pubkey: string,
): string | undefined {
  if (remembered.pubkey !== pubkey)
    return `the seal memory belongs to the key ${remembered.pubkey}, and the key at hand is ${pubkey}`
  if (next.seq < remembered.seq)
    return `seal ${remembered.seq} was signed before, and the database ends at signed seal ${last.seq}: it looks like an older one that was restored`
  if (next.seq === remembered.seq) {
    return next.payloadHash === remembered.payload_hash
      ? undefined
      : `another seal ${next.seq} was signed before, with the payload hash ${remembered.payload_hash}: the database looks like an older one that was restored`
  }
  if (last.seq > remembered.seq)
    return `the seal memory ends at seal ${remembered.seq}, and the database has signed seals up to ${last.seq}: the memory is an older one`
  if (last.payloadHash !== remembered.payload_hash)
    return `the seal ${remembered.seq} that was signed has the payload hash ${remembered.payload_hash}, and the database has another`
  return undefined
}

/**
 * Says why a checkpoint of `log` must not be signed: the memory knows a larger log, or another of this size.
 *
 * @returns undefined if it may be signed
 */
export function findLogConflict({ log: signed }: Pick<Remembered, 'log'>, log: LogState): string | undefined {
  if (signed === undefined || log.size > signed.size) return undefined
  if (log.size === signed.size && log.root === signed.root) return undefined
  return `a checkpoint of size ${signed.size} with the root ${signed.root} was signed before, and this one has the size ${log.size} and the root ${log.root}`
}

/** What is wrong with a time that the key is to state; `clock_behind`: another machine could sign. */
export interface TimeFault {
  kind: 'date_ahead' | 'clock_behind'
  sentence: string
}

/**
 * Checks that a time which is to be signed lies ahead of neither this machine's clock nor the database's, by
 * more than MAX_SIGNED_AHEAD_MS: a date that is once too late makes every later one too late.
 *
 * @param at Unix seconds
 * @returns undefined if the time may be signed
 */
export function findTimeFault(at: number, nowMs: number, databaseMs: number): TimeFault | undefined {
  const isAhead = (timeMs: number): boolean => at * SECOND_MS - timeMs > MAX_SIGNED_AHEAD_MS
  if (isAhead(databaseMs))
    return { kind: 'date_ahead', sentence: `its time ${at} is ahead of the database's clock` }
  if (!isAhead(nowMs)) return undefined
  return {
    kind: 'clock_behind',
    sentence: `this machine's clock is ${(databaseMs - nowMs) / SECOND_MS} s behind the database's`,
  }
}
