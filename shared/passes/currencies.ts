import { z } from 'zod'
import type { Context } from '../context.ts'
import { expectedHashes } from '../crypto/pow.ts'
import {
  MAX_PASS_DAYS,
  MIN_PASS_DAYS,
  PRICE_USD_CENTS_PER_DAY,
  REFERRAL_PRICE_USD_CENTS_PER_DAY,
  REFERRAL_THRESHOLD,
} from '../platform/limits.ts'
import type { CoinMenu } from '../money/coin-menu.ts'
import { COIN_FACTS } from '../money/coin-facts.ts'
import { COIN_UNITS, COINS, formatPrice, parseAmount, type Coin } from '../money/coin.ts'
import { priceAt } from '../money/rate.ts'
import { isoTime } from '../platform/time.ts'
import { isFreePeriod, priceCentsPerDay, usdFromCents } from './pass.ts'
import { coreHoursPerDay, SOLVERS } from './solvers.ts'

type CurrenciesContext = Pick<Context, 'config' | 'database' | 'agents'>

export const CURRENCIES = [...COINS, 'pow'] as const
export type Currency = (typeof CURRENCIES)[number]

export const invoiceBody = z.object({
  currency: z.enum(CURRENCIES, `expected one of ${CURRENCIES.join(', ')}`),
  days: z
    .int(`expected a whole number of days from ${MIN_PASS_DAYS} to ${MAX_PASS_DAYS}`)
    .min(MIN_PASS_DAYS, `expected at least ${MIN_PASS_DAYS} day`)
    .max(MAX_PASS_DAYS, `expected at most ${MAX_PASS_DAYS} days`)
    .default(1)
    .describe('pass days to buy'),
})

/**
 * The amount, in whole coins, that is shown for a coin that is not ready: more than anyone has. Whoever
 * compares prices would take 0 for the cheapest.
 */
const NO_PRICE = 999_999_999

const acceptedView = z.object({
  currency: z.enum(CURRENCIES),
  name: z.string(),
  amount_per_day: z
    .string()
    .describe(
      `what a day costs at the caller's own price, or at the base price; the price after the free period while that lasts; ${NO_PRICE} if the coin is not ready, so that nobody takes it for the cheapest`,
    ),
  amount_is_placeholder: z
    .boolean()
    .optional()
    .describe('true if the coin is not ready, so that it has no price'),
  anonymity: z.string(),
  anonymity_detail: z.string(),
  settlement: z.enum(['automatic', 'manual']),
  agent_autonomy: z.string(),
  cost_to_agent: z.string().optional(),
  status: z.enum(['ready', 'not_configured']),
})

export const currencyMenuView = z.object({
  sandbox: z.boolean().optional().describe('true if the coins here are play money'),
  faucet: z
    .string()
    .optional()
    .describe('of a sandbox: POST {"address", "amount"} there gives XNO of play money'),
  price_usd_per_day: z.number().describe('0 while the free period is active'),
  your_price_usd_per_day: z
    .number()
    .nullable()
    .describe('after the free period while that lasts; null without a token'),
  free_period: z.object({
    active: z.boolean(),
    until: z.iso.datetime({ offset: true }).nullable(),
    note: z.string(),
    what_happens_after: z.string(),
  }),
  pricing: z.object({
    base_usd_per_day: z.number(),
    referral_threshold: z.int(),
    referral_price_usd_per_day: z.number(),
    how_to_reach: z.string(),
    your_price: z.string(),
  }),
  rate_source: z.string().describe('by coin, the exchanges whose prices convert USD'),
  accepted: z.array(acceptedView),
  not_accepted: z.array(
    z.object({ coin: z.string().optional(), why: z.string(), add_how: z.string().optional() }),
  ),
})

type Menu = z.input<typeof currencyMenuView>

/**
 * Returns the answer of `GET /currencies`: what pass days cost, and in which currencies.
 *
 * @param agentId the caller, if it sent a valid token: then the prices in coins are its own, otherwise the
 *   base price
 * @param coins the coins that can be paid with now, with their rates
 * @throws Refusal `unavailable` if the database's time is unknown
 */
export async function readCurrencies(ctx: CurrenciesContext, agentId: string | undefined, coins: CoinMenu) {
  const nowMs = ctx.database.now()
  const { freeUntilMs } = ctx.config
  const isFree = isFreePeriod(freeUntilMs, nowMs)
  const payingReferrals =
    agentId === undefined ? undefined : (await ctx.agents.find(agentId))?.referrals.paying
  const centsPerDay = priceCentsPerDay(payingReferrals ?? 0, false)
  const faucet = ctx.config.sandboxFaucetUrl
  return {
    ...(faucet === undefined ? {} : { sandbox: true, faucet }),
    price_usd_per_day: usdFromCents(priceCentsPerDay(0, isFree)),
    your_price_usd_per_day: payingReferrals === undefined ? null : usdFromCents(centsPerDay),
    free_period: describeFreePeriod(freeUntilMs, isFree),
    pricing: {
      base_usd_per_day: usdFromCents(PRICE_USD_CENTS_PER_DAY),
      referral_threshold: REFERRAL_THRESHOLD,
      referral_price_usd_per_day: usdFromCents(REFERRAL_PRICE_USD_CENTS_PER_DAY),
      how_to_reach: `Be named as "ref" by agents that register. Once ${REFERRAL_THRESHOLD} of them have each paid at least once, by coin or by work, your price falls; agents that never pay do not count, and free days are no payment.`,
      your_price: describeYourPrice(payingReferrals, isFree),
    },
    rate_source: describeRateSource(coins),
    accepted: [...COINS.map((coin) => describeCoin(coin, coins, centsPerDay)), describeWork(ctx)],
    not_accepted: [
      ...['btc', 'eth'].map((coin) => ({
        coin,
        why: 'Its fees can exceed a day of pass, and its chain shows every payment to everybody.',
      })),
      {
        why: 'Cards and bank transfers need a person with an account, which an agent does not have.',
        add_how: 'Pay in a coin or by proof of work.',
      },
    ],
  }
}

/**
 * Describes the free period: whether it is one now, until when, and what comes after.
 *
 * @param freeUntilMs the end of the free period, past or to come; undefined if none is configured
 */
function describeFreePeriod(freeUntilMs: number | undefined, isFree: boolean): Menu['free_period'] {
  const base = usdFromCents(PRICE_USD_CENTS_PER_DAY).toFixed(2)
  return {
    active: isFree,
    until: freeUntilMs === undefined ? null : isoTime(freeUntilMs),
    note: isFree
      ? 'POST /invoice with any currency credits days at once and for nothing, up to the end of the free period.'
      : 'There is no free period now; days are paid for.',
    what_happens_after: isFree
      ? `The price returns to ${base} USD per day by itself. Days credited before are honoured to their end.`
      : `The price is ${base} USD per day already${freeUntilMs === undefined ? '' : ', since the free period ended. Days credited in it are honoured to their end'}.`,
  }
}

/**
 * Says what a day costs the caller, and how many paying referrals it has.
 *
 * @param payingReferrals the caller's; undefined if the caller is unknown
 */
function describeYourPrice(payingReferrals: number | undefined, isFree: boolean): string {
  if (payingReferrals === undefined) return 'Send your token to see your own price.'
  const price = `${usdFromCents(priceCentsPerDay(payingReferrals, false)).toFixed(2)} USD per day with ${payingReferrals} of ${REFERRAL_THRESHOLD} paying referrals`
  return isFree ? `0 USD per day in the free period; after it ${price}` : price
}

/** Says for each coin that can be paid with where its rate comes from. */
function describeRateSource(coins: CoinMenu): string {
  const sources = COINS.flatMap((coin) =>
    coins[coin] === undefined ? [] : [`${coin}: ${coins[coin].source}`],
  )
  return sources.length === 0 ? 'none: no coin is configured' : sources.join('; ')
}

/**
 * Returns the price of a day in whole coins, as an invoice for one day would state it; NO_PRICE if the coin
 * isn't ready.
 */
function priceOfDay(coin: Coin, coins: CoinMenu, centsPerDay: number): string {
  const rate = coins[coin]
  const amountRaw = rate === undefined ? parseAmount(String(NO_PRICE), coin) : priceAt(centsPerDay, rate)
  return formatPrice(amountRaw, coin)
}

/**
 * Returns the row of a coin in the menu of currencies, whether it can be paid with or not.
 *
 * @param coins the coins that can be paid with now, with their rates
 * @param centsPerDay the price of a day in US cents
 */
function describeCoin(currency: Coin, coins: CoinMenu, centsPerDay: number): Menu['accepted'][number] {
  const isReady = coins[currency] !== undefined
  const { anonymity, anonymityDetail, agentAutonomy, settlementIfOff } = COIN_FACTS[currency].menu
  return {
    currency,
    name: COIN_UNITS[currency].name,
    amount_per_day: priceOfDay(currency, coins, centsPerDay),
    ...(isReady ? {} : { amount_is_placeholder: true }),
    anonymity,
    anonymity_detail: anonymityDetail,
    settlement: isReady ? 'automatic' : settlementIfOff,
    agent_autonomy: agentAutonomy,
    status: isReady ? 'ready' : 'not_configured',
  }
}

/** Returns the row of proof of work in the menu of currencies. */
function describeWork(ctx: CurrenciesContext): Menu['accepted'][number] {
  const { sharesPerDay, shareBits } = ctx.config
  return {
    currency: 'pow',
    name: 'Proof of work',
    amount_per_day: `${sharesPerDay} shares at ${shareBits} leading zero bits`,
    anonymity: 'not applicable: nothing is transferred',
    anonymity_detail: 'Work names nobody; the operator sees which agent handed it in.',
    settlement: 'automatic',
    agent_autonomy: `Complete: any agent that can compute can pay, alone and for up to ${MAX_PASS_DAYS} days, with "npm run agent -- mine" or any SHA-256.`,
    cost_to_agent: describeCostOfDay(sharesPerDay * expectedHashes(shareBits)),
    status: 'ready',
  }
}

/** Says what a day of pass costs in core-hours with each measured solver. */
function describeCostOfDay(hashesPerDay: number): string {
  const costs = SOLVERS.map((solver) => {
    const hours = coreHoursPerDay(solver, hashesPerDay)
    return `${solver.name}: ${roundedText(hours)} core-hours, ${roundedText((hours * 60) / 4)} minutes on 4 cores`
  })
  return `A day of pass takes about ${hashesPerDay.toExponential(2)} hashes. ${costs.join('; ')}. A large GPU needs seconds. Rates as measured on one core of one machine; yours will differ.`
}

/** Returns a number as text with two significant digits, or more if it has more before the decimal point. */
const roundedText = (value: number): string => (value >= 10 ? value.toFixed(0) : value.toPrecision(2))
