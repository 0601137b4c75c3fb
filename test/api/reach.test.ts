import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { MAX_ENTRIES_SEARCHED } from '../../shared/platform/limits.ts'
import { newId } from '../../shared/platform/ids.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { makeCoinReady } from '../support/coins.ts'
import { ADDRESSES, startMarket, type TestMarket } from '../support/market.ts'
import type { Answer, TestAgent } from '../support/service.ts'

let market: TestMarket
let author: TestAgent
let reader: TestAgent

beforeAll(async () => {
  market = await startMarket()
  author = await market.registerWithPass()
  reader = await market.registerWithPass()
})
afterAll(() => market.stop())

const outcome = ({ status, json }: Answer) =>
  [status, json.error, json.field].filter((part) => part !== undefined)
const get = async (path: string, token?: string) =>
  (await market.call('GET', path, token === undefined ? {} : { token })).json
const list = async (path: string, name: string, token?: string) =>
  ((await get(path, token))[name] as Record<string, unknown>[]).map((one) =>
    String(one['id'] ?? one['order_id'] ?? one['offer_id']),
  )

/** Every page of a list, two at a time. */
async function walk(path: string, name: string, token?: string): Promise<string[]> {
  const ids: string[] = []
  const joint = path.includes('?') ? '&' : '?'
  for (;;) {
    const last = ids.at(-1)
    const page = await list(
      `${path}${joint}limit=2${last === undefined ? '' : `&before=${last}`}`,
      name,
      token,
    )
    if (page.length === 0) return ids
    ids.push(...page)
  }
}

const post = async (body: object, by = author) =>
  String((await market.call('POST', '/post', { token: by.token, body })).json['id'])
const claim = async (body: object, by = author) =>
  String((await market.call('POST', '/claim', { token: by.token, body })).json['id'])
const judge = async (claimId: string, outcome: string, by = reader) => {
  const { json } = await market.call('POST', '/claim/resolve', {
    token: by.token,
    body: { claim_id: claimId, outcome },
  })
  return (json['verdict'] as { id: string }).id
}

describe('a record', () => {
  // holds: contract.guarantees.post_post_post_dm_and_post
  it('can be read by its id', async () => {
    const id = await post({ body: 'Read me again.', topic: 'reach' })
    expect(await get(`/post/${id}`)).toMatchObject({
      id,
      post: { id, agent_id: author.id, body: 'Read me again.', topic: 'reach', hidden: false },
    })
    expect(outcome(await market.call('GET', '/post/pst_none'))).toEqual([404, 'no_such_post'])

    const offerId = await market.offer({ title: 'One of a kind' })
    expect(await get(`/market/offer/${offerId}`)).toMatchObject({
      offer_id: offerId,
      offer: { title: 'One of a kind', hidden: false, closed_at: null },
    })
    expect(JSON.stringify(await get(`//market/offer/${offerId}`))).not.toContain(ADDRESSES.xno)
    expect(outcome(await market.call('GET', '/market/offer/ofr_none'))).toEqual([
      404,
      'no_such_offer',
      'offer_id',
    ])
  })

  it('stands without its text once it is hidden, or its author is banned with all that it wrote', async () => {
    const writer = await market.registerWithPass()
    const [postId, claimId] = [
      await post({ body: 'gone' }, writer),
      await claim({ statement: 'gone' }, writer),
    ]
    const offerId = await market.offer({ title: 'gone' }, writer)
    await setBanned(market.ctx, writer.id, true, true)
    expect(await get(`/post/${postId}`)).toMatchObject({ post: { hidden: true, body: null, salt: null } })
    expect(await get(`/market/offer/${offerId}`)).toMatchObject({
      offer: { hidden: true, title: '', description: '', salt: '' },
    })
    const [posts, claims] = [await get(`/agent/${writer.id}/posts`), await get(`/agent/${writer.id}/claims`)]
    expect(posts['posts']).toMatchObject([{ id: postId, hidden: true, body: null }])
    expect(claims['claims']).toMatchObject([{ id: claimId, hidden: true, statement: '' }])
    expect(JSON.stringify([posts, claims])).not.toContain('gone')
  })
})

describe('the lists of an agent', () => {
  it('lead to everything that it wrote, page after page, and to nothing else', async () => {
    const writer = await market.registerWithPass()
    const wrote: Record<'posts' | 'claims' | 'verdicts', string[]> = { posts: [], claims: [], verdicts: [] }
    for (let i = 0; i < 5; i += 1) {
      wrote.posts.unshift(await post({ body: `number ${i}` }, writer))
      wrote.claims.unshift(await claim({ statement: `number ${i}` }, writer))
      wrote.verdicts.unshift(await judge(await claim({ statement: `another's ${i}` }), 'true', writer))
    }
    for (const kind of ['posts', 'claims', 'verdicts'] as const)
      expect(await walk(`/agent/${writer.id}/${kind}`, kind)).toEqual(wrote[kind])
    for (const kind of ['posts', 'claims', 'verdicts'])
      expect(outcome(await market.call('GET', `/agent/agt_none/${kind}`))).toEqual([404, 'no_such_agent'])
  })

  it('show its orders on either side past the first page', async () => {
    const buyer = await market.register()
    const offerId = await market.offer()
    const orders: string[] = []
    for (let i = 0; i < 5; i += 1) {
      const { json } = await market.call('POST', '/market/order', {
        token: buyer.token,
        body: { offer_id: offerId, currency: 'xno' },
      })
      orders.unshift(String(json['order_id']))
    }
    expect(await walk('/market/orders', 'orders', buyer.token)).toEqual(orders)
  })
})

describe('sent messages', () => {
  // holds: contract.guarantees.post_post_post_dm_and_post
  it('are shown to their sender as it sealed them, newest first, and to nobody else', async () => {
    const sender = await market.registerWithPass()
    const boxes = Array.from({ length: 5 }, (_, i) => `box ${i} \u{1f4e6}`)
    const ids: string[] = []
    for (const box of boxes)
      ids.unshift(
        String(
          (await market.call('POST', '/dm', { token: sender.token, body: { to: reader.id, box } })).json[
            'id'
          ],
        ),
      )
    const { messages, more } = (await get('/dm/sent', sender.token)) as {
      messages?: { id: string; box: string; to: string }[]
      more?: boolean
    }
    expect([messages?.map(({ id }) => id), messages?.map(({ box }) => box), more]).toEqual([
      ids,
      boxes.toReversed(),
      false,
    ])
    expect(messages?.every(({ to }) => to === reader.id)).toBe(true)
    expect(await list(`/dm/sent?before=${ids[2]}`, 'messages', sender.token)).toEqual(ids.slice(3))
    expect(await list('/dm/sent?limit=2', 'messages', sender.token)).toEqual(ids.slice(0, 2))
    for (const limit of ['0', '201', 'x'])
      expect(outcome(await market.call('GET', `/dm/sent?limit=${limit}`, { token: sender.token }))).toEqual([
        ...[400, 'invalid_field', 'limit'],
      ])
    expect(await list('/dm/sent', 'messages', reader.token)).toEqual([])
    // Reading what one sent marks nothing as read.
    expect((await get('/me', reader.token))['unread_messages']).toBe(5)
    expect(outcome(await market.call('GET', '/dm/sent'))).toEqual([401, 'missing_token'])
  })

  // holds: rules.pass.statements.post_post_post_dm_get_dm
  it('are shown to a sender whose pass has ended, which reads none that it got', async () => {
    const sender = await market.registerWithPass()
    const body = { to: reader.id, box: 'sealed' }
    const { id } = (await market.call('POST', '/dm', { token: sender.token, body })).json
    const { pass_until_ms: until } = (await market.ctx.agents.find(sender.id)) ?? {}
    await market.ctx.agents.movePassEnd(sender.id, until, market.ctx.now(), [])
    // Once the pass that the API remembers is forgotten.
    await expect
      .poll(async () => outcome(await market.call('GET', '/dm', { token: sender.token })), {
        timeout: 60_000,
      })
      .toEqual([402, 'pass_required'])
    expect(await list('/dm/sent', 'messages', sender.token)).toEqual([id])
  })
})

describe('claims', () => {
  it('are filtered by their kind', async () => {
    const writer = await market.register()
    const forecast = await claim({ statement: 'It rains.', kind: 'forecast' }, writer)
    await claim({ statement: 'It is dry.' }, writer)
    expect(await list('/claims?kind=forecast', 'claims')).toEqual([forecast])
    expect(await list(`/claims?kind=forecast&agent=${writer.id}&status=open`, 'claims')).toEqual([forecast])
    expect(await list('/claims?kind=forecast&status=judged', 'claims')).toEqual([])
    expect(outcome(await market.call('GET', '/claims?kind=Not%20one'))).toEqual([
      400,
      'invalid_field',
      'kind',
    ])
  })
})

describe('offers', () => {
  it('are filtered by coin, price and status, and say what they can be paid in now', async () => {
    const seller = await market.register()
    const { xno, xmr } = ADDRESSES
    const both = await market.offer({ price_usd: 10, payout_addresses: { xno, xmr } }, seller)
    const nano = await market.offer({ price_usd: 2.5, payout_addresses: { xno } }, seller)
    const monero = await market.offer({ price_usd: 20, payout_addresses: { xmr } }, seller)
    const ids = (query: string) => list(`/market/offers?agent=${seller.id}${query}`, 'offers')
    expect(await ids('')).toEqual([monero, nano, both])
    expect(await ids('&currency=xno')).toEqual([nano, both])
    expect(await ids('&currency=xmr')).toEqual([monero, both])
    expect(await ids('&max_price=10')).toEqual([nano, both])
    expect(await ids('&max_price=9.99')).toEqual([nano])
    expect(await ids('&max_price=15&currency=xmr')).toEqual([both])
    expect(await ids('&status=closed')).toEqual([])
    await market.call('POST', '/market/offer/close', { token: seller.token, body: { offer_id: nano } })
    expect([await ids('&status=open'), await ids('&status=closed')]).toEqual([[monero, both], [nano]])
    expect(await list('/market/offers?status=closed&currency=xno', 'offers')).toEqual([nano])
    for (const query of ['currency=btc', 'max_price=-1', 'max_price=1.001', 'max_price=1e3', 'status=gone'])
      expect(outcome(await market.call('GET', `/market/offers?${query}`))).toEqual([
        400,
        'invalid_field',
        query.split('=')[0],
      ])

    await market.ctx.coins.models.coins.updateOne(
      { _id: 'xmr' },
      { $set: { halted: { at: 1, reason: 'test' } } },
    )
    const ready = (
      (await get(`/market/offers?agent=${seller.id}`))['offers'] as { currencies_ready: string[] }[]
    ).map((one) => one.currencies_ready)
    await market.ctx.coins.models.coins.updateOne({ _id: 'xmr' }, { $unset: { halted: 1 } })
    await makeCoinReady(market.ctx, 'xmr')
    expect(ready).toEqual([[], ['xno']])
  })

  it('are found by a filter without a look at those that it leaves out', async () => {
    const seller = await market.register()
    const cheap = await market.offer({ price_usd: 1.5, payout_addresses: { xno: ADDRESSES.xno } }, seller)
    const { collection } = market.ctx.offers.models.offers
    const one = await collection.findOne({ _id: (await market.offer({ price_usd: 900 }, seller)) as never })
    delete one?.['open_slot']
    await collection.insertMany(
      Array.from({ length: 500 }, () => ({ ...one, _id: newId('offer') as never, pending: [] })),
    )
    const { db } = market.ctx.database.connection
    await db?.command({ profile: 2 })
    const found = await list('/market/offers?currency=xno&max_price=1.5&limit=1', 'offers')
    await db?.command({ profile: 0 })
    const looks = await db?.collection('system.profile').find({ 'command.find': 'offers' }).toArray()
    await db?.dropCollection('system.profile')
    await collection.deleteMany({ agent_id: seller.id, price_usd_cents: 90_000 })
    expect(found).toEqual([cheap])
    expect(looks?.map(({ docsExamined }) => docsExamined as number)).toEqual([1])
  })
})

describe('the ledger', () => {
  // holds: limits.lists_by_volume.detail
  it('leads to all of history: of 260 posts each is found there, oldest first, and those beyond the feed are read by their ids', async () => {
    const writer = await market.registerWithPass()
    const ids: string[] = []
    for (let i = 0; i < 260; i++) ids.push(await post({ body: `post ${i}`, topic: 'history' }, writer))
    await sequencePending(market.ctx)
    const found: string[] = []
    for (let from = 1, more = true; more;) {
      const page = (await get(
        `/ledger?kind=post&agent=${writer.id}&from_id=${from}&limit=100`,
      )) as unknown as {
        entries: { data: { post_id: string } }[]
        next_id: number
        more: boolean
      }
      found.push(...page.entries.map(({ data }) => data.post_id))
      ;({ next_id: from, more } = page)
    }
    expect(found).toEqual(ids)
    expect(await list('/feed?topic=history&limit=200', 'posts')).toEqual(ids.slice(-200).toReversed())
    for (const i of [0, 59])
      expect((await get(`/post/${ids[i]}`))['post']).toMatchObject({ body: `post ${i}` })
  })

  it('is searched by kind and agent, a bounded range at a time, and says from where to go on', async () => {
    const writer = await market.registerWithPass()
    const ids = [await post({ body: 'one' }, writer), await post({ body: 'two' }, writer)]
    const claimId = await claim({ statement: 'three' }, writer)
    await sequencePending(market.ctx)
    type Found = {
      entries: { id: number; kind: string; data: Record<string, string> }[]
      next_id: number
      more: boolean
    }
    const search = async (query: string) => (await get(`/ledger?${query}`)) as unknown as Found
    const own = await search(`agent=${writer.id}`)
    expect(own.entries.map(({ kind, data }) => data['post_id'] ?? data['claim_id'] ?? kind)).toEqual([
      'registration',
      ...ids,
      claimId,
    ])
    expect([own.more, own.next_id]).toEqual([false, (await market.ctx.entries.highestId()) + 1])
    const posts = await search(`agent=${writer.id}&kind=post&limit=1`)
    expect(posts.entries.map(({ data }) => data['post_id'])).toEqual([ids[0]])
    expect([posts.more, posts.next_id]).toEqual([true, (posts.entries[0]?.id ?? 0) + 1])
    const rest = await search(`agent=${writer.id}&kind=post&from_id=${posts.next_id}`)
    expect(rest.entries.map(({ data }) => data['post_id'])).toEqual([ids[1]])
    // Beyond the end, nothing is skipped: what comes later is found from where the answer says.
    expect(await search('kind=post&from_id=900000')).toMatchObject({
      entries: [],
      next_id: 900_000,
      more: false,
    })
    expect(outcome(await market.call('GET', '/ledger?kind=gossip'))).toEqual([400, 'invalid_field', 'kind'])

    const highest = await market.ctx.entries.highestId()
    const far = Array.from({ length: MAX_ENTRIES_SEARCHED }, (_, i) => ({
      _id: highest + 1 + i,
      source: `x_${i}/x`,
      record: `x_${i}`,
      at: 1,
      kind: 'claim',
      data: {},
    }))
    const { collection } = market.ctx.entries.models.entries
    await collection.insertMany(far as never)
    const bounded = await search(`kind=post&from_id=${highest}`)
    await collection.deleteMany({ _id: { $gt: highest } } as never)
    expect(bounded).toMatchObject({ next_id: highest + MAX_ENTRIES_SEARCHED, more: true })
  })
})
