import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { createTokenFile, tokenFilePath } from '../../client/token-file.ts'
import { CommandError } from '../../client/command/command-error.ts'
import { runAgent } from '../../client/command/run.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { acceptProposal } from '../../shared/claims/claim-service.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../shared/platform/time.ts'
import { MAX_WAITS_OF_AGENT } from '../../shared/platform/limits.ts'
import { creditPaidDays } from '../../shared/passes/pass-service.ts'
import { markPaidByHand } from '../../shared/money/payout-service.ts'
import { numberOverdueMarks } from '../../shared/events/overdue-marks.ts'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { startMarket, type TestMarket } from '../support/market.ts'
import { FULL } from '../support/full.ts'
import type { TestAgent, TestApi } from '../support/service.ts'
import { newTx, pay } from '../support/coins.ts'
import { PATIENCE_MS } from '../support/patience.ts'

const LIMIT = { limitMs: PATIENCE_MS, everyMs: 10 }

let market: TestMarket
beforeAll(async () => {
  market = await startMarket()
})
afterAll(() => market.stop())

interface Event {
  cursor: string
  at: number
  kind: string
  id: string
  [field: string]: unknown
}
interface Page {
  events: Event[]
  next: string
  more: boolean
  truncated: boolean
}

const read = async (agent: TestAgent, query = '', api: TestApi = market): Promise<Page> => {
  const answer = await api.call('GET', `/events${query}`, { token: agent.token })
  expect(answer.status).toBe(200)
  return answer.json as unknown as Page
}
const post = async (agent: TestAgent, path: string, body: object): Promise<string> => {
  const { status, json } = await market.call('POST', path, { token: agent.token, body })
  expect([path, status]).toEqual([path, path === '/profile' ? 200 : 201])
  return String(json['id'])
}
const send = (from: TestAgent, to: TestAgent, box = 'box') => post(from, '/dm', { to: to.id, box })
/** Without what differs from run to run. */
const told = ({ events }: Page) => events.map(({ cursor: _cursor, at: _at, ...rest }) => rest)

describe('events', () => {
  it('tell both sides of an order of each step, its payer of the invoice and its payee of the payout, in order', async () => {
    const { seller, buyer, ctx } = market
    const begun = { seller: (await read(seller)).next, buyer: (await read(buyer)).next }
    const order = await market.order()
    const tx = await market.payPercent(order, 100, { confirmed: false })
    await read(buyer, `?after=${begun.buyer}`)
    await market.payPercent(order, 100, { tx })
    await market.step('deliver', order)
    await market.step('accept', order)
    const [payout] = await ctx.payouts.listByOrder(order.id)
    await markPaidByHand(ctx, payout?._id ?? '', newTx())
    const steps = [
      ['ordered', 'awaiting_payment'],
      ['paid', 'paid'],
      ['delivered', 'delivered'],
      ['accepted', 'released'],
      ['paid_out', 'paid_out'],
    ].map(([step, status]) => ({ kind: 'order', id: order.id, step, status }))
    const bought = await read(buyer, `?after=${begun.buyer}`)
    expect(told(bought).filter(({ kind }) => kind === 'order')).toEqual(steps)
    expect(told(bought).filter(({ kind }) => kind !== 'order')).toEqual(
      ['seen', 'confirmed'].map((state) => ({
        kind: 'invoice',
        id: order.invoiceId,
        state,
        order_id: order.id,
      })),
    )
    const sold = await read(seller, `?after=${begun.seller}`)
    expect(told(sold).filter(({ kind }) => kind === 'order')).toEqual(steps)
    expect(told(sold).filter(({ kind }) => kind !== 'order')).toEqual(
      ['owed', 'manual'].map((state) => ({ kind: 'payout', id: payout?._id, state, order_id: order.id })),
    )
  })

  it('tell of messages, verdicts, endorsements, referrals, hidden posts, accepted proposals and changed keys, each once', async () => {
    const agent = await market.registerWithPass()
    const other = await market.registerWithPass()
    const begun = (await read(agent)).next
    const claim = await post(agent, '/claim', { statement: 'It rains.' })
    const proposal = await post(agent, '/claim', { statement: 'Let it rain.', kind: 'proposal' })
    const written = await post(agent, '/post', { body: 'rain' })
    const message = await send(other, agent)
    const judge = async (of: string, by: TestAgent, outcome: string) =>
      (
        (await market.call('POST', '/claim/resolve', { token: by.token, body: { claim_id: of, outcome } }))
          .json['verdict'] as { id: string }
      ).id
    const verdict = await judge(claim, other, 'false')
    await judge(claim, agent, 'true')
    const endorsement = await judge(proposal, other, 'true')
    const friend = await market.register({ ref: agent.id })
    await market.ctx.database.transaction(async (session) => {
      await creditPaidDays(
        market.ctx,
        friend.id,
        1,
        { source: `${friend.id}/test`, means: 'coin', record: {} },
        session,
      )
    })
    await setHidden(market.ctx, written, true, 'spam')
    await setHidden(market.ctx, written, false)
    await acceptProposal(market.ctx, proposal, 3)
    await post(agent, '/profile', { dm_key: '0a'.repeat(32) })
    await post(agent, '/profile', { dm_key: '0a'.repeat(32) })
    const page = await read(agent, `?after=${begun}`)
    expect(told(page)).toEqual([
      { kind: 'message', id: message, agent_id: other.id },
      { kind: 'verdict', id: verdict, claim_id: claim, agent_id: other.id, outcome: 'false' },
      { kind: 'endorsement', id: endorsement, claim_id: proposal, agent_id: other.id, outcome: 'true' },
      { kind: 'referral', id: friend.id, state: 'registered' },
      { kind: 'referral', id: friend.id, state: 'paying' },
      { kind: 'post_hidden', id: written, hidden: true, rule: 'spam' },
      { kind: 'post_hidden', id: written, hidden: false, rule: 'spam' },
      { kind: 'proposal_accepted', id: proposal, days: 3 },
      { kind: 'key_changed', id: agent.id, key: 'dm_key' },
    ])
    expect(page).toMatchObject({ more: false, truncated: false })
    const last = page.events.at(-1) as Event
    expect(page.next).toBe(last.cursor)
    expect(page.events.map(({ cursor }) => Number(cursor) - Number(begun))).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9,
    ])
    const { token } = (await market.call('POST', '/token/rotate', { token: agent.token, body: {} })).json as {
      token: string
    }
    expect(told(await read({ ...agent, token }, `?after=${page.next}`))).toEqual([
      { kind: 'key_changed', id: agent.id, key: 'token' },
    ])
  })

  it('tell of an invoice that expires, touched or not, and once that a pass ends within 6 hours', async () => {
    const agent = await market.register()
    const { ctx } = market
    const buy = async (currency: string) =>
      String(
        (await market.call('POST', '/invoice', { token: agent.token, body: { currency, days: 2 } })).json[
          'invoice_id'
        ],
      )
    const untouched = await buy('xno')
    await market.letPass(ctx.config.invoiceTtlMs + MINUTE_MS)
    await market.lapse('xno')
    const paid = await buy('xno')
    const { next } = await read(agent, '?after=0')
    await pay(ctx, paid, { amount: '1' })
    expect(told(await read(agent, `?after=${next}`))).toEqual(
      ['seen', 'confirmed'].map((state) => ({ kind: 'invoice', id: paid, state })),
    )
    expect(told(await read(agent, '?after=0'))[0]).toEqual({
      kind: 'invoice',
      id: untouched,
      state: 'expired',
    })
    await market.letPass(DAY_MS + MINUTE_MS)
    const passes = async () =>
      told(await read(agent, '?after=0')).filter(({ kind }) => kind === 'pass_ending')
    const until = (await market.call('GET', '/me', { token: agent.token })).json['pass_until']
    expect(await passes()).toEqual([])
    await market.letPass(18 * HOUR_MS)
    // A process remembers a token, and with it the pass, for a second.
    await waitFor('the event', async () => ((await passes()).length > 0 ? true : undefined), LIMIT)
    expect(await passes()).toEqual([{ kind: 'pass_ending', id: agent.id, pass_until: until }])
  })

  it('go on where a reader was, come in pages, and begin from now without a cursor', async () => {
    const [agent, other] = [await market.register(), await market.registerWithPass()]
    expect(await read(agent)).toEqual({ ok: true, events: [], next: '0', more: false, truncated: false })
    for (let nth = 0; nth < 5; nth++) await send(other, agent)
    const now = await read(agent)
    expect([now.events, now.next]).toEqual([[], '5'])
    const cursors: string[] = []
    for (
      let page = await read(agent, '?after=0&limit=2');
      ;
      page = await read(agent, `?after=${page.next}&limit=2`)
    ) {
      cursors.push(...page.events.map(({ cursor }) => cursor))
      if (!page.more) break
    }
    expect(cursors).toEqual(['1', '2', '3', '4', '5'])
    const ahead = await market.call('GET', '/events?after=6', { token: agent.token })
    expect([ahead.status, ahead.json.error, ahead.json.field]).toEqual([400, 'invalid_field', 'after'])
  })

  // holds: limits.events.detail
  it('are numbered for an agent that never asks, so that no mark stays, and are there when it asks', async () => {
    const { ctx } = market
    const [agent, sender] = [await market.register(), await market.registerWithPass()]
    const [old, young] = [await send(sender, agent), await send(sender, agent)]
    const messages = ctx.messages.models.messages.collection
    const isMarked = async (id: string) =>
      (await messages.countDocuments({ _id: id as never, 'tells.to': agent.id })) === 1
    const goRound = async () => {
      let place = await numberOverdueMarks(ctx, undefined)
      while (place !== undefined) place = await numberOverdueMarks(ctx, place)
    }
    await goRound()
    expect([await isMarked(old), await isMarked(young)]).toEqual([true, true])
    await messages.updateOne({ _id: old as never }, { $inc: { 'tells.$[].at_ms': -2 * DAY_MS } })
    await goRound()
    expect([await isMarked(old), await isMarked(young)]).toEqual([false, false])
    expect((await read(agent, '?after=0')).events.map(({ id }) => id)).toEqual([old, young])
  })

  // holds: limits.events
  it('come each, a record’s in the order of its changes, from machines whose clocks are a minute apart', async () => {
    const { ctx } = market
    const [agent, sender] = [await market.register(), await market.registerWithPass()]
    const messages = ctx.messages.models.messages.collection
    const first = await send(sender, agent)
    // Of one record: written by a machine whose clock is ahead, then by one whose clock is behind.
    const nowMs = Date.now()
    const marks = [nowMs + MINUTE_MS, nowMs - MINUTE_MS].map((at_ms, nth) => ({
      ...{ to: agent.id, at_ms, kind: 'order', id: 'mkt_x', fields: { step: `step ${nth}` } },
    }))
    await messages.updateOne({ _id: first as never }, { $set: { tells: marks } })
    const page = await read(agent, '?after=0')
    expect(page.events.map(({ step }) => step)).toEqual(['step 0', 'step 1'])
    // And one from behind, after the reader has seen what was ahead.
    const second = await send(sender, agent)
    await messages.updateOne({ _id: second as never }, { $inc: { 'tells.$[].at_ms': -MINUTE_MS } })
    expect((await read(agent, `?after=${page.next}`)).events.map(({ id }) => id)).toEqual([second])
  })

  // holds: limits.events.detail
  it('say that some are kept no longer', async () => {
    const [agent, other] = [await market.register(), await market.registerWithPass()]
    for (let nth = 0; nth < 3; nth++) await send(other, agent)
    expect((await read(agent, '?after=0')).truncated).toBe(false)
    await market.ctx.events.models.events.deleteMany({ _id: { $regex: `^${agent.id}/0*[12]$` } })
    const page = await read(agent, '?after=0')
    expect([page.events.map(({ cursor }) => cursor), page.truncated]).toEqual([['3'], true])
    expect((await read(agent, '?after=2')).truncated).toBe(false)
  })

  // holds: limits.events
  it('are kept to the stated number, for the stated days', async () => {
    const { limits } = (await market.call('GET', '/limits')).json as unknown as {
      limits: { limit: string; value: string }[]
    }
    const { value = '' } = limits.find(({ limit }) => limit === 'Events') ?? {}
    const [, count, days] = /last (\d+) are kept, for (\d+) days/.exec(value)?.map(Number) ?? []
    const [agent, other] = [await market.register(), await market.registerWithPass()]
    const { events: stored, event_heads: heads } = Object.fromEntries(
      ['events', 'event_heads'].map((name) => [
        name,
        market.ctx.database.connection.collection<{ _id: string; expires?: Date; seq?: number }>(name),
      ]),
    )
    const expiries = async () =>
      (await stored?.find({ _id: { $regex: `^${agent.id}/` } }, { sort: { _id: 1 } }).toArray())?.map(
        ({ _id, expires }) => [Number(_id.split('/')[1]), Number(expires)],
      ) ?? []
    for (let nth = 0; nth < 2; nth++) await send(other, agent)
    await read(agent, '?after=0')
    for (const [, expires = 0] of await expiries())
      expect(Math.abs(expires - market.ctx.database.now() - Number(days) * DAY_MS)).toBeLessThan(MINUTE_MS)
    // What is too many is looked for after each 500 events.
    const last = Number(count) + 500
    await heads?.updateOne({ _id: agent.id }, { $set: { seq: last - 1 } })
    await stored?.insertMany(
      [last - Number(count), last - Number(count) + 1].map((seq) => ({
        _id: `${agent.id}/${String(seq).padStart(15, '0')}`,
        at: 1,
        kind: 'message',
        id: 'msg_1',
        fields: { agent_id: other.id },
        expires: new Date(8e15),
      })),
    )
    await send(other, agent)
    await read(agent, '?after=0')
    const kept = (await expiries()).filter(([, expires = 0]) => expires > Date.now()).map(([seq]) => seq)
    expect(kept).toEqual([last - Number(count) + 1, last])
  })

  // holds: limits.events
  it('are the same to readers that ask at once while they are written, with no number left out', async () => {
    const agent = await market.register()
    const senders = await Promise.all(Array.from({ length: 4 }, () => market.registerWithPass()))
    const other = await market.addApi()
    const EACH = FULL ? 40 : 10
    let writing = true
    const follow = async (api: TestApi): Promise<Event[]> => {
      const seen: Event[] = []
      for (let after = '0'; ;) {
        const isLast = !writing
        const page = await read(agent, `?after=${after}`, api)
        seen.push(...page.events)
        after = page.next
        if (isLast && !page.more) return seen
      }
    }
    const reading = [follow(market), follow(market), follow(other), follow(other)]
    const ids = await Promise.all(
      senders.map(async (sender) => {
        const sent: string[] = []
        for (let nth = 0; nth < EACH; nth++) sent.push(await send(sender, agent))
        return sent
      }),
    )
    writing = false
    const [first = [], ...others] = await Promise.all(reading)
    expect(first.map(({ cursor }) => Number(cursor))).toEqual(
      Array.from({ length: senders.length * EACH }, (_, nth) => nth + 1),
    )
    expect(first.map(({ id }) => id).sort()).toEqual(ids.flat().sort())
    for (const seen of others) expect(seen).toEqual(first)
  })
})

describe('a wait', () => {
  const timed = async <T>(work: Promise<T>): Promise<[T, number]> => {
    const startedAt = performance.now()
    return [await work, performance.now() - startedAt]
  }

  // holds: limits.polling
  it('ends with the event that it waited for, written by whichever process', async () => {
    const [agent, sender] = [await market.registerWithPass(), await market.registerWithPass()]
    const other = await market.addApi()
    for (const api of [market, other]) {
      const { next } = await read(agent)
      const paths = [`/events?after=${next}&wait=30`, '/events?wait=30', '/me?wait=30', '/dm?wait=30']
      const waiting = timed(Promise.all(paths.map((path) => api.call('GET', path, { token: agent.token }))))
      await untilWaiting(api, 4)
      const id = await send(sender, agent)
      const [[after, now, me, dm], ms] = await waiting
      expect(ms).toBeLessThan(20_000)
      for (const page of [after, now])
        expect((page?.json['events'] as Event[]).map((event) => event.id)).toEqual([id])
      expect(me?.json['unread_messages']).toBeLessThanOrEqual(1)
      expect((dm?.json['messages'] as { id: string }[]).map((message) => message.id)).toEqual([id])
    }
  })

  // holds: limits.polling
  it('ends empty when its time is over, and at once if there is something already', async () => {
    const [agent, sender] = [await market.registerWithPass(), await market.registerWithPass()]
    const [empty, ms] = await timed(read(agent, '?wait=1'))
    expect([empty.events, empty.next]).toEqual([[], '0'])
    expect(ms).toBeGreaterThan(900)
    await send(sender, agent)
    const [[page], soon] = await timed(
      Promise.all([
        read(agent, '?after=0&wait=60'),
        market.call('GET', '/dm?wait=60', { token: agent.token }),
      ]),
    )
    expect(page.events).toHaveLength(1)
    expect(soon).toBeLessThan(30_000)
    for (const wait of ['61', '-1', 'soon'])
      expect((await market.call('GET', `/events?wait=${wait}`, { token: agent.token })).json.error).toBe(
        'invalid_field',
      )
  })

  // holds: limits.polling.detail
  it('gives way to a newer one of the same agent, and ends when its caller leaves', async () => {
    const agent = await market.register()
    const leaving = new AbortController()
    const first = read(agent, '?wait=60')
    await untilWaiting(market, 1)
    const others = Array.from({ length: MAX_WAITS_OF_AGENT }, () =>
      fetch(`${market.url}/api/v1/events?wait=60`, {
        headers: { Authorization: `Bearer ${agent.token}` },
        signal: leaving.signal,
      }).catch(() => undefined),
    )
    expect((await first).events).toEqual([])
    await untilWaiting(market, MAX_WAITS_OF_AGENT)
    leaving.abort()
    await Promise.all(others)
    await untilWaiting(market, 0)
  })

  it('is answered as it stands when the process stops', async () => {
    const agents = await Promise.all(Array.from({ length: 5 }, () => market.register()))
    const leaving = await market.addApi()
    const waiting = Promise.all(
      agents.flatMap((agent) => [
        read(agent, '?wait=60', leaving),
        leaving.call('GET', '/me?wait=60', { token: agent.token }),
      ]),
    )
    await untilWaiting(leaving, 10)
    await leaving.close()
    for (const answer of await waiting)
      expect('status' in answer ? answer.status : answer.events).toEqual('status' in answer ? 200 : [])
  })
})

describe('agent watch', () => {
  it('prints each event once as a line of JSON, and goes on where the last run ended', async () => {
    const home = mkdtempSync(path.join(tmpdir(), 'agent-watch-'))
    const [agent, sender] = [await market.register(), await market.registerWithPass()]
    createTokenFile(tokenFilePath(home, market.url), {
      url: market.url,
      agent_id: agent.id,
      token: agent.token,
    })
    const watch = async (
      flags: string[],
      signal = new AbortController().signal,
      heard = (_line: string) => {},
    ) => {
      let out = ''
      const exitCode = await runAgent({
        argv: ['watch', ...flags, '--url', market.url],
        env: { AGENT_HOME: home },
        stdin: Readable.from([]),
        stdout: {
          write(text) {
            out += text
            heard(text)
          },
        },
        stderr: { isTTY: false, write: () => true },
        signal,
      })
      const lines = out
        .trim()
        .split('\n')
        .filter((line) => line !== '')
      return { exitCode, lines: lines.map((line) => JSON.parse(line) as Event) }
    }
    try {
      const [first, second] = [await send(sender, agent), await send(sender, agent)]
      expect((await watch(['--once'])).lines).toMatchObject([
        { cursor: '1', id: first },
        { cursor: '2', id: second },
      ])
      const third = await send(sender, agent)
      const failed = await watch(['--once', '--exec', 'exit 3', '--json'])
      expect([failed.exitCode, failed.lines]).toMatchObject([1, [{ error: 'command_failed' }]])
      const file = path.join(home, 'event')
      expect((await watch(['--once', '--exec', `cat >> ${file}`, '--json'])).exitCode).toBe(0)
      expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ cursor: '3', id: third })
      const stopping = new AbortController()
      const watching = watch([], stopping.signal, () =>
        stopping.abort(new CommandError('interrupted', 'Stopped.')),
      )
      await untilWaiting(market, 1)
      const fourth = await send(sender, agent)
      expect((await watching).lines).toMatchObject([{ cursor: '4', id: fourth }])
      expect((await watch(['--once'])).lines).toEqual([])
    } finally {
      rmSync(home, { recursive: true })
    }
  })
})

const untilWaiting = (api: TestApi, count: number): Promise<true> =>
  waitFor(`${count} to wait`, () => (api.countWaits() === count ? true : undefined), LIMIT)
