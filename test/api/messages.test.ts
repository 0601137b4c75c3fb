import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setBanned } from '../../shared/agents/agent-service.ts'
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

  it('come in pages of 100 that miss nothing', async () => {
    const ids = new Set<string>()
    for (let i = 0; i < 205; i++) ids.add(await send(`m${i}`))
    const seen: string[] = []
    for (let page = await read(); ; page = await read()) {
      seen.push(...page.messages.map(({ id }) => id))
      if (!page.more) break
    }
    expect(new Set(seen)).toEqual(ids)
    expect(seen).toHaveLength(205)
  })

  it('refuses a marker that is not a message of the reader', async () => {
    const answer = await service.call('GET', '/dm?after=msg_unknown', { token: bob.token })
    expect([answer.status, answer.json.error, answer.json.field]).toEqual([400, 'invalid_field', 'after'])
  })

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

  it('of an agent that was banned since are handed out all the same', async () => {
    const id = await send('before the ban')
    await setBanned(service.ctx, alice.id, true)
    expect((await read()).messages.map((message) => message.id)).toEqual([id])
    await setBanned(service.ctx, alice.id, false)
  })
})
