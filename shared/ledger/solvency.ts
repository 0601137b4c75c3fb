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
 * The sums after an entry, from the sums before it: whoever reads the ledger from its beginning can compute the same.
 *
 * What is received for a market order is owed to somebody from the moment it is counted: it is held for the order's
 * sides, or owed to one of them by name. It ends being owed when the venue takes its fee of it, when a payout of it has
 * arrived or was paid by hand, or when the operator gives up what the chain took back. What such an entry said may be undone:
 * a payout's later entry names in `undoes` the step that is true no more, and a payment's has the step `undone`. A payment for a pass is the
 * venue's own.
 */
export function addToOwed(owed: Owed, entry: Pick<EntryRecord, '_id' | 'kind' | 'data'>): Owed {
  const change = owedChange(entry)
  if (change === 0n) return owed
  const { coin } = entry.data
  if (coin !== 'xno' && coin !== 'xmr') throw new TypeError(`entry ${entry._id} expected data.coin xno or xmr`)
  return { ...owed, [coin]: owed[coin] + change }
}

function owedChange({ _id, kind, data }: Pick<EntryRecord, '_id' | 'kind' | 'data'>): bigint {
  const amount = (name: 'amount_raw' | 'written_off_raw'): bigint => {
    const text = data[name]
    if (typeof text !== 'string' || !/^\d{1,60}$/.test(text)) throw new TypeError(`entry ${_id} expected data.${name} as decimal digits`)
    return BigInt(text)
  }
  switch (kind) {
    case 'payment':
      if (data['order_id'] === undefined) return 0n
      return data['step'] === 'undone' ? -amount('amount_raw') : amount('amount_raw')
    case 'fee':
      return data['step'] === 'returned' ? amount('amount_raw') : -amount('amount_raw')
    case 'payout':
      if (data['undoes'] !== undefined) return amount('amount_raw')
      return data['step'] === 'confirmed' || data['step'] === 'manual' ? -amount('amount_raw') : 0n
    case 'dispute_outcome':
      return -amount('written_off_raw')
    default:
      return 0n
  }
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
