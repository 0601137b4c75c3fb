import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../shared/platform/config.ts'
import { openContext, type Context } from '../../shared/context.ts'
import { createLog } from '../../shared/platform/log.ts'
import { normalizeRate, parseRate } from '../../shared/money/coin.ts'
import { agreeOnRate, type Quote } from '../../shared/money/rate-agreement.ts'
import { fetchQuote, listRateSources, readQuote } from '../../shared/money/rate-sources.ts'
import { FIXED_RATE_SOURCE, readFreshRate, refreshRate } from '../../shared/money/rate.ts'
import { HANDLERS } from '../../workers/handlers.ts'
import { startBrokenPeer, type Behaviour } from '../support/broken-peer.ts'
import { isolate, leaveDatabase } from '../support/servers.ts'

const quotesOf = (...usd: string[]): Quote[] =>
  usd.map((text, place) => ({ source: 'abc'.charAt(place), usd: text }))

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
    expect(agreeOnRate(quotesOf('1'))).toBeUndefined()
    expect(agreeOnRate([])).toBeUndefined()
  })
})

/** What the exchanges' public tickers answer, as their documentation and their clients show it. */
const KRAKEN_XMR =
  '{"error":[],"result":{"XXMRZUSD":{"a":["163.29000000","5","5.000"],"b":["163.24000000","1","1.000"],"c":["163.27000000","0.52341"],"v":["1023.1","2044.9"],"p":["162.1","161.9"],"t":[1210,2554],"l":["159.01","158.4"],"h":["164.9","165.2"],"o":"160.77000000"}}}'
const KRAKEN_XNO =
  '{"error":[],"result":{"NANOUSD":{"a":["0.95300","100","100.0"],"b":["0.95000","20","20.0"],"c":["0.95100","12.5"],"o":"0.94"}}}'
const KRAKEN_ERROR = '{"error":["EQuery:Unknown asset pair"]}'
const KUCOIN =
  '{"code":"200000","data":{"time":1700000000000,"sequence":"1","price":"163.3","size":"0.1","bestBid":"163.2","bestAsk":"163.31"}}'
const KUCOIN_NONE = '{"code":"200000","data":null}'
const COINGECKO = '{"nano":{"usd":0.952}}'
const BITFINEX = '[163.2,51.3,163.28,44.1,-1.02,-0.0062,163.25,1523.9,166.01,158.9]'

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

describe('three exchanges', () => {
  let ctx: Context
  const logged: string[] = []
  const peers: { close(): Promise<void> }[] = []
  let nowMs = Date.parse('2030-01-01T00:00:00Z')

  beforeAll(async () => {
    const { mongodbUrl, redisUrl, queuePrefix } = isolate()
    const config = readConfig(
      { MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl, QUEUE_PREFIX: queuePrefix },
      'workers',
    )
    const log = createLog('test', 'info', { write: (line: string) => void logged.push(line) })
    ctx = { ...openContext(config, log, { databaseTimeoutMs: 30_000 }), databaseNow: () => nowMs }
    await ctx.database.whenReady()
  })
  afterEach(async () => {
    await Promise.all(peers.splice(0).map((peer) => peer.close()))
    await ctx.coins.models.rates.deleteMany({})
    logged.length = 0
  })
  afterAll(async () => {
    await leaveDatabase(ctx.database.connection)
    await ctx.close()
  })

  const say =
    (text: string, type = 'application/json'): Behaviour =>
    (res) =>
      void res.writeHead(200, { 'Content-Type': type }).end(text)
  const PATHS = ['result.XXMRZUSD.c[0]', 'data.price', '[6]']

  /** A context whose three sources behave so. */
  async function askThree(...behaviours: Behaviour[]): Promise<Context> {
    const urls: string[] = []
    for (const [place, behaviour] of behaviours.entries()) {
      const peer = await startBrokenPeer(behaviour)
      peers.push(peer)
      urls.push(`xmr=${peer.url}/ticker?pair=XMR#${PATHS[place]}`)
    }
    return { ...ctx, config: { ...ctx.config, rateSources: urls.join(',') } }
  }
  const rate = () => ctx.coins.findRate('xmr')

  // holds: limits.rates.detail
  it('that agree give the middle one, with their names and the time', async () => {
    expect(await refreshRate(await askThree(say(KRAKEN_XMR), say(KUCOIN), say(BITFINEX)), 'xmr')).toBe(true)
    const stored = await rate()
    expect(stored).toMatchObject({ usd: '163.27', at: nowMs / 1_000 })
    expect(stored?.source.split(', ')).toHaveLength(3)
  })

  const LIES: [what: string, lie: Behaviour, said?: string][] = [
    ['a price ten times as high', say('[0,0,0,0,0,0,1632.5]')],
    ['a price of nothing', say('[0,0,0,0,0,0,0]')],
    ['a price with an exponent', say('[0,0,0,0,0,0,1e400]')],
    ['a wrong type', say('[0,0,0,0,0,0,{"price":163}]')],
    ['another shape', say('{"error":"rate limited"}')],
    ['HTML', say('<html><body>163.25</body></html>', 'text/html')],
    [
      'a body without end',
      (res) => {
        res.writeHead(200, { 'Content-Type': 'application/json' })
        const fill = () => {
          while (!res.destroyed && res.write('['.repeat(16_384)));
        }
        res.on('drain', fill)
        fill()
      },
      'longer than 65536 bytes',
    ],
    [
      'half an answer',
      (res) => {
        res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '500' })
        res.write(BITFINEX.slice(0, 30))
        setImmediate(() => res.destroy())
      },
    ],
    ['a redirect', (res) => void res.writeHead(302, { Location: 'http://127.0.0.1:9/' }).end()],
    ['an error', (res) => void res.writeHead(503).end(BITFINEX)],
    ['nested lists without end', say('['.repeat(60_000))],
    ['text that is not UTF-8', (res) => void res.writeHead(200).end(Buffer.from([0x5b, 0xff, 0xfe, 0x5d]))],
  ]
  it.each(LIES)(
    'of which one gives %s are outvoted by the others',
    async (_what, lie, said = 'not every source agrees') => {
      expect(await refreshRate(await askThree(say(KRAKEN_XMR), say(KUCOIN), lie), 'xmr')).toBe(true)
      expect(await rate()).toMatchObject({ usd: '163.27' })
      expect((await rate())?.source.split(', ')).toHaveLength(2)
      expect(logged.join('')).toContain(said)
    },
  )

  it('of which one never answers are waited for no longer than said', async () => {
    const three = await askThree(say(KRAKEN_XMR), say(KUCOIN), () => {})
    expect(await refreshRate(three, 'xmr')).toBe(true)
    expect(await rate()).toMatchObject({ usd: '163.27' })
  })

  it('that do not agree leave the rate before to grow old', async () => {
    await ctx.coins.saveRate({ _id: 'xmr', usd: '150', source: 'before', at: nowMs / 1_000 - 60 })
    const other = say('{"data":{"price":"180"}}')
    expect(await refreshRate(await askThree(say(KRAKEN_XMR), other, say('<html>')), 'xmr')).toBe(false)
    expect(await rate()).toEqual({ _id: 'xmr', usd: '150', source: 'before', at: nowMs / 1_000 - 60 })
    expect(logged.join('')).toContain('no two sources, one of them in USD, agree')
  })

  // holds: limits.rates.detail
  it('are not asked where the operator fixed the rate, and the rate says so', async () => {
    const asked: string[] = []
    const three = await askThree(
      (res) => (
        asked.push('asked'),
        say(KRAKEN_XMR)(res, { method: '', path: '', token: undefined, body: undefined }, 0)
      ),
    )
    const fixed = { ...three, config: { ...three.config, fixedRates: { xno: undefined, xmr: '00.950' } } }
    expect(await refreshRate(fixed, 'xmr')).toBe(true)
    expect(await rate()).toMatchObject({ usd: '0.95', source: FIXED_RATE_SOURCE })
    expect(asked).toEqual([])
  })

  it('are asked by the job for the coins in use, and for no other', async () => {
    const three = await askThree(say(KRAKEN_XMR), say(KUCOIN), say(BITFINEX))
    await HANDLERS['refresh-rates'](three, {})
    expect(await rate()).toBeUndefined()
    await ctx.coins.report('xmr', { configured: true }, nowMs / 1_000)
    await HANDLERS['refresh-rates'](three, {})
    expect(await rate()).toMatchObject({ usd: '163.27' })
    nowMs += 60_000
    await HANDLERS['refresh-rates'](three, {})
    expect((await rate())?.at).toBe(nowMs / 1_000)
  })

  it('cannot put an older rate in place of a newer one', async () => {
    await ctx.coins.saveRate({ _id: 'xmr', usd: '2', source: 'b', at: 200 })
    await Promise.all([1, 2, 3].map(() => ctx.coins.saveRate({ _id: 'xmr', usd: '1', source: 'a', at: 100 })))
    expect(await rate()).toMatchObject({ usd: '2', at: 200 })
  })

  it('do not stand for two hours because they were read by a clock that was two hours ahead', async () => {
    const fixed = (usd: string): Context => ({
      ...ctx,
      config: { ...ctx.config, fixedRates: { xno: undefined, xmr: usd } },
    })
    const AHEAD_MS = 7_200_000
    const before = nowMs
    try {
      nowMs = Date.now() + AHEAD_MS
      await refreshRate(fixed('1'), 'xmr')
      expect(await readFreshRate(ctx, 'xmr')).toMatchObject({ usd: '1' })
      nowMs -= AHEAD_MS
      expect(await readFreshRate(ctx, 'xmr')).toBeUndefined()
      await refreshRate(fixed('2'), 'xmr')
      expect(await readFreshRate(ctx, 'xmr')).toMatchObject({ usd: '2', at: Math.floor(nowMs / 1_000) })
    } finally {
      nowMs = before
    }
  })

  it('say what is wrong with an address that does not answer', async () => {
    await expect(fetchQuote({ name: 'nobody', url: 'http://127.0.0.1:9/', path: [] })).rejects.toThrow()
  })
})
