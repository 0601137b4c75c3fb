import { z } from 'zod'
import type { Context } from '../context.ts'
import { createSharedReads } from '../platform/group-commit.ts'
import { tryAddToOwed, NOTHING_OWED, closingSums, type Owed } from '../ledger/solvency.ts'
import { COIN_FACTS } from '../money/coin-facts.ts'
import { COINS, formatAmount, type Coin } from '../money/coin.ts'
import type { AccountKind } from '../money/journal.ts'
import { unixTime } from '../platform/schema.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { MAX_ACCOUNTS_SHOWN } from './market-terms.ts'
import { sumAmounts } from './order.ts'

/** How long the sums of what is held are shown before they are read again. */
const HELD_FOR_MS = 10 * SECOND_MS
const PAGE_ENTRIES = 2_000

const amountView = z.string().describe('decimal text of the smallest unit')

const accountView = z.object({
  address: z.string(),
  kind: z.enum(['treasury', 'invoice']),
  expected_raw: amountView
    .nullable()
    .describe(
      'of an invoice: payments confirmed there and not yet sent on; of the treasury: as last looked at',
    ),
})

export const solvencyView = z.object({
  at: unixTime(),
  owed: z.array(
    z.object({
      currency: z.enum(COINS),
      at_last_seal_raw: amountView.nullable().describe('as the last entry of the last seal states it'),
      now_raw: amountView.describe('the same with the entries numbered since'),
      now: z.string(),
    }),
  ),
  last_seal: z.object({ seq: z.int(), at: unixTime(), entry_id: z.int() }).nullable(),
  held: z.array(
    z.object({
      currency: z.enum(COINS),
      received_raw: amountView.describe(
        'confirmed payments of market orders, but for what was given up after the chain took it back',
      ),
      paid_out_raw: amountView,
      fees_raw: amountView,
      held_raw: amountView.describe('received less paid out and fees'),
      held: z.string(),
    }),
  ),
  held_at: unixTime().describe('when held was summed'),
  nano_accounts: z
    .array(accountView)
    .describe('the accounts that hold it; a pass is paid into accounts of the same kind, so they hold more'),
  nano_accounts_truncated: z
    .boolean()
    .describe(
      `true if there are more than ${MAX_ACCOUNTS_SHOWN}, or more payments than that in them: then some are left out`,
    ),
  how_to_check: z.array(z.string()),
  honest_limits: z.array(z.string()),
})

type Sums = Record<Coin, { received: bigint; paidOut: bigint; fees: bigint }>

/** What is owed by the entries up to `upTo`. */
interface Counted {
  upTo: number
  owed: Owed
}

/** Makes a function that answers `GET /market/solvency`; requests at the same time share an answer. */
export function createSolvencyReader(ctx: Context): () => Promise<z.input<typeof solvencyView>> {
  const shareReads = createSharedReads<z.input<typeof solvencyView>>()
  let counted: Counted = { upTo: -1, owed: NOTHING_OWED }
  let held: { atMs: number; sums: Sums } | undefined

  /**
   * Adds up what is owed by all entries: goes on from the last seal, or from the last count if that is newer.
   */
  async function countOwedNow(sealed: Counted): Promise<Owed> {
    let { upTo, owed } = counted.upTo < sealed.upTo ? sealed : counted
    for (;;) {
      const page = await ctx.entries.list(upTo + 1, PAGE_ENTRIES)
      for (const entry of page) owed = tryAddToOwed(owed, entry).owed
      upTo = page.at(-1)?._id ?? upTo
      if (page.length < PAGE_ENTRIES) break
    }
    counted = { upTo, owed }
    return owed
  }

  return () =>
    shareReads('', async () => {
      const sealed = await readSealed(ctx)
      const nowMs = ctx.database.now()
      if (held === undefined || Math.abs(nowMs - held.atMs) >= HELD_FOR_MS)
        held = { atMs: nowMs, sums: await sumMarketFlows(ctx) }
      const { atMs, sums } = held
      const [owed, accounts] = await Promise.all([countOwedNow(sealed), listAccounts(ctx)])
      return {
        at: unixSeconds(nowMs),
        owed: COINS.map((currency) => ({
          currency,
          at_last_seal_raw: sealed.seal === undefined ? null : String(sealed.owed[currency]),
          now_raw: String(owed[currency]),
          now: formatSigned(owed[currency], currency),
        })),
        last_seal: sealed.seal ?? null,
        held: COINS.map((currency) => viewHeld(currency, sums[currency])),
        held_at: unixSeconds(atMs),
        ...accounts,
        how_to_check: HOW_TO_CHECK,
        honest_limits: HONEST_LIMITS,
      }
    })
}

/** Shows what is held of a coin for market orders, and how that comes about. */
function viewHeld(currency: Coin, { received, paidOut, fees }: Sums[Coin]) {
  const heldRaw = received - paidOut - fees
  return {
    currency,
    received_raw: String(received),
    paid_out_raw: String(paidOut),
    fees_raw: String(fees),
    held_raw: String(heldRaw),
    held: formatSigned(heldRaw, currency),
  }
}

const HOW_TO_CHECK = [
  'Walk GET /ledger: add every payment that names an order; subtract every fee taken, every payout with step confirmed or manual, and written_off_raw of every dispute outcome; add every fee with step returned and every payout that names a step in undoes; subtract instead of adding a payment with step undone. The sums are those of the solvency entry that ends each seal.',
  'Compare owed with held: they were computed apart, one from the ledger and one from the records of payments, payouts and orders. The records were summed at held_at, up to 10 seconds ago, and the ledger just now; an entry gets its number about a second after its record is written. So the two may differ by what happened in those seconds.',
  'Ask any Nano node for the balances of nano_accounts, and compare their sum with what is owed in xno.',
]

const HONEST_LIMITS = [
  "Nobody can see a Monero wallet's balance from outside: GET /solvency has proofs that the wallet made.",
  'Holding the coins today says nothing of tomorrow: no code forces a payout.',
]

/** The amount in coins, as decimal text; below 0 too. */
const formatSigned = (raw: bigint, coin: Coin): string =>
  raw < 0n ? `-${formatAmount(-raw, coin)}` : formatAmount(raw, coin)

/** Reads what is owed by the last seal, which ends with a solvency entry; nothing if there is none. */
async function readSealed(ctx: Context) {
  const last = await ctx.seals.last()
  const owed = last === undefined ? undefined : closingSums(await ctx.entries.find(last.to_id), last._id)
  if (last === undefined || owed === undefined) return { upTo: 0, owed: NOTHING_OWED }
  return { upTo: last.to_id, owed, seal: { seq: last._id, at: last.at, entry_id: last.to_id } }
}

/**
 * Sums, by the journal, what market orders received, what was paid out for them and what they took in fees.
 */
async function sumMarketFlows(ctx: Context): Promise<Sums> {
  const sumCoin = async (coin: Coin): Promise<[Coin, Sums[Coin]]> => {
    const flows = await ctx.journal.flows(coin)
    const flowOf = (from: AccountKind, to: AccountKind): bigint =>
      flows.find((flow) => flow.from === from && flow.to === to)?.sum ?? 0n
    const net = (from: AccountKind, to: AccountKind): bigint => flowOf(from, to) - flowOf(to, from)
    // What the chain took back counts as received until it is written off.
    // Money that was on the books already comes from the account that had it.
    const sources = ['chain', 'lost', 'unassigned', 'operator'] as const
    const received = sources.reduce((sum, from) => sum + net(from, 'order'), 0n)
    const paidOut = net('owed', 'paid') + net('owed', 'operator')
    return [coin, { received, paidOut, fees: net('order', 'fee') }]
  }
  return Object.fromEntries(await Promise.all(COINS.map(sumCoin))) as Sums
}

/** Lists the accounts with the venue's money, of the coins whose accounts anyone can look up. */
async function listAccounts(ctx: Context) {
  const accounts: z.input<typeof accountView>[] = []
  let isCut = false
  for (const coin of COINS.filter((each) => COIN_FACTS[each].hasPublicAccounts)) {
    // One payment above the limit says that there may be more accounts.
    const [record, unswept] = await Promise.all([
      ctx.coins.findCoin(coin),
      ctx.invoices.arrivals.listUnswept(coin, '', MAX_ACCOUNTS_SHOWN + 1),
    ])
    if (unswept.length > MAX_ACCOUNTS_SHOWN) isCut = true
    const { treasury_address: treasury, treasury_raw: treasuryRaw = null } = record ?? {}
    if (treasury !== undefined)
      accounts.push({ address: treasury, kind: 'treasury', expected_raw: treasuryRaw })
    const standing = unswept.filter(({ reversed_at: at }) => at === undefined)
    const byIndex = Map.groupBy(standing, ({ address_index: index }) => index)
    for (const { address, address_index } of await ctx.invoices.findByAddresses(coin, [...byIndex.keys()])) {
      const expectedRaw = sumAmounts(byIndex.get(address_index) ?? [])
      accounts.push({ address, kind: 'invoice', expected_raw: String(expectedRaw) })
    }
  }
  return {
    nano_accounts: accounts.slice(0, MAX_ACCOUNTS_SHOWN),
    nano_accounts_truncated: isCut || accounts.length > MAX_ACCOUNTS_SHOWN,
  }
}
