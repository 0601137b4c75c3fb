import type { StatedKeys } from './agent-keys.ts'
import { isAssets, showAssets, type Assets } from './assets.ts'
import { isReadable, type EntryRecord } from './entry.ts'
import type { PendingEntry } from './pending.ts'
import { closingSource, sealRecordId } from './seal.ts'

/** What the venue owes for orders, per coin in its smallest unit (raw, piconero). */
export interface Owed {
  xno: bigint
  xmr: bigint
}

export const NOTHING_OWED: Owed = { xno: 0n, xmr: 0n }

/** To whom the venue owes money: see changesOf(). */
export const LIABILITY_NAMES = ['orders', 'owed', 'invoices', 'remainders', 'unassigned'] as const
export type LiabilityName = (typeof LIABILITY_NAMES)[number]
type CoinLiabilities = Readonly<Record<LiabilityName, bigint>>

/** All that isn't the venue's own, per coin in its smallest unit. */
export type Liabilities = Readonly<Record<keyof Owed, CoinLiabilities>>

const NO_LIABILITIES: CoinLiabilities = { orders: 0n, owed: 0n, invoices: 0n, remainders: 0n, unassigned: 0n }
export const NO_MONEY: Liabilities = { xno: NO_LIABILITIES, xmr: NO_LIABILITIES }

/** What orders hold and what is owed to payees, together. */
export const owedOf = ({ xno, xmr }: Liabilities): Owed => ({
  xno: xno.orders + xno.owed,
  xmr: xmr.orders + xmr.owed,
})

type Counted = Pick<EntryRecord, '_id' | 'kind' | 'data'>
type Changes = Partial<Record<LiabilityName, bigint>>
/** Of most entries. */
const NO_CHANGES: Changes = {}

/**
 * Returns the sums owed after an entry, from those before it. They follow from the entries alone, so whoever
 * reads the ledger from its beginning computes the same.
 *
 * @throws TypeError if an entry that changes the sums has no readable amount or coin
 */
export function addToOwed(owed: Owed, entry: Counted): Owed {
  const { orders = 0n, owed: toPayees = 0n } = changesOf(entry, true)
  const change = orders + toPayees
  if (change === 0n) return owed
  const coin = coinOf(entry)
  return { ...owed, [coin]: owed[coin] + change }
}

/** @throws TypeError if the entry has none */
function coinOf({ _id, data: { coin } }: Counted): keyof Owed {
  if (typeof coin === 'string' && Object.hasOwn(NOTHING_OWED, coin)) return coin as keyof Owed
  throw new TypeError(`entry ${_id} expected data.coin xno or xmr`)
}

/**
 * By how much an entry changes the sums of its coin, in its smallest unit.
 *
 * What is received for a market order is held for it (`orders`), until the venue takes its fee of it, the
 * operator gives up what the chain took back, or it is owed to a payee by name (`owed`). That ends when the payout
 * has arrived or was paid by hand; or when it is withdrawn: then the order holds it again. What such an entry said
 * may be undone: a payout's later entry names in `undoes` the step that is true no more, and a payment's has the
 * step `undone`. A payment for a pass changes nothing here.
 *
 * What isn't for orders moves by entries of the kind `money_move`: paid for days that are not bought yet
 * (`invoices`), left below a day (`remainders`), and come to nobody (`unassigned`).
 *
 * @param isFirstOwed whether a payout's step `owed` is its first: later ones only say that it is owed still
 * @throws TypeError if an entry that changes the sums has no readable amount
 */
function changesOf(entry: Counted, isFirstOwed: boolean): Changes {
  const { kind, data } = entry
  switch (kind) {
    case 'payment':
      if (data['order_id'] === undefined) return {}
      return { orders: data['step'] === 'undone' ? -amountOf(entry) : amountOf(entry) }
    case 'fee':
      return { orders: data['step'] === 'returned' ? amountOf(entry) : -amountOf(entry) }
    case 'payout':
      return changesOfPayout(entry, isFirstOwed)
    case 'dispute_outcome':
      return { orders: -amountOf(entry, 'written_off_raw') }
    case 'money_move': {
      const amount = amountOf(entry)
      const changes: Changes = {}
      for (const [side, change] of [
        ['from', -amount],
        ['to', amount],
      ] as const) {
        const name = MOVED_NAMES.find((known) => known === data[side])
        if (name !== undefined) changes[name] = (changes[name] ?? 0n) + change
      }
      return changes
    }
    default:
      return NO_CHANGES
  }
}

const MOVED_NAMES = ['invoices', 'remainders', 'unassigned'] as const

function changesOfPayout(entry: Counted, isFirstOwed: boolean): Changes {
  const { step, undoes } = entry.data
  if (undoes !== undefined) return { owed: amountOf(entry) }
  if (step === 'confirmed' || step === 'manual') return { owed: -amountOf(entry) }
  if (step === 'withdrawn') return { orders: amountOf(entry), owed: -amountOf(entry) }
  return step === 'owed' && isFirstOwed ? { orders: -amountOf(entry), owed: amountOf(entry) } : {}
}

function amountOf({ _id, data }: Counted, name: 'amount_raw' | 'written_off_raw' = 'amount_raw'): bigint {
  const text = data[name]
  if (typeof text !== 'string' || !/^\d{1,60}$/.test(text))
    throw new TypeError(`entry ${_id} expected data.${name} as decimal digits`)
  return BigInt(text)
}

/** Counts entries in their order. */
export interface LiabilityCount {
  /**
   * Adds the next entry.
   *
   * @param canRead whether it has valid content; computed if absent
   * @returns what is wrong with an entry that changed nothing for that
   */
  add(entry: EntryRecord, canRead?: boolean): string | undefined
  /** All that isn't the venue's own after the entries so far. */
  sums(): Liabilities
}

/**
 * Begins to count what isn't the venue's own. A payout's step `owed` counts once: entries that say so again have
 * `again`. Those from before closing entries stated these sums lack it, so a count from the beginning remembers
 * for which payouts it has met the step.
 *
 * @param stated the sums of a closing entry, to go on behind it; from the first entry on if absent
 */
export function countLiabilities(stated?: Liabilities): LiabilityCount {
  let sums = stated ?? NO_MONEY
  const met = stated === undefined ? new Set<unknown>() : undefined
  const add = (entry: EntryRecord): void => {
    const { step, payout_id: payoutId, again } = entry.data
    const isOwed = entry.kind === 'payout' && step === 'owed' && again === undefined
    const changes = changesOf(entry, isOwed && met?.has(payoutId) !== true)
    if (changes === NO_CHANGES) return
    for (const name of LIABILITY_NAMES) {
      const change = changes[name] ?? 0n
      if (change === 0n) continue
      const coin = coinOf(entry)
      sums = { ...sums, [coin]: { ...sums[coin], [name]: sums[coin][name] + change } }
    }
    if (isOwed) met?.add(payoutId)
  }
  return { sums: () => sums, add: (entry, canRead) => anomalyOf(entry, canRead, () => add(entry)) }
}

/**
 * Does what an entry says of sums. One that can't be read, or has no readable amount or coin, changes nothing;
 * every verifier of the sums follows this rule.
 *
 * @returns what is wrong with the entry, if it changed nothing for that
 */
function anomalyOf(
  entry: EntryRecord,
  canRead: boolean = isReadable(entry),
  add: () => void,
): string | undefined {
  if (!canRead) return `entry ${entry._id} has no canonical JSON`
  try {
    add()
    return undefined
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    return error.message
  }
}

/**
 * Adds an entry to the sums owed, as addToOwed() does; one that can't be read changes nothing.
 *
 * @param canRead whether the entry has valid content; computed if absent
 * @returns the new sums, and as `anomaly` what is wrong with an entry that changed nothing for that
 */
export function tryAddToOwed(
  owed: Owed,
  entry: EntryRecord,
  canRead?: boolean,
): { owed: Owed; anomaly?: string } {
  let sums = owed
  const anomaly = anomalyOf(entry, canRead, () => {
    sums = addToOwed(owed, entry)
  })
  return { owed: sums, ...(anomaly === undefined ? {} : { anomaly }) }
}

/** The sums that a closing entry states. @throws TypeError if it states none */
export function parseOwed(entry: EntryRecord): Owed {
  const { owed } = entry.data as { owed?: { xno?: unknown; xmr?: unknown } }
  if (!isSum(owed?.xno) || !isSum(owed.xmr))
    throw new TypeError(`entry ${entry._id} expected data.owed with the sums of xno and xmr`)
  return { xno: BigInt(owed.xno), xmr: BigInt(owed.xmr) }
}

/**
 * What a closing entry states of all that isn't the venue's own.
 *
 * @returns undefined if it states nothing, as those from before that was stated
 * @throws TypeError if it states it in another form
 */
export function parseLiabilities(entry: EntryRecord): Liabilities | undefined {
  const { liabilities } = entry.data as { liabilities?: { [coin: string]: { [name: string]: unknown } } }
  if (liabilities === undefined) return undefined
  const wrong = new TypeError(
    `entry ${entry._id} expected data.liabilities with the five sums of xno and xmr`,
  )
  const read = (coin: keyof Owed): CoinLiabilities => {
    const sums = LIABILITY_NAMES.map((name) => [name, liabilities?.[coin]?.[name]] as const)
    if (!sums.every(([, sum]) => isSum(sum))) throw wrong
    return Object.fromEntries(sums.map(([name, sum]) => [name, BigInt(sum as string)])) as CoinLiabilities
  }
  return { xno: read('xno'), xmr: read('xmr') }
}

const showLiabilities = (sums: CoinLiabilities) => ({
  orders: String(sums.orders),
  owed: String(sums.owed),
  invoices: String(sums.invoices),
  remainders: String(sums.remainders),
  unassigned: String(sums.unassigned),
})

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

/** What a closing entry states of money. */
export interface MoneyStated {
  sums: Liabilities
  /**
   * What is held; each closing entry states that, and all of the sums, once one has. Undefined: it states what is owed
   * alone, as those before.
   */
  assets: Assets | undefined
}

/**
 * Makes the entry that closes seal `seq`. It states what isn't the venue's own after all entries before it, and
 * the log, the keys and the seal before its own: so each seal's root covers all of history, and to rewrite one
 * seal, every later one has to be signed anew.
 *
 * @param at Unix seconds
 */
export function closingEntry(
  seq: number,
  at: number,
  { sums, assets }: MoneyStated,
  { prevSeal, log, keys }: StateBefore,
): PendingEntry {
  const { size, root } = log
  const owed = owedOf(sums)
  const liabilities = { xno: showLiabilities(sums.xno), xmr: showLiabilities(sums.xmr) }
  return {
    source: closingSource(seq),
    at,
    kind: 'solvency',
    data: {
      seal: sealRecordId(seq),
      owed: { xno: String(owed.xno), xmr: String(owed.xmr) },
      ...(assets === undefined ? {} : { liabilities, assets: showAssets(assets) }),
      prev_seal: prevSeal,
      log: { size, root },
      keys: { ...keys },
    },
  }
}

/**
 * Whether an entry is a closing entry of seal `seq`: by its kind, its source, the seal that it names, readable
 * sums, and assets of the right form. Whether what it states is true isn't checked.
 */
export function closesSeal(entry: EntryRecord, seq: number): boolean {
  if (entry.kind !== 'solvency' || !isReadable(entry) || entry.data['seal'] !== sealRecordId(seq))
    return false
  if (entry.source !== closingSource(seq) && !entry.source.startsWith(`${closingSource(seq)}/`)) return false
  try {
    parseOwed(entry)
    const { assets } = entry.data
    // Its assets can't be computed again: their form says all that the signer can know of them.
    return parseLiabilities(entry) === undefined ? assets === undefined : isAssets(assets)
  } catch {
    return false
  }
}

/**
 * The sums that the last entry of seal `seq` states; undefined if that entry is missing or doesn't close it.
 */
export const closingSums = (last: EntryRecord | undefined, seq: number): Owed | undefined =>
  last !== undefined && closesSeal(last, seq) ? parseOwed(last) : undefined

type Pages = (fromId: number, toId: number) => AsyncIterable<readonly EntryRecord[]>

/**
 * Begins to count behind a closing entry: from what it states, or if it states no liabilities, by all entries up to
 * it.
 *
 * @param closing undefined: from the first entry on
 * @param pages reads entries
 */
export async function countFrom(closing: EntryRecord | undefined, pages: Pages): Promise<LiabilityCount> {
  const stated = closing && parseLiabilities(closing)
  const count = countLiabilities(stated)
  if (closing === undefined || stated !== undefined) return count
  for await (const page of pages(1, closing._id)) for (const entry of page) count.add(entry)
  return count
}
