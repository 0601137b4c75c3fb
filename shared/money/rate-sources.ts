import { omitUndefined } from '../platform/omit-undefined.ts'
import { readBounded } from '../platform/http.ts'
import { RATE_TIMEOUT_MS, MAX_RATE_ANSWER_BYTES } from '../platform/limits.ts'
import { middleOf, normalizeRate, type Coin } from './coin.ts'
import type { Quote } from './rate-agreement.ts'

export interface RateSource {
  name: string
  url: string
  /** Present if it quotes a dollar token instead of USD, as most exchanges do. */
  inToken?: true
  /** Where the price stands in the JSON, or bid and ask, of which the middle counts. */
  path: Place | readonly [bid: Place, ask: Place]
}

/** Names and places in turn. */
type Place = readonly (string | number)[]

/**
 * Of an exchange it is the middle between bid and ask: in a thin book one tiny trade sets the price of the last
 * one. Two of each three quote USD: if USDT is no longer worth a dollar, that alone can't
 * set a price.
 */
const BUILT_IN: Readonly<Record<Coin, readonly RateSource[]>> = {
  xno: [
    // {"error":[],"result":{"NANOUSD":{"a":["0.95300","100","100.0"],"b":["0.95000","20","20.0"],…}}}: ask and bid.
    kraken('NANOUSD', 'NANOUSD'),
    kuCoin('XNO-USDT'),
    // {"nano":{"usd":0.95}}: over the exchanges that it knows, in USD.
    {
      name: 'CoinGecko',
      url: 'https://api.coingecko.com/api/v3/simple/price?ids=nano&vs_currencies=usd',
      path: ['nano', 'usd'],
    },
  ],
  xmr: [
    kraken('XMRUSD', 'XXMRZUSD'),
    kuCoin('XMR-USDT'),
    // [BID, BID_SIZE, ASK, ASK_SIZE, DAILY_CHANGE, DAILY_CHANGE_RELATIVE, LAST_PRICE, VOLUME, HIGH, LOW]: numbers
    { name: 'Bitfinex', url: 'https://api-pub.bitfinex.com/v2/ticker/tXMRUSD', path: [[0], [2]] },
  ],
}

function kraken(pair: string, field: string): RateSource {
  const url = `https://api.kraken.com/0/public/Ticker?pair=${pair}`
  return {
    name: 'Kraken',
    url,
    path: [
      ['result', field, 'b', 0],
      ['result', field, 'a', 0],
    ],
  }
}

/** {"code":"200000","data":{"bestBid":"0.95","bestAsk":"0.96",…}} */
function kuCoin(symbol: string): RateSource {
  const url = `https://api.kucoin.com/api/v1/market/orderbook/level1?symbol=${symbol}`
  return {
    name: 'KuCoin',
    url,
    path: [
      ['data', 'bestBid'],
      ['data', 'bestAsk'],
    ],
    inToken: true,
  }
}

/** A coin's sources in the setting RATE_SOURCES (`coin=URL#json.path`, …), or else the built-in ones. */
export function listRateSources(setting: string | undefined, coin: Coin): readonly RateSource[] {
  const named = (setting ?? '').split(',').flatMap((text) => {
    const [, of, url, path] = /^(xno|xmr)=([^#]+)#(.+)$/.exec(text.trim()) ?? []
    return of === coin && url !== undefined && path !== undefined
      ? [{ name: new URL(url).host, url, path: parsePath(path) }]
      : []
  })
  return named.length === 0 ? BUILT_IN[coin] : named
}

/** `result.XXMRZUSD.c[0]` or `[6]` → names and places. */
function parsePath(text: string): (string | number)[] {
  return [...text.matchAll(/\[(\d{1,6})\]|([\w-]+)/g)].map(([, place, name]) =>
    place === undefined ? String(name) : Number(place),
  )
}

/** Asks a source, within bounds of time and size. @throws Error, which repeats nothing of the answer */
export async function fetchQuote(source: RateSource): Promise<Quote> {
  const response = await fetch(source.url, {
    headers: { accept: 'application/json' },
    redirect: 'error',
    signal: AbortSignal.timeout(RATE_TIMEOUT_MS),
  })
  const tooLong = () => new Error(`the answer is longer than ${MAX_RATE_ANSWER_BYTES} bytes`)
  const text = await readBounded(response, MAX_RATE_ANSWER_BYTES, tooLong)
  if (response.status !== 200) throw new Error(`${source.name} answered with HTTP status ${response.status}`)
  return { source: source.name, usd: readQuote(text, source), ...omitUndefined({ inToken: source.inToken }) }
}

/**
 * @returns the price as decimal text
 * @throws Error if it is not JSON, or no number above 0 stands there, or the bid is above the ask
 */
export function readQuote(text: string, { name, path }: Pick<RateSource, 'name' | 'path'>): string {
  let answer: unknown
  try {
    answer = parseKeepingNumbers(text)
  } catch {
    throw new Error(`${name} did not answer with JSON`)
  }
  if (!isBidAndAsk(path)) return readPrice(answer, name, path)
  const [bid, ask] = path.map((place) => readPrice(answer, name, place))
  const middle = middleOf(bid ?? '', ask ?? '')
  if (middle === undefined) throw new Error(`${name} has a bid above its ask`)
  return middle
}

const isBidAndAsk = (path: RateSource['path']): path is readonly [Place, Place] => Array.isArray(path[0])

function readPrice(answer: unknown, name: string, place: Place): string {
  let value = answer
  for (const step of place) {
    const isThere = typeof value === 'object' && value !== null && Object.hasOwn(value, step)
    value = isThere ? (value as Record<string | number, unknown>)[step] : undefined
  }
  try {
    if (typeof value !== 'string') throw new TypeError('there is neither text nor a number')
    return normalizeRate(value)
  } catch (error) {
    throw new Error(`${name} has no price at ${place.join('.')}`, { cause: error })
  }
}

/** JSON whose numbers stay the text that they were sent as: a price never becomes a float. */
function parseKeepingNumbers(text: string): unknown {
  // The third argument gives a primitive's own source text (ECMAScript proposal "JSON.parse source text
  // access", in V8 since 11.4).
  const keep = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === 'number' ? (context?.source ?? null) : value
  return JSON.parse(text, keep)
}
