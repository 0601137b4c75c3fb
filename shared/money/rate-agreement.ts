import { parseRate } from './coin.ts'

export interface Quote {
  source: string
  /** USD per coin, decimal text as normalizeRate() gives it. */
  usd: string
  /** Present if it is in a dollar token, whose worth is somebody's promise. */
  inToken?: true
}

export interface AgreedRate {
  usd: string
  sources: string[]
}

/** Sources agree if their quotes are at most 5 % above the lowest among them. */
export const AGREEMENT_PERCENT = 5n
export const LEAST_SOURCES = 2

/**
 * Finds the rate that quotes agree on: the median (the lower of two) of the largest group of agreeing
 * quotes; among groups of one size, of the closest. So a single lying source can neither set the rate nor
 * move it past the quotes of two that agree. Quotes in a dollar token count only beside one in USD.
 *
 * @returns undefined if no two agree
 */
export function agreeOnRate(quotes: readonly Quote[]): AgreedRate | undefined {
  const sorted = quotes
    .map((quote) => ({ ...quote, value: parseRate(quote.usd) }))
    .sort((a, b) => (a.value < b.value ? -1 : a.value > b.value ? 1 : a.source < b.source ? -1 : 1))
  let best: typeof sorted = []
  for (const [from, lowest] of sorted.entries()) {
    const group = sorted
      .slice(from)
      .filter(({ value }) => value * 100n <= lowest.value * (100n + AGREEMENT_PERCENT))
    if (group.every(({ inToken }) => inToken === true)) continue
    if (group.length > best.length || (group.length === best.length && isCloser(group, best))) best = group
  }
  const middle = best[Math.floor((best.length - 1) / 2)]
  if (best.length < LEAST_SOURCES || middle === undefined) return undefined
  return { usd: middle.usd, sources: best.map(({ source }) => source) }
}

function isCloser(one: readonly { value: bigint }[], other: readonly { value: bigint }[]): boolean {
  const [low = 1n, high = 1n] = [one[0]?.value, one.at(-1)?.value]
  const [otherLow = 1n, otherHigh = 1n] = [other[0]?.value, other.at(-1)?.value]
  return high * otherLow < otherHigh * low
}
