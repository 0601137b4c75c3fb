import type { Config } from '../platform/config.ts'

/**
 * Inside, money is a BigInt in the coin's smallest unit (raw, piconero); in MongoDB and on the wire it is
 * decimal text. A price in USD is rounded when it becomes an amount, by priceInCoin(): up, at the decimals
 * that are shown. Nothing else rounds an amount.
 */
export const COINS = ['xno', 'xmr'] as const
export type Coin = (typeof COINS)[number]

interface CoinUnits {
  name: string
  unit: string
  /** 1 coin = 10^decimals of the smallest unit. */
  decimals: number
  /** Decimals of a price as `GET /currencies` shows it. */
  shownDecimals: number
}

export const COIN_UNITS: Readonly<Record<Coin, CoinUnits>> = {
  xno: { name: 'Nano', unit: 'raw', decimals: 30, shownDecimals: 6 },
  xmr: { name: 'Monero', unit: 'piconero', decimals: 12, shownDecimals: 8 },
}

type CoinJob = 'watch' | 'check' | 'fill' | 'reconcile'

/** What is known of a coin without its node or its keys, so the API may import it. */
export interface CoinFacts {
  isSetUp(config: Config): boolean
  /** Parses an address that somebody has a key to; those with one `account` pay into one account. */
  parseAddress(text: string): { address: string; account: string } | undefined
  paymentUri(address: string, amountRaw: bigint): string
  readonly addressForm: string
  /** Confirmations that an invoice's payment needs. @param base the coin's own number, or its setting's */
  requiredConfirmations(invoice: { order_id?: string }, base: number): number
  readonly menu: {
    anonymity: string
    anonymityDetail: string
    agentAutonomy: string
    settlementIfOff: 'automatic' | 'manual'
  }
  readonly hasPublicAccounts: boolean
  /** Whether a transaction pays one address alone, so that its hash says which payment it is. */
  readonly paysOneAddress: boolean
  /** The address that our transaction of kind `payout` pays, if it says so itself. @param signed as it is stored */
  payeeOf?(signed: string): string
  readonly queues: { readonly [Job in CoinJob]: `${Job}-${'nano' | 'monero'}` }
}

/** The smallest amount that counts as money: one of the last decimal that a price shows. */
export function dustThreshold(coin: Coin): bigint {
  const { decimals, shownDecimals } = COIN_UNITS[coin]
  return 10n ** BigInt(decimals - shownDecimals)
}

/** Formats an amount in coins, with `minDecimals` decimals or more. @throws TypeError if it is negative */
export function formatAmount(amountRaw: bigint, coin: Coin, minDecimals = 0): string {
  if (amountRaw < 0n) throw new TypeError(`"amountRaw" expected 0 or more, got ${amountRaw}`)
  return formatDecimal(amountRaw, COIN_UNITS[coin].decimals, minDecimals)
}

export const formatPrice = (amountRaw: bigint, coin: Coin): string =>
  formatAmount(amountRaw, coin, COIN_UNITS[coin].shownDecimals)

function formatDecimal(value: bigint, decimals: number, minDecimals: number): string {
  const digits = value.toString().padStart(decimals + 1, '0')
  const fraction = digits.slice(-decimals).replace(/0+$/, '').padEnd(minDecimals, '0')
  return fraction === '' ? digits.slice(0, -decimals) : `${digits.slice(0, -decimals)}.${fraction}`
}

/** Parses decimal text in coins. @throws TypeError if it is not that, or has more decimals than the coin */
export function parseAmount(text: string, coin: Coin): bigint {
  const { decimals, name } = COIN_UNITS[coin]
  return parseDecimal(text, decimals, `an amount of ${name}`)
}

/** Digits before the point and after it; bounded, so that no text becomes an endless number. */
const DECIMAL = /^(\d{1,20})(?:\.(\d{1,30}))?$/

/**
 * Parses decimal text to units of 10^-decimals.
 *
 * @param what was expected, for the TypeError for other text
 */
function parseDecimal(text: string, decimals: number, what: string): bigint {
  const [, whole, fraction = ''] = DECIMAL.exec(text) ?? []
  if (whole === undefined || fraction.length > decimals)
    throw new TypeError(`expected ${what} with at most ${decimals} decimals, got ${text}`)
  return BigInt(whole + fraction.padEnd(decimals, '0'))
}

/** Decimals of a rate; further ones that a source gives are cut off. */
const RATE_DECIMALS = 12

/** Cuts a rate to 12 decimals. @throws TypeError unless it is a decimal number above 0 and below 10^9 */
export function normalizeRate(text: string): string {
  const [, whole, fraction = ''] = /^(\d{1,9})(?:\.(\d{1,60}))?$/.exec(text) ?? []
  if (whole === undefined) throw new TypeError('expected a rate in USD as a decimal number')
  const kept = fraction.slice(0, RATE_DECIMALS).replace(/0+$/, '')
  const usd = `${whole.replace(/^0+(?=\d)/, '')}${kept === '' ? '' : `.${kept}`}`
  if (usd === '0') throw new TypeError('expected a rate in USD above 0')
  return usd
}

/** Parses a rate to units of 10^-12 USD. @throws TypeError if it is not a rate */
export const parseRate = (usd: string): bigint => parseDecimal(usd, RATE_DECIMALS, 'a rate in USD')

/** The rate in the middle between bid and ask; undefined if the bid is above the ask. */
export function middleOf(bid: string, ask: string): string | undefined {
  const [low, high] = [parseRate(bid), parseRate(ask)]
  return low > high ? undefined : normalizeRate(formatDecimal((low + high) / 2n, RATE_DECIMALS, 0))
}

/** Converts whole US cents, above 0, to the smallest unit, rounded up at the decimals that are shown. */
export function priceInCoin(usdCents: number, rateUsd: string, coin: Coin): bigint {
  if (!Number.isSafeInteger(usdCents) || usdCents <= 0)
    throw new TypeError(`"usdCents" expected a whole number above 0, got ${usdCents}`)
  const rate = parseRate(rateUsd)
  if (rate === 0n) throw new TypeError('"rateUsd" expected a rate above 0')
  const { shownDecimals } = COIN_UNITS[coin]
  const dividend = BigInt(usdCents) * 10n ** BigInt(RATE_DECIMALS - 2 + shownDecimals)
  return ((dividend + rate - 1n) / rate) * dustThreshold(coin)
}
