import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { createLog } from '../../shared/platform/log.ts'
import { fetchQuote } from '../../shared/money/rate-sources.ts'
import { FIXED_RATE_SOURCE, readFreshRate, refreshRate } from '../../shared/money/rate.ts'
import { HANDLERS } from '../../workers/handlers.ts'
import { startBrokenPeer, type Behaviour } from '../support/broken-peer.ts'
import { isolate, leaveDatabase } from '../support/servers.ts'
import { BITFINEX, KRAKEN_XMR, KUCOIN } from '../support/tickers.ts'
import { withSigning } from '../support/signing.ts'

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
    const opened = openContext(config, log, { databaseTimeoutMs: 30_000 })
    ctx = { ...opened, database: { ...opened.database, now: () => nowMs } }
    await ctx.database.whenReady()
  })
  afterEach(async () => {
    await Promise.all(peers.splice(0).map((peer) => peer.close()))
    await ctx.coins.models.rates.deleteMany({})
    logged.length = 0
  })
  afterAll(async () => {
    await leaveDatabase(ctx.database.connection)
    await closeContext(ctx)
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
    await HANDLERS['refresh-rates'](withSigning(three), {})
    expect(await rate()).toBeUndefined()
    await ctx.coins.report('xmr', { configured: true }, nowMs / 1_000)
    await HANDLERS['refresh-rates'](withSigning(three), {})
    expect(await rate()).toMatchObject({ usd: '163.27' })
    nowMs += 60_000
    await HANDLERS['refresh-rates'](withSigning(three), {})
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
