import type { StatedKeys } from './agent-keys.ts'
import { isReadable, type EntryRecord } from './entry.ts'
import type { PendingEntry } from './pending.ts'
import { closingSource, sealRecordId } from './seal.ts'

/** What the venue owes to payees, per coin in its smallest unit (raw, piconero). */
export interface Owed {
  xno: bigint
  xmr: bigint
}

export const NOTHING_OWED: Owed = { xno: 0n, xmr: 0n }

/**
 * Returns the sums after an entry, from the sums before it. They follow from the entries alone, so whoever
 * reads the ledger from its beginning computes the same.
 *
 * What is received for a market order is owed to somebody from the moment it is counted: it is held for the
 * order's sides, or owed to one of them by name. It ends being owed when the venue takes its fee of it, when
 * a payout of it has arrived or was paid by hand, or when the operator gives up what the chain took back.
 * What such an entry said may be undone: a payout's later entry names in `undoes` the step that is true no
 * more, and a payment's has the step `undone`. A payment for a pass is the venue's own.
 *
 * @throws TypeError if an entry that changes the sums has no readable amount or coin
 */
export function addToOwed(owed: Owed, entry: Pick<EntryRecord, '_id' | 'kind' | 'data'>): Owed {
  const change = changeOfOwed(entry)
  if (change === 0n) return owed
  const { coin } = entry.data
  if (!isCoin(coin)) throw new TypeError(`entry ${entry._id} expected data.coin xno or xmr`)
  return { ...owed, [coin]: owed[coin] + change }
}

const isCoin = (coin: unknown): coin is keyof Owed =>
  typeof coin === 'string' && Object.hasOwn(NOTHING_OWED, coin)

/**
 * By how much an entry changes the sum of its coin, in its smallest unit; 0n for kinds that don't change it.
 */
function changeOfOwed({ _id, kind, data }: Pick<EntryRecord, '_id' | 'kind' | 'data'>): bigint {
  const amount = (name: 'amount_raw' | 'written_off_raw'): bigint => {
    const text = data[name]
    if (typeof text !== 'string' || !/^\d{1,60}$/.test(text))
      throw new TypeError(`entry ${_id} expected data.${name} as decimal digits`)
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

/**
 * Adds an entry to the sums owed. An entry that can't be read, or has no readable amount or coin, changes
 * nothing; every verifier of the sums follows this rule.
 *
 * @param canRead whether the entry has valid content; computed if absent
 * @returns the new sums, and as `anomaly` what is wrong with an entry that changed nothing for that
 */
export function tryAddToOwed(
  owed: Owed,
  entry: EntryRecord,
  canRead: boolean = isReadable(entry),
): { owed: Owed; anomaly?: string } {
  if (!canRead) return { owed, anomaly: `entry ${entry._id} has no canonical JSON` }
  try {
    return { owed: addToOwed(owed, entry) }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    return { owed, anomaly: error.message }
  }
}

/** The sums that a closing entry states. @throws TypeError if it states none */
export function parseOwed(entry: EntryRecord): Owed {
  const { owed } = entry.data as { owed?: { xno?: unknown; xmr?: unknown } }
  if (!isSum(owed?.xno) || !isSum(owed.xmr))
    throw new TypeError(`entry ${entry._id} expected data.owed with the sums of xno and xmr`)
  return { xno: BigInt(owed.xno), xmr: BigInt(owed.xmr) }
}

/** Whether a text is a sum as closing entries state it: a whole number in decimal, below 0 too. */
const isSum = (text: unknown): text is string =>
  typeof text === 'string' && /^(0|-?[1-9]\d{0,77})$/.test(text)

/**
 * What a closing entry states about all that lies before its seal. Hashes are 64 lower-case hex characters.
 */
export interface StateBefore {
  /** SHA-256 of the payload of the seal before; null for the first. */
  prevSeal: string | null
  /** The log up to that seal. */
  log: { size: number; root: string }
  /** The agents' keys after that seal. */
  keys: StatedKeys
}

/**
 * Makes the entry that closes seal `seq`. It states what is owed after all entries before it, and the log,
 * the keys and the seal before its own: so each seal's root covers all of history, and to rewrite one seal,
 * every later one has to be signed anew.
 *
 * @param at Unix seconds
 */
export function closingEntry(
  seq: number,
  at: number,
  owed: Owed,
  { prevSeal, log, keys }: StateBefore,
): PendingEntry {
  const { size, root } = log
  return {
    source: closingSource(seq),
    at,
    kind: 'solvency',
    data: {
      seal: sealRecordId(seq),
      owed: { xno: String(owed.xno), xmr: String(owed.xmr) },
      prev_seal: prevSeal,
      log: { size, root },
      keys: { ...keys },
    },
  }
}

/**
 * Whether an entry is a closing entry of seal `seq`: by its kind, its source, the seal that it names, and
 * readable sums. Whether what it states is true isn't checked.
 */
export function closesSeal(entry: EntryRecord, seq: number): boolean {
  if (entry.kind !== 'solvency' || !isReadable(entry) || entry.data['seal'] !== sealRecordId(seq))
    return false
  if (entry.source !== closingSource(seq) && !entry.source.startsWith(`${closingSource(seq)}/`)) return false
  try {
    parseOwed(entry)
    return true
  } catch {
    return false
  }
}

/**
 * The sums that the last entry of seal `seq` states; undefined if that entry is missing or doesn't close it.
 */
export const closingSums = (last: EntryRecord | undefined, seq: number): Owed | undefined =>
  last !== undefined && closesSeal(last, seq) ? parseOwed(last) : undefined
