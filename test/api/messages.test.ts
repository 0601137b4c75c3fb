import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { newId } from '../../shared/platform/ids.ts'
import { FULL } from '../support/full.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

let service: TestService
let alice: TestAgent
let bob: TestAgent

beforeAll(async () => {
  service = await startService()
  alice = await service.registerWithPass()
  bob = await service.registerWithPass()
})
afterAll(() => service.stop())

const send = async (box: string) =>
  String((await service.call('POST', '/dm', { token: alice.token, body: { to: bob.id, box } })).json['id'])
const read = async (query = '') =>
  (await service.call('GET', `/dm${query}`, { token: bob.token })).json as unknown as {
    messages: { id: string; box: string }[]
    count: number
    more: boolean
  }

describe('direct messages', () => {
  // holds: contract.events.unread_direct_messages_are_fetched_by, contract.retention.direct_messages
  // holds: rules.messages.statements.get_dm_gives_the_oldest_unread
  it('are handed out once, oldest first, and again after a message that the reader names', async () => {
    const ids = [await send('one'), await send('two \u0000 \u{1f511}'), await send('')]
    await service.call('HEAD', '/dm', { token: bob.token })
    const first = await read()
    expect(first.messages.map(({ id }) => id)).toEqual(ids)
    expect(first.messages.map(({ box }) => box)).toEqual(['one', 'two \u0000 \u{1f511}', ''])
    expect((await read()).count).toBe(0)
    expect((await read(`?after=${ids[0]}`)).messages.map(({ id }) => id)).toEqual(ids.slice(1))
    expect((await read('?after=0')).messages.map(({ id }) => id)).toEqual(ids)
    const late = await send('late')
    expect((await read(`?after=${ids[2]}`)).messages.map(({ id }) => id)).toEqual([late])
    expect((await read()).count).toBe(0)
  })

  // holds: contract.events.unread_direct_messages_are_fetched_by, limits.direct_message
  it('come in pages of 100 that miss nothing', async () => {
    const count = FULL ? 205 : 105
    const ids = new Set<string>()
    for (let i = 0; i < count; i++) ids.add(await send(`m${i}`))
    const seen: string[] = []
    for (let page = await read(); ; page = await read()) {
      seen.push(...page.messages.map(({ id }) => id))
      if (!page.more) break
    }
    expect(new Set(seen)).toEqual(ids)
    expect(seen).toHaveLength(count)
  })

  it('are given after the last one again, though an older one was committed later than it was read', async () => {
    const [late, last] = [newId('message'), await send('read before')]
    await read()
    const { messages } = service.ctx
    await messages.insert({ _id: late, from: alice.id, to: bob.id, at: 1, box: 'late', handed: 0 })
    // Its answer was lost on the way.
    await read()
    expect((await read(`?after=${last}`)).messages.map(({ id }) => id)).toEqual([late])
  })

  it('are looked for among what came after the last one, however often the reader has read before', async () => {
    const carol = await service.registerWithPass()
    const stored = Array.from({ length: 3_000 }, (_, index) => ({
      _id: newId('message'),
      from: alice.id,
      to: carol.id,
      at: 1,
      box: 'one of many',
      handed: 1 + index,
    }))
    const { db } = service.ctx.database.connection
    await db?.collection<{ _id: string }>('messages').insertMany(stored)
    for (const query of [`?after=${stored.at(-1)?._id}`, `?after=${stored.at(-20)?._id}`, '']) {
      await db?.command({ profile: 2 })
      const answer = await service.call('GET', `/dm${query}`, { token: carol.token })
      await db?.command({ profile: 0 })
      const looks = await db
        ?.collection('system.profile')
        .find({ ns: /\.messages$/ })
        .toArray()
      await db?.dropCollection('system.profile')
      expect([query, answer.json['count']]).toEqual([
        query,
        query.endsWith(String(stored.at(-20)?._id)) ? 19 : 0,
      ])
      const examined = looks?.map(({ keysExamined = 0 }) => Number(keysExamined)) ?? []
      expect(examined).not.toEqual([])
      expect(Math.max(...examined)).toBeLessThan(100)
    }
  })

  it('refuses a marker that is not a message of the reader, be it another agent’s', async () => {
    await send('to bob')
    const { messages } = await read()
    for (const [reader, after] of [
      [bob, 'msg_unknown'],
      [alice, messages[0]?.id],
    ] as const) {
      const answer = await service.call('GET', `/dm?after=${after}`, { token: reader.token })
      expect([answer.status, answer.json.error, answer.json.field]).toEqual([400, 'invalid_field', 'after'])
    }
  })

  // holds: contract.guarantees.direct_messages_are_stored_byte_for, limits.direct_message
  // holds: rules.messages.statements.box_is_kept_as_it_comes
  it('are given back byte for byte, whatever is in the box, up to 64 KiB and not a byte more', async () => {
    const boxes = [
      '\u0000\r\n\t \ufeff ',
      'e\u0301 \u00e9',
      '{"$ne": 1}',
      `${'\u00e9'.repeat(32 * 1024 - 1)}ab`,
    ]
    const ids: string[] = []
    for (const box of boxes) ids.push(await send(box))
    const { messages } = await read()
    expect(messages.map(({ id, box }) => [id, box])).toEqual(boxes.map((box, index) => [ids[index], box]))
    const { status, json } = await service.call('POST', '/dm', {
      token: alice.token,
      body: { to: bob.id, box: `${'\u00e9'.repeat(32 * 1024)}a` },
    })
    expect([status, json.error, json.field]).toEqual([400, 'invalid_field', 'box'])
  })

  // holds: rules.messages.statements.what_a_banned_agent_has_sent
  it('of an agent that was banned since are handed out all the same', async () => {
    const id = await send('before the ban')
    await setBanned(service.ctx, alice.id, true)
    expect((await read()).messages.map((message) => message.id)).toEqual([id])
    await setBanned(service.ctx, alice.id, false)
  })
})
