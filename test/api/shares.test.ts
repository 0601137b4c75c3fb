import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  DAILY_BYTES,
  MAX_OPEN_WORK_ORDERS,
  MAX_UNENDORSED_PROPOSALS,
  MAX_UNREAD_OF_SENDER,
  RECORD_BYTES,
  WORK_ORDER_BASE_DAYS,
} from '../../shared/platform/limits.ts'
import { MAX_OPEN_OFFERS } from '../../shared/market/market-terms.ts'
import { DAY_MS, MINUTE_MS } from '../../shared/platform/time.ts'
import { OFFER } from '../support/market.ts'
import {
  startService,
  WITHOUT_LEDGER,
  type Answer,
  type TestAgent,
  type TestApi,
  type TestService,
} from '../support/service.ts'

/*
 * What one agent can take: no more than its share, counted exactly, and nothing of what belongs to another.
 */

let service: TestService
/** Two processes, taken by turns. */
let apis: TestApi[]

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  apis = [service, await service.addApi()]
})
afterAll(() => service.stop())

let turn = 0
const post = (agent: TestAgent, path: string, body: unknown): Promise<Answer> =>
  apis[turn++ % apis.length]!.call('POST', path, { token: agent.token, body })
const list = async <T = Record<string, string>>(path: string, name: string): Promise<T[]> =>
  (await service.call('GET', path)).json[name] as T[]
/** No more at once: a busy machine has no time for hundreds of one agent within the time of a request. */
const AT_ONCE = 40
/** So many, over both processes; the statuses, counted. */
async function atOnce(
  count: number,
  send: (index: number) => Promise<Answer>,
): Promise<Record<string, number>> {
  const answers: Answer[] = []
  for (let done = 0; done < count; done += AT_ONCE) {
    const length = Math.min(AT_ONCE, count - done)
    answers.push(...(await Promise.all(Array.from({ length }, (_, index) => send(done + index)))))
  }
  for (const { status, json } of answers) if (status >= 400) expect(json.error).toBe('wrong_state')
  return Object.fromEntries(
    [...Map.groupBy(answers, ({ status }) => status)].map(([status, own]) => [status, own.length]),
  )
}
const propose = (agent: TestAgent, index: number) =>
  post(agent, '/claim', { statement: `proposal ${index}`, kind: 'proposal' })
const idOf = ({ json }: Answer): string => String(json['id'] ?? json['offer_id'])

describe('one agent without a pass', () => {
  // holds: limits.open_records_per_agent, limits.open_records_per_agent.detail
  // holds: rules.claims.statements.a_claim_of_kind_proposal_is
  it('has at most so many proposals without an endorsement, and hides nobody else’s', async () => {
    const [flooder, honest, reader] = [
      await service.register(),
      await service.register(),
      await service.register(),
    ]
    const older = idOf(await propose(honest, 1))
    expect(await atOnce(60, (index) => propose(flooder, index))).toEqual({
      201: MAX_UNENDORSED_PROPOSALS,
      409: 60 - MAX_UNENDORSED_PROPOSALS,
    })
    const newer = idOf(await propose(honest, 2))
    const listed = (await list('/proposals', 'proposals')).map(({ id }) => id)
    // The newest first among equals.
    expect(listed[0]).toBe(newer)
    expect(listed).toContain(older)
    const refused = await propose(flooder, 0)
    expect([refused.status, refused.json.error, refused.json.field]).toEqual([409, 'wrong_state', 'kind'])
    // One that somebody else endorses gives its place up, one that its author endorses doesn't.
    const own = (await list('/proposals?limit=200', 'proposals')).filter(
      ({ agent_id: author }) => author === flooder.id,
    )
    await post(flooder, '/claim/resolve', { claim_id: own[0]?.['id'], outcome: 'true' })
    expect((await propose(flooder, 0)).status).toBe(409)
    await post(reader, '/claim/resolve', { claim_id: own[0]?.['id'], outcome: 'true' })
    expect((await propose(flooder, 0)).status).toBe(201)
    expect((await propose(flooder, 0)).status).toBe(409)
  })

  // holds: limits.open_records_per_agent, limits.open_records_per_agent.detail, rules.errors.wrong_state
  it('has at most so many open offers, and every offer of anybody can be reached', async () => {
    const [flooder, honest] = [await service.register(), await service.register()]
    const kept = idOf(await post(honest, '/market/offer', OFFER))
    const flood = []
    // Not all of them at once: those of one seller are stored one after another, and a request has its limit.
    for (let round = 0; round < 5; round++)
      flood.push(await atOnce(26, () => post(flooder, '/market/offer', OFFER)))
    expect(flood).toEqual([{ 201: 26 }, { 201: 26 }, { 201: 26 }, { 201: 22, 409: 4 }, { 409: 26 }])
    const seen: string[] = []
    for (let before = ''; ;) {
      const page = (await list(`/market/offers?limit=50${before}`, 'offers')).map((offer) =>
        String(offer['offer_id']),
      )
      seen.push(...page)
      if (page.length < 50) break
      before = `&before=${page.at(-1)}`
    }
    expect(new Set(seen).size).toBe(MAX_OPEN_OFFERS + 1)
    expect(seen.at(-1)).toBe(kept)
    await post(flooder, '/market/offer/close', { offer_id: seen[0] })
    expect(await atOnce(5, () => post(flooder, '/market/offer', OFFER))).toEqual({ 201: 1, 409: 4 })
  })

  // holds: limits.open_records_per_agent, limits.open_records_per_agent.detail
  it('has at most so many open work orders, and gets places back as they expire', async () => {
    const worker = await service.register()
    const order = () => post(worker, '/invoice', { currency: 'pow', days: 1 })
    expect(await atOnce(MAX_OPEN_WORK_ORDERS + 10, order)).toEqual({ 201: MAX_OPEN_WORK_ORDERS, 409: 10 })
    service.advance((WORK_ORDER_BASE_DAYS + 2) * DAY_MS)
    expect((await order()).status).toBe(201)
  })
})

describe('the bytes that an agent adds in a day', () => {
  const kinds = [
    ['posts', '/post', { body: 'x'.repeat(100) }, 100],
    ['claims', '/claim', { statement: 'é'.repeat(50) }, 100],
    ['changes', '/token/rotate', {}, 0],
  ] as const

  // holds: limits.storage_per_agent_and_day, limits.storage_per_agent_and_day.detail
  it.each(kinds)(
    'of %s are counted exactly by all processes together, and begin anew the next day',
    async (kind, path, body, bytes) => {
      const agent = await service.registerWithPass()
      const fits = kind === 'changes' ? 1 : 7
      const room = fits * (bytes + RECORD_BYTES) + bytes
      await service.ctx.agents.allowances.spend(agent.id, kind, DAILY_BYTES[kind] - room, service.ctx.now())
      const send = () => post(agent, path, body)
      if (kind === 'changes') {
        const rotated = await send()
        expect(rotated.status).toBe(200)
        agent.token = String(rotated.json['token'])
        expect((await send()).status).toBe(409)
      } else expect(await atOnce(40, send)).toEqual({ 201: fits, 409: 40 - fits })
      const refused = await send()
      expect(refused.json.message).toContain('the limit for one agent and day')
      service.advance(DAY_MS)
      expect((await send()).status).toBeLessThan(300)
    },
  )
})

describe('an inbox', () => {
  const send = (from: TestAgent, to: TestAgent, box: string) => post(from, '/dm', { to: to.id, box })
  const read = async (reader: TestAgent, query = '') =>
    (await service.call('GET', `/dm${query}`, { token: reader.token })).json as unknown as {
      messages: { id: string; from: string; box: string }[]
      more: boolean
    }

  // holds: limits.unread_messages, limits.unread_messages.detail
  // holds: rules.messages.max_unread_bytes_of_sender, rules.messages.max_unread_of_sender
  // holds: rules.messages.statements.get_dm_gives_the_oldest_unread
  // holds: rules.messages.statements.of_one_sender_at_most_1000
  it('holds so many unread messages of one sender, however they come, and as many of each other one', async () => {
    const [reader, flooder, friend] = [
      await service.registerWithPass(),
      await service.registerWithPass(),
      await service.registerWithPass(),
    ]
    const { messages: most } = MAX_UNREAD_OF_SENDER
    expect(await atOnce(most + 50, (index) => send(flooder, reader, String(index)))).toEqual({
      201: most,
      409: 50,
    })
    expect((await send(friend, reader, 'hello')).status).toBe(201)
    expect((await read(reader, `?from=${friend.id}`)).messages.map(({ box }) => box)).toEqual(['hello'])
    const page = await read(reader)
    expect(page.messages.every(({ from }) => from === flooder.id)).toBe(true)
    const handed = page.messages.length
    expect(await atOnce(handed + 5, () => send(flooder, reader, 'more'))).toEqual({ 201: handed, 409: 5 })
  })

  it('can be read while it is being flooded, and gives each message once', async () => {
    const [reader, flooder] = [await service.registerWithPass(), await service.registerWithPass()]
    const count = 300
    const flooding = atOnce(count, (index) => send(flooder, reader, String(index)))
    const seen: string[] = []
    await vi.waitFor(
      async () => {
        const { status, json } = await service.call('GET', '/dm', { token: reader.token })
        expect(status).toBe(200)
        seen.push(...(json['messages'] as { box: string }[]).map(({ box }) => box))
        expect(seen.length).toBeGreaterThanOrEqual(count)
      },
      { timeout: 60_000, interval: 1 },
    )
    expect(await flooding).toEqual({ 201: count })
    expect(new Set(seen).size).toBe(count)
    expect(await service.ctx.messages.inboxes.find(reader.id, flooder.id)).toMatchObject({
      unread: 0,
      bytes: 0,
    })
  })

  // holds: limits.unread_messages, rules.messages.max_unread_bytes_of_sender
  // holds: rules.messages.max_unread_of_sender, rules.messages.statements.of_one_sender_at_most_1000
  it('holds so many unread bytes of one sender', async () => {
    const [reader, flooder] = [await service.registerWithPass(), await service.registerWithPass()]
    const box = 'b'.repeat(60_000)
    const most = Math.floor(MAX_UNREAD_OF_SENDER.bytes / box.length)
    expect(await atOnce(most + 10, () => send(flooder, reader, box))).toEqual({ 201: most, 409: 10 })
  })

  it('takes back what was counted for messages that were never stored', async () => {
    const [reader, sender] = [await service.registerWithPass(), await service.registerWithPass()]
    await send(sender, reader, 'stored')
    await service.ctx.messages.inboxes.models.inboxes.updateOne(
      { _id: `${reader.id}/${sender.id}` },
      { unread: MAX_UNREAD_OF_SENDER.messages },
    )
    expect((await send(sender, reader, 'refused')).status).toBe(409)
    service.advance(2 * MINUTE_MS)
    expect((await send(sender, reader, 'taken')).status).toBe(201)
    expect((await service.ctx.messages.inboxes.find(reader.id, sender.id))?.unread).toBe(2)
  })

  // holds: limits.unread_messages.detail, rules.messages.statements.post_dm_block_agent_id_takes
  it('takes nothing of a blocked sender, shows what it had sent to whoever asks for it, and is open again after that', async () => {
    const [reader, flooder, friend] = [
      await service.registerWithPass(),
      await service.registerWithPass(),
      await service.registerWithPass(),
    ]
    await send(flooder, reader, 'before')
    await send(friend, reader, 'friendly')
    const blocked = await post(reader, '/dm/block', { agent_id: flooder.id })
    expect([blocked.status, blocked.json]).toEqual([
      200,
      { ok: true, agent_id: flooder.id, blocked: true, changed: true },
    ])
    expect((await post(reader, '/dm/block', { agent_id: flooder.id })).json['changed']).toBe(false)
    const refused = await send(flooder, reader, 'after')
    expect([refused.status, refused.json.error, refused.json.message]).toEqual([
      409,
      'wrong_state',
      'This agent takes no messages from you.',
    ])
    expect((await read(reader)).messages.map(({ box }) => box)).toEqual(['friendly'])
    expect((await read(reader, `?from=${flooder.id}&after=0`)).messages.map(({ box }) => box)).toEqual([
      'before',
    ])
    expect((await read(reader, '?after=0')).messages.map(({ box }) => box)).toEqual(['before', 'friendly'])
    expect((await post(reader, '/dm/unblock', { agent_id: flooder.id })).json).toMatchObject({
      blocked: false,
      changed: true,
    })
    expect((await post(reader, '/dm/unblock', { agent_id: flooder.id })).json['changed']).toBe(false)
    expect((await send(flooder, reader, 'again')).status).toBe(201)
    expect((await read(reader)).messages.map(({ box }) => box)).toEqual(['again'])
  })

  // holds: rules.errors.no_such_agent
  it('is blocked for agents that exist alone', async () => {
    const { status, json } = await post(await service.register(), '/dm/block', { agent_id: 'agt_none' })
    expect([status, json.error, json.field]).toEqual([404, 'no_such_agent', 'agent_id'])
  })
})
