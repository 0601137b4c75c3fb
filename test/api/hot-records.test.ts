import { once } from 'node:events'
import net from 'node:net'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { newDmKeyPair } from '../../client/sealed-box.ts'
import { acceptProposal } from '../../shared/claims/claim-service.ts'
import { newId } from '../../shared/platform/ids.ts'
import type { MessageRecord } from '../../shared/messages/message.ts'
import { FULL } from '../support/full.ts'
import {
  registerOver,
  startService,
  whenServed,
  type TestAgent,
  type TestService,
} from '../support/service.ts'

const CROWD = FULL ? 60 : 30

let service: TestService
let author: TestAgent

beforeAll(async () => {
  service = await startService()
  author = await service.registerWithPass()
})
afterAll(() => service.stop())

/** Calls of the service that count what is asked to be written. */
const countPosts =
  (asked: { times: number }): TestService['call'] =>
  (method, path, options) => {
    if (method === 'POST') asked.times++
    return service.call(method, path, options)
  }

/** A number that GET /limits states, in the value or the detail of a row. */
async function statedIn(name: string, says: RegExp): Promise<number> {
  const { limits } = (await service.call('GET', '/limits')).json as unknown as {
    limits: { limit: string; value: string; detail?: string }[]
  }
  const row = limits.find(({ limit }) => limit === name)
  return Number(says.exec(`${row?.value}; ${row?.detail}`)?.[1])
}

describe('a crowd around one record', () => {
  let crowd: TestAgent[]

  it('registers by one referrer at once, and everyone gets a token', async () => {
    const asked = { times: 0 }
    crowd = await Promise.all(
      Array.from({ length: CROWD }, () => registerOver(countPosts(asked), { ref: author.id })),
    )
    // Who was told to come again may have been registered all the same, and is twice.
    const registered = await service.ctx.agents.models.agents.countDocuments({ ref: author.id })
    expect(registered).toBeGreaterThanOrEqual(CROWD)
    expect(registered).toBeLessThanOrEqual(asked.times)
    expect((await service.call('GET', '/me', { token: author.token })).json['referrals']).toMatchObject({
      registered,
    })
  })

  it('asks for its standing at once, one of them with more messages than are fetched to be counted', async () => {
    const [hoarder, other] = crowd.slice(0, 2) as [TestAgent, TestAgent]
    const unread = (to: string, count: number): MessageRecord[] =>
      Array.from({ length: count }, () => ({
        _id: newId('message'),
        from: author.id,
        to,
        at: 1,
        box: 'b',
        handed: 0,
      }))
    await service.ctx.messages.models.messages.insertMany([
      ...unread(hoarder.id, 1_100),
      ...unread(other.id, 3),
    ])
    const standings = await Promise.all(
      crowd.map(({ token }) => whenServed(() => service.call('GET', '/me', { token }))),
    )
    expect(standings.map(({ json }) => json['agent_id'])).toEqual(crowd.map(({ id }) => id))
    expect(standings.map(({ json }) => json['unread_messages'])).toEqual([
      1_100,
      3,
      ...Array.from({ length: CROWD - 2 }, () => 0),
    ])
    await service.ctx.messages.models.messages.deleteMany({})
  })

  // holds: limits.direct_message.detail
  it('counts its unread messages as far as is stated, and no further', async () => {
    const most = await statedIn('Direct message', /counts unread messages up to (\d+)/)
    const [hoarder] = crowd as [TestAgent]
    const unread = Array.from({ length: most + 1 }, () => ({
      _id: newId('message'),
      from: author.id,
      to: hoarder.id,
      at: 1,
      box: '',
      handed: 0,
    }))
    const { messages } = service.ctx.messages.models
    const ask = () => whenServed(() => service.call('GET', '/me', { token: hoarder.token }))
    await messages.insertMany(unread.slice(2), { lean: true })
    expect((await ask()).json['unread_messages']).toBe(most - 1)
    await messages.insertMany(unread.slice(0, 2), { lean: true })
    expect((await ask()).json['unread_messages']).toBe(most)
    await messages.deleteMany({})
  })

  // holds: limits.delivery_of_an_order.detail
  it('sees as many orders that wait for it as is stated', async () => {
    const most = await statedIn('Delivery of an order', /shows up to (\d+) orders to deliver, and as many/)
    const [trader] = crowd as [TestAgent]
    const orders = service.ctx.database.connection.collection<{ _id: string }>('orders')
    const waiting = (side: object) =>
      Array.from({ length: most + 1 }, (_, nth) => ({
        _id: newId('order'),
        ...side,
        due_at: 4_000_000_000 + nth,
        deliver_by: 4_000_000_000 + nth,
        accept_by: 4_000_000_000 + nth,
      }))
    await orders.insertMany([
      ...waiting({ seller_id: trader.id, buyer_id: author.id, status: 'paid' }),
      ...waiting({ seller_id: author.id, buyer_id: trader.id, status: 'delivered' }),
    ])
    const { json } = await whenServed(() => service.call('GET', '/me', { token: trader.token }))
    for (const list of ['orders_to_deliver', 'deliveries_to_accept'])
      expect([list, (json[list] as unknown[]).length]).toEqual([list, most])
    await orders.deleteMany({})
  })

  it('endorses one proposal at once, and every verdict is answered and counts', async () => {
    const made = await service.call('POST', '/claim', {
      token: author.token,
      body: { statement: 'more of it', kind: 'proposal' },
    })
    const id = String(made.json['id'])
    const asked = { times: 0 }
    const call = countPosts(asked)
    const answers = await Promise.all(
      crowd.map(({ token }) =>
        whenServed(() => call('POST', '/claim/resolve', { token, body: { claim_id: id, outcome: 'true' } })),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    const { claim, more } = (await service.call('GET', `/claim/${id}?limit=10`)).json as unknown as {
      claim: { standing: object; verdicts: { id: string }[] }
      more: boolean
    }
    expect([claim.standing, claim.verdicts.length, more]).toEqual([
      { true: CROWD, false: 0, void: 0 },
      10,
      true,
    ])
    const seen = new Set<string>()
    for (let before = ''; ;) {
      const page = (await service.call('GET', `/claim/${id}?limit=25${before}`)).json as unknown as {
        claim: { verdicts: { id: string }[] }
        more: boolean
      }
      for (const verdict of page.claim.verdicts) seen.add(verdict.id)
      if (!page.more) break
      before = `&before=${page.claim.verdicts.at(-1)?.id}`
    }
    expect(seen.size).toBeGreaterThanOrEqual(CROWD)
    expect(seen.size).toBeLessThanOrEqual(asked.times)
    expect(seen.size).toBe(await service.ctx.claims.models.verdicts.countDocuments({ claim_id: id }))
  })

  it('accepts a proposal with whole days from 1 to 365 alone', async () => {
    const made = await service.call('POST', '/claim', {
      token: author.token,
      body: { statement: 'pay me', kind: 'proposal' },
    })
    for (const days of [-100, 0, 0.5, 366, Number.NaN])
      await expect(acceptProposal(service.ctx, String(made.json['id']), days)).rejects.toMatchObject({
        code: 'invalid_field',
      })
  })
})

describe('a dm_key', () => {
  it('that is set twice at once leaves the last entry naming the key that stands', async () => {
    for (let round = 0; round < 10; round++) {
      const agent = await service.register()
      const keys = [newDmKeyPair().publicKey, newDmKeyPair().publicKey]
      await service.call('POST', '/profile', { token: agent.token, body: { dm_key: keys[0] } })
      await Promise.all(
        keys.map((dm_key) => service.call('POST', '/profile', { token: agent.token, body: { dm_key } })),
      )
      const { profile } = (await service.call('GET', `/agent/${agent.id}`)).json as unknown as {
        profile: { dm_key: string }
      }
      await vi.waitFor(async () => {
        expect((await service.ctx.agents.find(agent.id))?.pending ?? []).toEqual([])
      }, 60_000)
      const entries = await service.ctx.entries.listByRecord(agent.id)
      expect(entries.filter(({ kind }) => kind === 'dm_key_change').at(-1)?.data['dm_key']).toBe(
        profile.dm_key,
      )
    }
  }, 150_000)
})

describe('messages that were handed out in another order than that of their ids', () => {
  it('are all reached by a walk from the beginning, which ends', async () => {
    const reader = await service.registerWithPass()
    const message = (number: number, handed: number): MessageRecord => ({
      _id: `msg_${String(number).padStart(26, '0')}`,
      from: author.id,
      to: reader.id,
      at: 1,
      box: '',
      handed,
    })
    const stored = [
      ...Array.from({ length: 100 }, (_, index) => message(300 + index, 1)),
      ...Array.from({ length: 100 }, (_, index) => message(200 + index, 2)),
      message(100, 3),
      message(500, 0),
    ]
    await service.ctx.messages.models.messages.insertMany(stored)
    const seen = new Set<string>()
    let after = '0'
    for (let pages = 0; ; pages++) {
      expect(pages).toBeLessThan(10)
      const page = (await service.call('GET', `/dm?after=${after}`, { token: reader.token }))
        .json as unknown as {
        messages: { id: string }[]
        more: boolean
      }
      for (const { id } of page.messages) seen.add(id)
      if (!page.more) break
      after = page.messages.at(-1)?.id ?? ''
    }
    expect(seen).toEqual(new Set(stored.map(({ _id }) => _id)))
    const again = (await service.call('GET', `/dm?after=${message(200, 2)._id}`, { token: reader.token }))
      .json as unknown as {
      messages: { id: string }[]
    }
    expect(again.messages.map(({ id }) => id)).toContain(message(201, 2)._id)
  })
})

describe('a body that will be too large', () => {
  it('is refused by its length before it is sent, and cut off when it is sent all the same', async () => {
    const socket = net.connect(Number(new URL(service.url).port), '127.0.0.1')
    socket.write(
      `POST /api/v1/post HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${author.token}\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\n\r\n`,
    )
    const [first] = (await once(socket, 'data')) as [Buffer]
    expect(first.toString()).toContain('HTTP/1.1 413')
    expect(first.toString()).toContain('body_too_large')
    socket.on('error', () => undefined)
    await once(socket, 'close')
  })
})
