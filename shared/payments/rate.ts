import type { Context } from '../context.ts'
import { Refusal } from '../errors.ts'
import { MAX_RATE_AGE_MS } from '../limits.ts'
import { SECOND_MS, unixSeconds } from '../time.ts'
import { COINS, normalizeRate, priceInCoin, type Coin } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { MAX_RATE_AHEAD_MS, type RateRecord } from './coin-store.ts'
import { agreeOnRate, type AgreedRate } from './rate-agreement.ts'
import { fetchQuote, listRateSources } from './rate-sources.ts'

export function isFresh(rate: RateRecord, nowMs: number): boolean {
  const ageMs = nowMs - rate.at * SECOND_MS
  return ageMs <= MAX_RATE_AGE_MS && ageMs >= -MAX_RATE_AHEAD_MS
}

/** The rate of a coin; undefined where there is none, or only an old one. */
export async function readFreshRate(ctx: Context, coin: Coin): Promise<RateRecord | undefined> {
  const rate = await ctx.coins.findRate(coin)
  return rate !== undefined && isFresh(rate, ctx.now()) ? rate : undefined
}

/** @throws Refusal `rate_unavailable` where there is none, or only an old one */
export async function findFreshRate(ctx: Context, coin: Coin): Promise<RateRecord> {
  const rate = await readFreshRate(ctx, coin)
  if (rate === undefined)
    throw new Refusal('rate_unavailable', `There is no exchange rate for ${coin} that is fresh and agreed by two sources; try again later.`)
  return rate
}

export function priceAt(usdCents: number, rate: RateRecord): bigint {
  return priceInCoin(usdCents, rate.usd, rate._id)
}

/** Coins that somebody takes: this process is set up for it, or another one said so. */
export async function listCoinsInUse(ctx: Context): Promise<Coin[]> {
  const inUse = new Set((await ctx.coins.listCoins()).filter(({ configured }) => configured).map(({ _id }) => _id))
  return COINS.filter((coin) => inUse.has(coin) || COIN_FACTS[coin].isSetUp(ctx.config))
}

/** What stands as the source of a rate that XNO_USD or XMR_USD fixes. */
export const FIXED_RATE_SOURCE = 'none: the operator fixed this rate'

/**
 * Stores a coin's rate of now: the operator's, or what its sources agree on. Where they do not, nothing is stored, and the
 * rate before goes on ageing.
 *
 * @returns whether there is a new rate
 */
export async function refreshRate(ctx: Context, coin: Coin): Promise<boolean> {
  const agreed = await findRateNow(ctx, coin)
  if (agreed === undefined) return false
  await ctx.coins.saveRate({ _id: coin, usd: agreed.usd, source: agreed.sources.join(', '), at: unixSeconds(ctx.now()) })
  return true
}

async function findRateNow(ctx: Context, coin: Coin): Promise<AgreedRate | undefined> {
  const fixed = ctx.config.fixedRates[coin]
  if (fixed !== undefined) return { usd: normalizeRate(fixed), sources: [FIXED_RATE_SOURCE] }
  const asked = await Promise.allSettled(listRateSources(ctx.config.rateSources, coin).map(fetchQuote))
  const quotes = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const failures = asked.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
  const agreed = agreeOnRate(quotes)
  if (agreed === undefined)
    ctx.log.warn(
      { coin, quotes, failures },
      'no two sources, one of them in USD, agree on a rate; the one before stands until it is too old',
    )
  else if (agreed.sources.length < asked.length) ctx.log.info({ coin, agreed, quotes, failures }, 'not every source agrees on the rate')
  return agreed
}
