import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { MAX_RATE_AGE_MS } from '../platform/limits.ts'
import { SECOND_MS, nowSeconds } from '../platform/time.ts'
import { COINS, normalizeRate, priceInCoin, type Coin } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import type { RateRecord } from './coin-store.ts'
import { agreeOnRate, type AgreedRate } from './rate-agreement.ts'
import { fetchQuote, listRateSources } from './rate-sources.ts'

/** Whether a rate may still be used. */
export const isFresh = ({ at }: RateRecord, nowMs: number): boolean =>
  Math.abs(nowMs - at * SECOND_MS) <= MAX_RATE_AGE_MS

/** Reads the coin's stored rate. @returns undefined if there is none, or it is too old */
export async function readFreshRate(ctx: Context, coin: Coin): Promise<RateRecord | undefined> {
  const rate = await ctx.coins.findRate(coin)
  return rate !== undefined && isFresh(rate, ctx.database.now()) ? rate : undefined
}

/** Reads the coin's stored rate. @throws Refusal `rate_unavailable` if there is none, or it is too old */
export async function requireFreshRate(ctx: Context, coin: Coin): Promise<RateRecord> {
  const rate = await readFreshRate(ctx, coin)
  if (rate === undefined)
    throw new Refusal('rate_unavailable', `No two sources agree on a rate for ${coin} now; try again later.`)
  return rate
}

/** Converts USD cents at a rate to raw or piconero, rounded up to what can be shown. */
export const priceAt = (usdCents: number, rate: RateRecord): bigint =>
  priceInCoin(usdCents, rate.usd, rate._id)

/** Lists the coins set up here or elsewhere, or in which something is owed or a payment is under way. */
export async function listCoinsInUse(ctx: Context): Promise<Coin[]> {
  const [records, unpaid] = await Promise.all([ctx.coins.listCoins(), ctx.payouts.sumUnpaid()])
  const inUse = new Set(COINS.filter((coin) => COIN_FACTS[coin].isSetUp(ctx.config)))
  for (const { _id: coin, configured } of records)
    if (configured || unpaid[coin] > 0n || (await ctx.invoices.arrivals.listUnderWay(coin)).length > 0)
      inUse.add(coin)
  return [...inUse]
}

export const FIXED_RATE_SOURCE = 'fixed by the operator'

/** Stores the rate that the sources agree on, if they do. @returns whether there is a new rate */
export async function refreshRate(ctx: Context, coin: Coin): Promise<boolean> {
  const agreed = await askRate(ctx, coin)
  if (agreed === undefined) return false
  const { usd, sources } = agreed
  await ctx.coins.saveRate({ _id: coin, usd, source: sources.join(', '), at: nowSeconds(ctx) })
  return true
}

/**
 * Returns the operator's fixed rate, or asks the sources; undefined, which is logged, if no two of them
 * agree.
 */
async function askRate(ctx: Context, coin: Coin): Promise<AgreedRate | undefined> {
  const fixed = ctx.config.fixedRates[coin]
  if (fixed !== undefined) return { usd: normalizeRate(fixed), sources: [FIXED_RATE_SOURCE] }
  const asked = await Promise.allSettled(listRateSources(ctx.config.rateSources, coin).map(fetchQuote))
  const quotes = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const failures = asked.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
  const agreed = agreeOnRate(quotes)
  if (agreed === undefined)
    ctx.log.warn({ coin, quotes, failures }, 'no two sources, one of them in USD, agree on a new rate')
  else if (agreed.sources.length < asked.length)
    ctx.log.info({ coin, agreed, quotes, failures }, 'not every source agrees on the rate')
  return agreed
}
