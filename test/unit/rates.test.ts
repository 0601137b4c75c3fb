import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { middleOf, normalizeRate, parseRate } from '../../shared/money/coin.ts'
import { agreeOnRate, type Quote } from '../../shared/money/rate-agreement.ts'
import { listRateSources, readQuote } from '../../shared/money/rate-sources.ts'
import {
  BITFINEX,
  COINGECKO,
  KRAKEN_ERROR,
  KRAKEN_XMR,
  KRAKEN_XNO,
  KUCOIN,
  KUCOIN_NONE,
} from '../support/tickers.ts'

const quotesOf = (...usd: string[]): Quote[] =>
  usd.map((text, place) => ({ source: 'abcd'.charAt(place), usd: text }))

describe('a rate', () => {
  it('is kept as the text it came as, cut and never rounded', () => {
    const cases = [
      ['0.95', '0.95'],
      ['0.9500', '0.95'],
      ['163', '163'],
      ['0163.10', '163.1'],
      ['0.9999999999999', '0.999999999999'],
      ['123456789.000000000001', '123456789.000000000001'],
      [`1.${'0'.repeat(60)}`, '1'],
    ]
    for (const [text = '', kept] of cases) expect(normalizeRate(text)).toBe(kept)
    for (const text of [
      '',
      '0',
      '0.0000000000001',
      '-1',
      '+1',
      '1e3',
      '1.5E-2',
      '.5',
      '5.',
      '1,000.5',
      '0x10',
      'NaN',
      '1234567890',
      ' 1',
      '1\n',
      '１',
      `0.${'1'.repeat(61)}`,
    ])
      expect(() => normalizeRate(text), text).toThrow(TypeError)
  })
})

describe('the middle between bid and ask', () => {
  it('is halfway, cut to the decimals of a rate, and is none if the bid is above the ask', () => {
    expect(
      [
        ['163.24', '163.29'],
        ['1', '1'],
        ['0.000000000001', '0.000000000002'],
        ['2', '1.999999999999'],
      ].map(([bid = '', ask = '']) => middleOf(bid, ask)),
    ).toEqual(['163.265', '1', '0.000000000001', undefined])
  })
})

describe('sources agree', () => {
  const value = () => fc.integer({ min: 1, max: 10_000_000 })
  const text = (thousandths: number) => normalizeRate((thousandths / 1_000).toFixed(3))
  const within5 = (a: string, b: string) => {
    const [low, high] = [parseRate(a), parseRate(b)].sort((x, y) => (x < y ? -1 : 1)) as [bigint, bigint]
    return high * 100n <= low * 105n
  }

  // holds: limits.rates
  it('where at least two lie within 5 percent, and never where none do', () => {
    fc.assert(
      fc.property(fc.array(value(), { maxLength: 3 }), (values) => {
        const quotes = quotesOf(...values.map(text))
        const pairs = quotes.flatMap((one, place) =>
          quotes.slice(place + 1).map((other) => within5(one.usd, other.usd)),
        )
        expect(agreeOnRate(quotes) !== undefined).toBe(pairs.includes(true))
      }),
    )
  })

  it('on something that one of them said, whatever order they are asked in, and name only those within 5 percent of it', () => {
    fc.assert(
      fc.property(fc.array(value(), { minLength: 2, maxLength: 3 }), (values) => {
        const quotes = quotesOf(...values.map(text))
        const agreed = agreeOnRate(quotes)
        expect(agreeOnRate(quotes.toReversed())).toEqual(agreed)
        if (agreed === undefined) return
        expect(quotes.map(({ usd }) => usd)).toContain(agreed.usd)
        expect(agreed.sources.length).toBeGreaterThanOrEqual(2)
        for (const { source, usd } of quotes)
          if (agreed.sources.includes(source)) expect(within5(usd, agreed.usd)).toBe(true)
      }),
    )
  })

  it('on a rate that one liar cannot carry further than 5 percent from what the two honest ones say', () => {
    fc.assert(
      fc.property(value(), fc.integer({ min: 0, max: 50 }), value(), (honest, apart, lie) => {
        const second = Math.floor((honest * (1_000 + apart)) / 1_000)
        const [low, high] = [text(honest), text(second)]
        const agreed = agreeOnRate(quotesOf(low, text(lie), high))
        expect(agreed).toBeDefined()
        expect(within5(agreed?.usd ?? '0', low) || within5(agreed?.usd ?? '0', high)).toBe(true)
      }),
    )
  })

  // holds: limits.rates.detail
  it('by a rule that can be worked out by hand', () => {
    expect(agreeOnRate(quotesOf('1', '1.05'))).toEqual({ usd: '1', sources: ['a', 'b'] })
    expect(agreeOnRate(quotesOf('1', '1.050000000001'))).toBeUndefined()
    expect(agreeOnRate(quotesOf('1.04', '1', '1.02'))).toEqual({ usd: '1.02', sources: ['b', 'c', 'a'] })
    expect(agreeOnRate(quotesOf('1', '1.04', '1.07'))).toEqual({ usd: '1.04', sources: ['b', 'c'] })
    expect(agreeOnRate(quotesOf('100', '1', '1.01'))).toEqual({ usd: '1', sources: ['b', 'c'] })
    // Of two groups of one size the closest, however high it lies; of two that are as close, the lower.
    expect(agreeOnRate(quotesOf('1', '1.04', '2', '2.02'))).toEqual({ usd: '2', sources: ['c', 'd'] })
    expect(agreeOnRate(quotesOf('2', '2.02', '1', '1.01'))).toEqual({ usd: '1', sources: ['c', 'd'] })
    for (const quotes of [quotesOf('1', '1'), quotesOf('1', '1').toReversed()])
      expect(agreeOnRate(quotes)).toEqual({ usd: '1', sources: ['a', 'b'] })
    expect(agreeOnRate(quotesOf('1'))).toBeUndefined()
    expect(agreeOnRate([])).toBeUndefined()
  })
})

describe('a dollar token that is not worth a dollar', () => {
  const quote = (source: string, usd: string, inToken?: true) => ({
    source,
    usd,
    ...(inToken === undefined ? {} : { inToken }),
  })

  it('moves no price: without a quote in USD among those that agree there is no rate', () => {
    expect(
      agreeOnRate([quote('a', '1.00'), quote('b', '1.25', true), quote('c', '1.26', true)]),
    ).toBeUndefined()
    expect(agreeOnRate([quote('b', '1.25', true), quote('c', '1.26', true)])).toBeUndefined()
    expect(
      agreeOnRate([
        quote('a', '1.00'),
        quote('d', '1.01'),
        quote('b', '1.25', true),
        quote('c', '1.26', true),
        quote('e', '1.26', true),
      ]),
    ).toEqual({
      usd: '1.00',
      sources: ['a', 'd'],
    })
    expect(agreeOnRate([quote('a', '1.00'), quote('b', '1.02', true)])).toEqual({
      usd: '1.00',
      sources: ['a', 'b'],
    })
  })

  it('cannot price a coin by the built-in sources, of which two quote USD', () => {
    for (const coin of ['xno', 'xmr'] as const) {
      const sources = listRateSources(undefined, coin)
      expect(sources.filter(({ inToken }) => inToken !== true).length).toBeGreaterThanOrEqual(2)
      for (const { url, inToken } of sources) expect(/USDT/.test(url)).toBe(inToken === true)
    }
  })
})

describe('the text of an exchange', () => {
  const sources = [...listRateSources(undefined, 'xno'), ...listRateSources(undefined, 'xmr')]
  const source = (name: string, url: string) => {
    const found = sources.find((one) => one.name === name && one.url.includes(url))
    if (found === undefined) throw new Error(`${name} is no source of ${url}`)
    return found
  }

  it('gives its price without ever being a float', () => {
    expect(readQuote(KRAKEN_XMR, source('Kraken', 'XMRUSD'))).toBe('163.265')
    expect(readQuote(KRAKEN_XNO, source('Kraken', 'NANOUSD'))).toBe('0.9515')
    expect(readQuote(KUCOIN, source('KuCoin', 'XMR'))).toBe('163.255')
    expect(readQuote(COINGECKO, source('CoinGecko', 'nano'))).toBe('0.952')
    expect(readQuote(BITFINEX, source('Bitfinex', 'XMR'))).toBe('163.24')
    const number = { name: 'x', path: ['p'] }
    expect(readQuote('{"p":0.1000000000000000055}', number)).toBe('0.1')
    expect(readQuote('{"p":123456789.123456789012345}', number)).toBe('123456789.123456789012')
  })

  it('is not set by the last trade of an exchange, but by what is bid and asked', () => {
    const moved = KRAKEN_XMR.replace('"c":["163.27000000","0.52341"]', '"c":["1.00","0.00001"]')
    expect(readQuote(moved, source('Kraken', 'XMRUSD'))).toBe('163.265')
    const crossed = KRAKEN_XMR.replace('"b":["163.24', '"b":["170.24')
    expect(() => readQuote(crossed, source('Kraken', 'XMRUSD'))).toThrow('a bid above its ask')
  })

  it('is refused where it is an error, of a wrong type, of a wrong shape or no JSON, and never repeated', () => {
    const number = { name: 'Shop', path: ['a', 0, 'p'] }
    const texts = [
      '{"a":[{"p":true}]}',
      '{"a":[{"p":null}]}',
      '{"a":[{"p":{}}]}',
      '{"a":[{"p":"0"}]}',
      '{"a":[{"p":-5}]}',
      '{"a":[{"p":1e5}]}',
    ]
    for (const text of [
      ...texts,
      '{"a":[]}',
      '{"a":{}}',
      '{}',
      '[]',
      'null',
      '1',
      '"<secret>"',
      '',
      '<html>secret</html>',
      '{"a":[{"p":1',
      '{"a":[{"p":"secret"}]}',
    ]) {
      expect(() => readQuote(text, number), text).toThrow(/^Shop /)
      try {
        readQuote(text, number)
      } catch (error) {
        expect(String(error)).not.toContain('secret')
      }
    }
    expect(() =>
      readQuote('{"__proto__":{"p":"5"}}', { name: 'Shop', path: ['toString', 'length'] }),
    ).toThrow('no price')
    for (const text of [KRAKEN_ERROR, KUCOIN_NONE])
      expect(() => readQuote(text, source('Kraken', 'XMRUSD'))).toThrow('Kraken has no price')
  })

  it('comes from three built-in exchanges for each coin, or from those that the setting names for it', () => {
    expect(new Set(listRateSources(undefined, 'xno').map(({ name }) => name)).size).toBe(3)
    expect(new Set(listRateSources(undefined, 'xmr').map(({ name }) => name)).size).toBe(3)
    const setting =
      'xno=http://a.test:8/x?y=1#result.XXMRZUSD.c[0], xno=https://b.test/#[0].last,xmr=http://c.test/#p-1'
    expect(listRateSources(setting, 'xno')).toEqual([
      { name: 'a.test:8', url: 'http://a.test:8/x?y=1', path: ['result', 'XXMRZUSD', 'c', 0] },
      { name: 'b.test', url: 'https://b.test/', path: [0, 'last'] },
    ])
    expect(listRateSources(setting, 'xmr')).toEqual([
      { name: 'c.test', url: 'http://c.test/', path: ['p-1'] },
    ])
    expect(listRateSources('xmr=http://c.test/#p', 'xno')).toEqual(listRateSources(undefined, 'xno'))
  })
})
