import type { EntryRecord } from './entry.ts'
import type { PendingEntry } from './pending.ts'
import { closingSource, sealRecord } from './seal.ts'

/** What the venue owes to payees, per coin, in its smallest unit: raw, piconero. */
export interface Owed {
  xno: bigint
  xmr: bigint
}

export const NOTHING_OWED: Owed = { xno: 0n, xmr: 0n }

/**
 * The sums after an entry, from the sums before it. It is called for every entry in the order of their numbers, so that
 * whoever reads the ledger can compute the same sums. No kind of entry moves money yet.
 */
export function addToOwed(owed: Owed, _entry: EntryRecord): Owed {
  return owed
}

/** The sums that a solvency entry states. */
export function readOwed(entry: EntryRecord): Owed {
  const { owed } = entry.data as { owed?: { xno?: unknown; xmr?: unknown } }
  if (typeof owed?.xno !== 'string' || typeof owed.xmr !== 'string')
    throw new TypeError(`entry ${entry._id} expected data.owed with the sums of xno and xmr`)
  return { xno: BigInt(owed.xno), xmr: BigInt(owed.xmr) }
}

/** The entry that closes seal `seq`: what is owed by all entries below it. `at` in Unix seconds. */
export function closingEntry(seq: number, at: number, owed: Owed): PendingEntry {
  return {
    source: closingSource(seq),
    at,
    kind: 'solvency',
    data: { seal: sealRecord(seq), owed: { xno: String(owed.xno), xmr: String(owed.xmr) } },
  }
}
