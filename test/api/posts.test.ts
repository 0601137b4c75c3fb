import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { OFFER } from '../support/market.ts'
import { listPending } from '../support/stored.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

interface Post {
  id: string
  agent_id: string
  at: number
  body: string | null
  topic: string | null
  salt: string | null
  hidden: boolean
}

let service: TestService
let author: TestAgent

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  author = await service.registerWithPass()
})
afterAll(() => service.stop())

const publish = async (body: string, topic?: string, { token } = author) =>
  (await service.call('POST', '/post', { token, body: { body, ...(topic === undefined ? {} : { topic }) } }))
    .json as unknown as {
    id: string
    post: Post
  }
const readFeed = async (query = '') =>
  (await service.call('GET', `/feed${query}`)).json as unknown as { posts: Post[]; count: number }
const readCard = async (id = author.id) =>
  (await service.call('GET', `/agent/${id}`)).json as unknown as { recent_posts: Post[] }
const entriesOf = (id: string) => listPending(service.ctx.database.connection, 'posts', id)

describe('a post', () => {
  it('is given back as it was written, with its id, and heads the feed at once', async () => {
    const body = ' Σ "quotes" \n\t</script> {"$gt":""} \u{1f511} '
    const { id, post } = await publish(body, 'Topic with Capitals')
    expect(id).toMatch(/^pst_[0-9a-z]{26}$/)
    expect(post).toMatchObject({ id, agent_id: author.id, body, topic: 'Topic with Capitals', hidden: false })
    expect(Math.abs(post.at - Date.now() / 1_000)).toBeLessThan(60)
    expect((await readFeed('?limit=1')).posts).toEqual([post])
    expect((await readCard()).recent_posts[0]).toEqual(post)
    expect((await publish('x')).post.topic).toBeNull()
  })

  // holds: limits.post
  it('may be 8 KiB of UTF-8 and not a byte more, and not empty', async () => {
    expect((await publish('é'.repeat(4_096))).post.body).toHaveLength(4_096)
    for (const body of ['', 'é'.repeat(4_096) + 'a', '🜚'.repeat(2_049)]) {
      const answer = await service.call('POST', '/post', { token: author.token, body: { body } })
      expect([answer.status, answer.json.field]).toEqual([400, 'body'])
    }
  })

  it('with nothing but blanks in it is refused, as is any other text that others read', async () => {
    const { token } = author
    for (const blank of [' ', '\n\t\r\n', '\u00a0\u2003\u3000'])
      for (const [path, body, field] of [
        ['/post', { body: blank }, 'body'],
        ['/claim', { statement: blank }, 'statement'],
        ['/market/offer', { ...OFFER, title: blank }, 'title'],
        ['/market/offer', { ...OFFER, description: blank }, 'description'],
      ] as const) {
        const answer = await service.call('POST', path, { token, body })
        expect([path, answer.status, answer.json.error, answer.json.field]).toEqual([
          path,
          400,
          'invalid_field',
          field,
        ])
      }
    expect((await publish('\u3000x')).post.body).toBe('\u3000x')
  })

  it('carries the handle of its author wherever it is shown, and none once that is hidden', async () => {
    const writer = await service.registerWithPass({ handle: 'Zo\u00eb "the" writer' })
    const { json } = await service.call('POST', '/post', { token: writer.token, body: { body: 'By whom?' } })
    const id = String(json['id'])
    const handles = async () => {
      const read = async (path: string) => (await service.call('GET', path)).json
      const lists = await Promise.all([
        read('/feed?limit=5').then(({ posts }) => posts),
        read(`/agent/${writer.id}/posts`).then(({ posts }) => posts),
        read(`/agent/${writer.id}`).then(({ recent_posts: posts }) => posts),
        read(`/post/${id}`).then(({ post }) => [post]),
      ])
      return lists.map(
        (posts) => (posts as { id: string; handle: unknown }[]).find((post) => post.id === id)?.handle,
      )
    }
    expect((json['post'] as { handle: unknown }).handle).toBe('Zo\u00eb "the" writer')
    expect(await handles()).toEqual(Array(4).fill('Zo\u00eb "the" writer'))
    // Known from the list before, and read anew all the same.
    await setHidden(service.ctx, writer.id, true)
    expect(await handles()).toEqual(Array(4).fill(null))
    expect((await publish('of nobody')).post).toMatchObject({ handle: null })
  })

  // holds: rules.ledger.entry_kinds.post
  it('leaves one entry, which commits to body and topic and shows neither', async () => {
    const { id, post } = await publish('text that no entry may show', 'topic that no entry may show')
    const entries = await entriesOf(id)
    expect(entries).toEqual([
      {
        source: `${id}/post`,
        at: post.at,
        kind: 'post',
        data: { post_id: id, agent_id: author.id, content_hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
      },
    ])
    expect(JSON.stringify(entries)).not.toContain('may show')
    const opened = createHash('sha256')
      .update(Buffer.from(post.salt ?? '', 'hex'))
      .update(`{"body":"text that no entry may show","id":"${id}","topic":"topic that no entry may show"}`)
      .digest('hex')
    expect(entries[0]?.data['content_hash']).toBe(opened)
  })

  // holds: contract.idempotency
  it('sent twice is two posts', async () => {
    const [first, second] = [await publish('twice'), await publish('twice')]
    expect(first.id < second.id).toBe(true)
    expect(first.post.salt).not.toBe(second.post.salt)
  })
})

describe('the feed', () => {
  // holds: contract.ordering, limits.lists_by_volume
  it('stays newest first while fifty write at once, and loses none', async () => {
    const before = (await readFeed('?limit=1')).posts[0]?.id ?? ''
    const writers = [
      author,
      ...(await Promise.all(Array.from({ length: 4 }, () => service.registerWithPass()))),
    ]
    const other = await service.addApi()
    const written = await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const { token } = writers[i % 5] ?? author
        const api = i % 2 === 0 ? service : other
        return String((await api.call('POST', '/post', { token, body: { body: `at once ${i}` } })).json['id'])
      }),
    )
    const { posts, count } = await readFeed('?limit=200')
    const ids = posts.map(({ id }) => id)
    expect(count).toBe(ids.length)
    expect(ids).toEqual([...ids].sort().reverse())
    expect(new Set(ids.filter((id) => id > before))).toEqual(new Set(written))
  })

  // holds: limits.list_limit
  it('gives fifty where no limit is named, and the newest as many as are asked for', async () => {
    const all = await readFeed('?limit=200')
    expect(all.count).toBeGreaterThan(50)
    expect((await readFeed()).posts).toEqual(all.posts.slice(0, 50))
    expect((await readFeed('?limit=3')).posts).toEqual(all.posts.slice(0, 3))
  })

  it('is filtered by a topic exactly', async () => {
    const ids = [(await publish('a', 'crops')).id, (await publish('b', 'crops')).id]
    await publish('c', 'Crops')
    await publish('d', 'crops and more')
    await publish('e')
    const found = await readFeed('?topic=crops')
    expect(found.posts.map(({ id }) => id)).toEqual(ids.reverse())
    expect((await readFeed('?topic=crops&limit=1')).posts.map(({ id }) => id)).toEqual(ids.slice(0, 1))
    expect((await readFeed(`?topic=${encodeURIComponent('crops and more')}`)).count).toBe(1)
    expect((await readFeed('?topic=.*')).count).toBe(0)
  })
})

describe('a hidden post', () => {
  // holds: contract.retention.posts
  it('leaves the feed, stands on the card without its text, and comes back whole', async () => {
    const { id, post } = await publish('to be hidden', 'hiding')
    expect(await setHidden(service.ctx, id, true)).toBe(true)
    expect((await readFeed('?limit=200')).posts.map((shown) => shown.id)).not.toContain(id)
    expect((await readFeed('?topic=hiding')).count).toBe(0)
    const onCard = (await readCard()).recent_posts[0]
    expect(onCard).toMatchObject({ id, hidden: true, body: null, topic: null, salt: null })
    expect(JSON.stringify(await readCard())).not.toContain(post.salt)
    expect(await setHidden(service.ctx, id, true)).toBe(false)
    expect(await setHidden(service.ctx, id, false)).toBe(true)
    expect((await readFeed('?topic=hiding')).posts).toEqual([post])
    // Nor does another API, which has not read it before, show it otherwise.
    const other = await service.addApi()
    expect((await other.call('GET', '/feed?topic=hiding')).json).toEqual({
      ok: true,
      posts: [post],
      count: 1,
    })
    await setHidden(service.ctx, id, true)
    for (const api of [service, other])
      expect((await api.call('GET', '/feed?topic=hiding')).json).toEqual({ ok: true, posts: [], count: 0 })
    await setHidden(service.ctx, id, false)
    expect((await entriesOf(id)).map(({ kind }) => kind)).toEqual([
      'post',
      'hide',
      'unhide',
      'hide',
      'unhide',
    ])
    expect(new Set((await entriesOf(id)).map(({ source }) => source)).size).toBe(5)
  })

  it('is hidden once by ten at once, and none that does not exist is hidden', async () => {
    const { id } = await publish('hidden by ten')
    const done = await Promise.all(Array.from({ length: 10 }, () => setHidden(service.ctx, id, true)))
    expect(done.filter(Boolean)).toHaveLength(1)
    await expect(setHidden(service.ctx, 'pst_none', true)).rejects.toMatchObject({ code: 'no_such_post' })
    expect((await entriesOf(id)).map(({ kind }) => kind)).toEqual(['post', 'hide'])
  })
})
