import { hash } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { maxHeaderSize, type IncomingMessage, type ServerResponse } from 'node:http'
import { describe, expect, it, vi } from 'vitest'
import type { z } from 'zod'
import { readBody } from '../../api/http/body.ts'
import { createGate } from '../../api/gate/gate.ts'
import { createLimitedServer } from '../../api/http/server.ts'
import { createWaits } from '../../api/waits.ts'
import { describeLimits } from '../../shared/about/limits-page.ts'
import { invoiceBody } from '../../shared/passes/currencies.ts'
import { handleField, profileBody } from '../../shared/agents/agent.ts'
import { claimBody, resolveBody } from '../../shared/claims/claim.ts'
import type { Context } from '../../shared/context.ts'
import { NOTHING_SEEN } from '../../shared/crypto/author.ts'
import { expectedHashes } from '../../shared/crypto/pow.ts'
import { eventsQuery } from '../../shared/events/event.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { maxConnectionsFor, readDescriptorLimit } from '../../shared/platform/limit-connections.ts'
import {
  DAILY_BYTES,
  LIST_LIMIT,
  MAX_UNDER_WAY,
  RECORD_BYTES,
  TOKEN_CACHE_MS,
  VERDICT_LIMIT,
  WALK_LIMIT,
} from '../../shared/platform/limits.ts'
import { limitQuery } from '../../shared/platform/schema.ts'
import { offerBody } from '../../shared/market/offer.ts'
import { deliverBody, disputeBody } from '../../shared/market/order-views.ts'
import { dmBody } from '../../shared/messages/message.ts'
import { COINS, COIN_UNITS, dustThreshold, parseAmount } from '../../shared/money/coin.ts'
import { MONERO_FACTS } from '../../shared/money/coins/monero/monero-facts.ts'
import { NANO_FACTS } from '../../shared/money/coins/nano/nano-facts.ts'
import { isFresh } from '../../shared/money/rate.ts'
import { postBody } from '../../shared/posts/post.ts'
import { parseNonce } from '../../shared/crypto/pow.ts'
import { submitBody } from '../../shared/passes/work.ts'

/*
 * The numbers are read from the text of GET /limits, so each test fails if the text and what is done differ.
 */

const { limits } = describeLimits(readConfig({}, 'start'))
const rowOf = (name: string) => {
  const row = limits.find(({ limit }) => limit === name)
  if (row === undefined) throw new Error(`GET /limits has no row ${name}`)
  return row
}
/** What `pattern` finds in a row, value and detail, as numbers. */
function stated(name: string, pattern: RegExp): number[] {
  const { value, detail = '' } = rowOf(name)
  const found = pattern.exec(`${value}; ${detail}`)
  if (found === null) throw new Error(`${name} does not say ${String(pattern)}`)
  return found.slice(1).map(Number)
}
const statedOne = (name: string, pattern: RegExp): number => stated(name, pattern)[0] ?? Number.NaN

const KIB = 1024
const characters = (count: number): string => '🜚'.repeat(count)
const bytes = (count: number): string => `${'é'.repeat(Math.floor(count / 2))}${'a'.repeat(count % 2)}`
const many = (count: number, make: (index: number) => unknown): unknown[] =>
  Array.from({ length: count }, (_, index) => make(index))

interface Bound {
  name: string
  row: string
  /** Finds the number in the row. */
  says: RegExp
  /** Times this, for KiB. */
  unit?: number
  field: z.ZodType
  /** A value of that size. */
  make: (size: number) => unknown
  /** A bound from below: one less is refused. */
  isLeast?: true
  step?: number
}

const BOUNDS: Bound[] = [
  { name: 'handle', row: 'Handle', says: /1 to (\d+) /, field: handleField, make: characters },
  {
    name: 'least handle',
    row: 'Handle',
    says: /(\d+) to/,
    field: handleField,
    make: characters,
    isLeast: true,
  },
  {
    name: 'name',
    row: 'Profile',
    says: /name at most (\d+)/,
    field: profileBody.shape.name,
    make: characters,
  },
  {
    name: 'purpose',
    row: 'Profile',
    says: /purpose at most (\d+)/,
    field: profileBody.shape.purpose,
    make: characters,
  },
  {
    name: 'capabilities',
    row: 'Profile',
    says: /at most (\d+) capabilities/,
    field: profileBody.shape.capabilities,
    make: (size) => many(size, (index) => `c${index}`),
  },
  {
    name: 'capability',
    row: 'Profile',
    says: /capabilities of at most (\d+)/,
    field: profileBody.shape.capabilities,
    make: (size) => [characters(size)],
  },
  {
    name: 'post',
    row: 'Post',
    says: /at most (\d+) KiB/,
    unit: KIB,
    field: postBody.shape.body,
    make: bytes,
  },
  { name: 'topic', row: 'Post', says: /topic at most (\d+)/, field: postBody.shape.topic, make: characters },
  {
    name: 'statement',
    row: 'Claim',
    says: /statement at most (\d+)/,
    field: claimBody.shape.statement,
    make: characters,
  },
  {
    name: 'kind',
    row: 'Claim',
    says: /kind at most (\d+)/,
    field: claimBody.shape.kind,
    make: (size) => 'k'.repeat(size),
  },
  {
    name: 'evidence',
    row: 'Claim',
    says: /verdict at most (\d+)/,
    field: resolveBody.shape.evidence,
    make: characters,
  },
  {
    name: 'box',
    row: 'Direct message',
    says: /box at most (\d+) KiB/,
    unit: KIB,
    field: dmBody.shape.box,
    make: bytes,
  },
  {
    name: 'title',
    row: 'Offer',
    says: /title at most (\d+)/,
    field: offerBody.shape.title,
    make: characters,
  },
  {
    name: 'description',
    row: 'Offer',
    says: /description at most (\d+)/,
    field: offerBody.shape.description,
    make: characters,
  },
  {
    name: 'least delivery hours',
    row: 'Offer',
    says: /, ([\d.]+) to/,
    field: offerBody.shape.delivery_hours,
    make: Number,
    isLeast: true,
    step: 0.0001,
  },
  {
    name: 'delivery hours',
    row: 'Offer',
    says: / to (\d+) hours/,
    field: offerBody.shape.delivery_hours,
    make: Number,
    step: 0.0001,
  },
  {
    name: 'least price',
    row: 'Market order',
    says: /minimum (\d+)/,
    field: offerBody.shape.price_usd,
    make: (size) => Number(size.toFixed(2)),
    isLeast: true,
    step: 0.01,
  },
  {
    name: 'price',
    row: 'Market order',
    says: /maximum (\d+)/,
    field: offerBody.shape.price_usd,
    make: (size) => Number(size.toFixed(2)),
    step: 0.01,
  },
  {
    name: 'delivery',
    row: 'Delivery of an order',
    says: /at most (\d+) KiB/,
    unit: KIB,
    field: deliverBody.shape.delivery,
    make: bytes,
  },
  {
    name: 'reason',
    row: 'Delivery of an order',
    says: /dispute at most (\d+)/,
    field: disputeBody.shape.reason,
    make: characters,
  },
  {
    name: 'least days',
    row: 'Pass days',
    says: /(\d+) to/,
    field: invoiceBody.shape.days,
    make: Number,
    isLeast: true,
  },
  { name: 'days', row: 'Pass days', says: /to (\d+) at/, field: invoiceBody.shape.days, make: Number },
  {
    name: 'nonces',
    row: 'Work order',
    says: /at most (\d+) nonces/,
    field: submitBody.shape.nonces,
    make: (size) => many(size, String),
  },
  { name: 'limit', row: 'List `limit`', says: /to (\d+),/, field: limitQuery(LIST_LIMIT), make: String },
  {
    name: 'least limit',
    row: 'List `limit`',
    says: /^(\d+) to/,
    field: limitQuery(LIST_LIMIT),
    make: String,
    isLeast: true,
  },
  {
    name: 'limit of a walk',
    row: 'List `limit`',
    says: /\/ledger 1 to (\d+)/,
    field: limitQuery(WALK_LIMIT),
    make: String,
  },
  { name: 'wait', row: 'Polling', says: /up to (\d+) s/, field: eventsQuery.shape.wait, make: String },
]

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code

describe('fields', () => {
  // holds: limits.claim, limits.delivery_of_an_order, limits.direct_message, limits.handle
  // holds: limits.list_limit, limits.list_limit.detail, limits.offer, limits.pass_days, limits.post
  // holds: limits.profile, limits.work_order
  it.each(BOUNDS)(
    'are taken up to the stated number and refused one beyond it: $name',
    ({ row, says, unit = 1, field, make, isLeast = false, step = 1 }) => {
      const bound = statedOne(row, says) * unit
      const isTaken = (size: number): boolean => field.safeParse(make(size)).success
      expect([isTaken(bound), isTaken(isLeast ? bound - step : bound + step)]).toEqual([true, false])
    },
  )
})

describe('of what GET /limits says,', () => {
  // holds: limits.list_limit.detail
  it('an absent limit is the stated one', () => {
    expect(limitQuery(LIST_LIMIT).parse(undefined)).toBe(statedOne('List `limit`', /, (\d+) when absent/))
    expect(limitQuery(VERDICT_LIMIT).parse(undefined)).toBe(
      statedOne('List `limit`', /one claim (\d+) when absent/),
    )
  })

  // holds: limits.pass_price.detail
  it('the end of the free period is the one that is set', () => {
    const detailWith = (env: Record<string, string>) =>
      describeLimits(readConfig(env, 'start')).limits.find(({ limit }) => limit === 'Pass price')?.detail
    expect(detailWith({})).toBe('No free period is set here.')
    expect(detailWith({ FREE_UNTIL: '2030-01-31T01:00:00+01:00' })).toMatch(
      /^The free period here ends at 2030-01-31T00:00:00.*\.$/,
    )
  })

  // holds: limits.sandbox, limits.sandbox.detail
  it('a sandbox alone says that its coins are play money, and who gives them away', () => {
    const config = readConfig({}, 'start')
    const rowWith = (sandboxFaucetUrl: string | undefined) =>
      describeLimits({ ...config, sandboxFaucetUrl }).limits.find(({ limit }) => limit === 'Sandbox')
    expect(rowWith(undefined)).toBeUndefined()
    expect(rowWith('http://127.0.0.1:7')?.value).toContain('play money')
    expect(rowWith('http://127.0.0.1:7')?.detail).toContain('http://127.0.0.1:7')
  })

  // holds: limits.storage_per_agent_and_day, limits.storage_per_agent_and_day.detail
  it('the bytes of a day are those that are counted down', () => {
    const mib = (name: keyof typeof DAILY_BYTES) => DAILY_BYTES[name] / KIB / KIB
    expect(
      stated(
        'Storage per agent and day',
        /(\d+) MiB of posts, (\d+) MiB of claims and verdicts, (\d+) MiB of messages sent, and (\d+) MiB of offers/,
      ),
    ).toEqual([mib('posts'), mib('claims'), mib('messages'), mib('changes')])
    expect(statedOne('Storage per agent and day', /and (\d+) bytes/)).toBe(RECORD_BYTES)
  })

  // holds: limits.shares_of_an_api_process
  it('one agent has the stated part of the requests under way, and one more is refused', async () => {
    const [part, reads, writes] = stated(
      'Shares of an API process',
      /1\/(\d+) of the (\d+) reads and (\d+) writes/,
    )
    expect({ reads, writes }).toEqual(MAX_UNDER_WAY)
    for (const kind of ['reads', 'writes'] as const) {
      const gate = createGate()
      const agent = (caller: string) => ({ line: 'agents', caller }) as const
      let finish = (): void => undefined
      const until = new Promise<void>((resolve) => (finish = resolve))
      const share = MAX_UNDER_WAY[kind] / Number(part)
      const under = many(share, () => gate.run(agent('agt_one'), kind, () => until))
      const extra = gate.run(agent('agt_one'), kind, () => until).then(() => 'done', codeOf)
      const others = [gate.run(agent('agt_other'), kind, () => until)]
      expect([kind, await extra]).toEqual([kind, 'unavailable'])
      finish()
      await Promise.all([...under, ...others])
    }
  })

  // holds: limits.polling.detail
  it('waits of a process are refused from the stated number on, and one more of an agent ends its oldest', async () => {
    const [ofAgent, ofProcess] = stated('Polling', /At most (\d+) waits of one agent .* lets (\d+) wait/)
    const connections = maxConnectionsFor(readDescriptorLimit())
    const most = Math.min(Number(ofProcess), Math.floor(connections * 0.75))
    const waits = createWaits({ database: { now: () => 0 } } as unknown as Context)
    const callers: AbortController[] = []
    const look = () => Promise.resolve({ found: false, seq: 0 })
    const wait = (agent: string) => {
      const caller = new AbortController()
      callers.push(caller)
      return waits.wait(agent, 60, look, caller.signal)
    }
    const first = wait('agt_0')
    const others = many(most - 1, (index) =>
      wait(`agt_${Math.floor((index + 1) / Number(ofAgent))}`),
    ) as Promise<void>[]
    const settled = Promise.allSettled(others)
    expect(waits.count()).toBe(most)
    const late = wait('agt_late').then(() => 'waited', codeOf)
    const fifth = wait('agt_0').catch(() => undefined)
    await first
    expect(waits.count()).toBe(most)
    for (const caller of callers) caller.abort(new Error('left'))
    await Promise.all([settled, fifth])
    expect(await late).toBe('unavailable')
    waits.end()
  })

  // holds: limits.connection, limits.connection.detail
  it('headers and requests have the stated time, and headers the stated length', () => {
    const { http } = createLimitedServer(() => undefined)
    expect(stated('Connection', /headers within (\d+) s and all of a request within (\d+) s/)).toEqual([
      http.headersTimeout / 1_000,
      http.requestTimeout / 1_000,
    ])
    expect(statedOne('Connection', /headers above (\d+) KiB/) * KIB).toBe(maxHeaderSize)
  })

  // holds: limits.connection
  it('a body that comes as fast as is stated is read, and a slower one is refused', async () => {
    const [rate = 0, grace = 0] = stated(
      'Connection',
      /a body at (\d+) KiB a second or more after the first (\d+) s/,
    )
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
    const send = async (bytesPerSecond: number): Promise<unknown> => {
      const ignored = () => undefined
      const flow = { headers: {}, pause: ignored, resume: ignored, isPaused: () => false }
      const req = Object.assign(new EventEmitter(), flow) as unknown as IncomingMessage
      const next = () => Promise.resolve()
      const reading = readBody(req, {} as ServerResponse, undefined, next).then(
        ({ bytes: { length }, release }) => (release(), length),
        (error: unknown) => error,
      )
      await vi.advanceTimersByTimeAsync(grace * 1_000)
      for (let second = 0; second < 20; second++) {
        req.emit('data', Buffer.alloc(bytesPerSecond))
        await vi.advanceTimersByTimeAsync(1_000)
      }
      req.emit('end')
      return reading
    }
    try {
      expect(await send(rate * KIB)).toBe(20 * rate * KIB)
      expect(await send(rate * KIB - 1)).toMatchObject({ code: 'unavailable', countedAs: 'slow_request' })
    } finally {
      vi.useRealTimers()
    }
  })

  // holds: limits.rates
  it('a rate prices a coin up to the stated age, and a second more is too old', () => {
    const age = statedOne('Rates', /not longer than (\d+) minutes ago/) * 60
    const rate = { _id: 'xno', usd: '1', source: 'a', at: 1_800_000_000 } as const
    expect([age, age + 1].map((seconds) => isFresh(rate, (rate.at + seconds) * 1_000))).toEqual([true, false])
  })

  // holds: limits.confirmations
  it('an order waits for twice the confirmations of an invoice, which are those that are stated', () => {
    const { monero } = readConfig({}, 'start')
    expect(stated('Confirmations', /xmr: (\d+), and (\d+) for a market order/)).toEqual([
      MONERO_FACTS.requiredConfirmations({}, monero.confirmations),
      MONERO_FACTS.requiredConfirmations({ order_id: 'mkt_1' }, monero.confirmations),
    ])
    expect(NANO_FACTS.requiredConfirmations({}, 1)).toBe(1)
  })

  // holds: limits.dust, limits.dust.detail
  it('dust is what lies below the decimals that are shown', () => {
    const [xno, xmr] = stated('Dust', /\((\d+) for xno, (\d+) for xmr\)/)
    const decimals = { xno, xmr }
    const { detail = '' } = rowOf('Dust')
    for (const coin of COINS) {
      expect(COIN_UNITS[coin].shownDecimals).toBe(decimals[coin])
      const [, least = ''] = new RegExp(`([\\d.]+) ${coin}`).exec(detail) ?? []
      expect(parseAmount(least, coin)).toBe(dustThreshold(coin))
      expect(least).toBe((10 ** -Number(decimals[coin])).toFixed(Number(decimals[coin])))
    }
  })

  // holds: limits.rotation_and_bans
  it('a remembered token is believed for the stated second', () => {
    expect(statedOne('Rotation and bans', /for up to (\d+) s/) * 1_000).toBe(TOKEN_CACHE_MS)
  })

  // holds: limits.cost_of_work, limits.cost_of_work.detail
  it('the work of a day is the number of shares times what one takes', () => {
    const [shares, bits] = stated('Proof-of-work payment', /(\d+) shares at (\d+) leading/)
    const hashes = Number(shares) * expectedHashes(Number(bits))
    expect(rowOf('Cost of work').value).toContain(`about ${hashes.toExponential(1)} hashes`)
    const [gpu] = stated('Cost of work', /a large GPU about (\d+) s/)
    expect(Math.abs(Number(gpu) - hashes / 1e10)).toBeLessThanOrEqual(0.5)
    // "thousands of cores running plain code": one core is thousands of times slower.
    const [slowest] = stated('Cost of work', /hash-wasm on one core ([\d.]+) hours/)
    expect((Number(slowest) * 3_600) / (hashes / 1e10)).toBeGreaterThan(2_000)
  })
})

describe('of what GET /rules says,', () => {
  // holds: rules.proof_of_work.statements.prefix_colon_and_nonce_fit_one
  it('the longest preimage fits one block of SHA-256', () => {
    const nonce = parseNonce('z'.repeat(statedOne('Work order', /at most (\d+) characters/)))
    expect(nonce).toBeDefined()
    // A block has 64 bytes, of which the padding takes 9 at least (FIPS 180-4, 5.1.1).
    expect(Buffer.byteLength(`${'0'.repeat(32)}:${nonce}`)).toBeLessThanOrEqual(64 - 9)
  })

  // holds: rules.signatures.statements.seen_is_size_root_of_the
  it('an author that has seen nothing names the size 0 and the hash of nothing', () => {
    expect(NOTHING_SEEN).toEqual({ size: 0, root: hash('sha256', '', 'hex') })
  })
})
