import { generateKeyPairSync, hash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClient, RefusalError } from '../../client/client.ts'
import { newAuthorKeyPair } from '../../client/author-signatures.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { didOfKey } from '../../shared/crypto/did-key.ts'
import { ed25519Sign, keyFromHex } from '../../shared/crypto/ed25519.ts'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { listPending } from '../support/stored.ts'
import { ADDRESSES, startMarket, type TestMarket } from '../support/market.ts'
import type { TestAgent } from '../support/service.ts'

let market: TestMarket
let alice: TestAgent
const key = newAuthorKeyPair()
const newDmKey = () =>
  generateKeyPairSync('x25519')
    .publicKey.export({ type: 'spki', format: 'der' })
    .subarray(-32)
    .toString('hex')

beforeAll(async () => {
  market = await startMarket({ queues: [] })
  alice = await market.registerWithPass()
  const { status } = await market.call('POST', '/profile', {
    token: alice.token,
    body: { author_key: key.author_public_key },
  })
  expect(status).toBe(200)
})
afterAll(() => market.stop())

const seen = { size: 7, root: 'ab'.repeat(32) }

/** Written from the description in GET /rules alone. */
function sign(
  statement: { agent_id: string; kind: string; content: object },
  secretKey = key.author_secret_key,
) {
  const text = canonicalJson({ ...statement, seen })
  return {
    seen,
    signature: Buffer.from(ed25519Sign(Buffer.from(text), keyFromHex(secretKey))).toString('base64'),
  }
}
/** Of the answers, what is looked at. */
interface Made {
  id: string
  error?: string
  field?: string
  post: { author?: object }
  verdict: { id: string; author?: object }
}
interface Card {
  recent_posts: { author?: object }[]
  profile: { author_key?: string; did?: string }
}
const call = async (route: string, body: object, { token } = alice) => {
  const { status, json } = await market.call('POST', route, { token, body })
  return { status, json: json as unknown as Made }
}
const entryOf = async (collection: string, id: string) =>
  (await listPending(market.ctx.database.connection, collection, id)).at(-1)?.data as Record<string, unknown>
const authorIn = (signature: string) => ({
  author_key: key.author_public_key,
  signature_hash: hash('sha256', Buffer.from(signature, 'base64'), 'hex'),
})

describe('a signature of the author', () => {
  // holds: rules.signatures.content.post, rules.signatures.statements.the_entry_carries_author_the_author
  it('on a post is verified, shown on the post and the card, hashed in its entry, and gone where the post is hidden', async () => {
    const content = { body: 'mine', topic: null }
    const signed = sign({ agent_id: alice.id, kind: 'post', content })
    const { status, json } = await call('/post', { body: 'mine', ...signed })
    expect(status, JSON.stringify(json)).toBe(201)
    const author = { author_key: key.author_public_key, ...signed }
    expect(json['post'].author).toEqual(author)
    expect(await entryOf('posts', json['id'])).toMatchObject({ author: authorIn(signed.signature) })
    const card = async () => (await market.call('GET', `/agent/${alice.id}`)).json as unknown as Card
    expect((await card())['recent_posts'][0]?.author).toEqual(author)
    const { author_key: shownKey, did } = (await card())['profile']
    expect([shownKey, did]).toEqual([key.author_public_key, didOfKey(key.author_public_key)])
    await setHidden(market.ctx, json['id'], true)
    expect((await card())['recent_posts'][0]?.author).toBeUndefined()
  })

  // holds: rules.signatures.content.claim, rules.signatures.content.verdict
  // holds: rules.signatures.statements.signed_is_the_canonical_json_of
  it('on a claim and a verdict covers what is put on record', async () => {
    const claim = sign({
      agent_id: alice.id,
      kind: 'claim',
      content: { kind: 'claim', resolve_by: 4_102_444_800, statement: 'it rains' },
    })
    const made = await call('/claim', {
      statement: 'it rains',
      resolve_by: '2100-01-01T00:00:00+00:00',
      ...claim,
    })
    expect(made.status, JSON.stringify(made.json)).toBe(201)
    expect(await entryOf('claims', made.json['id'])).toMatchObject({ author: authorIn(claim.signature) })
    const content = { claim_id: made.json['id'], evidence: null, outcome: 'true' }
    const verdict = sign({ agent_id: alice.id, kind: 'verdict', content })
    const judged = await call('/claim/resolve', { claim_id: made.json['id'], outcome: 'true', ...verdict })
    expect(judged.json['verdict'].author).toEqual({ author_key: key.author_public_key, ...verdict })
    expect(await entryOf('verdicts', judged.json['verdict'].id)).toMatchObject({
      author: authorIn(verdict.signature),
    })
  })

  // holds: rules.signatures.content.order ordered, rules.signatures.content.order refund_address
  // holds: rules.signatures.statements.a_signature_that_is_not_right
  // holds: rules.signatures.statements.an_agent_whose_card_has_an
  // holds: rules.signatures.statements.seen_is_size_root_of_the
  // holds: rules.signatures.statements.signed_is_the_canonical_json_of
  it('is refused, and nothing stored, if it is of another text, kind, agent or key, or comes without what was seen', async () => {
    const good = { agent_id: alice.id, kind: 'post', content: { body: 'b', topic: null } }
    const bob = await market.registerWithPass()
    const other = newAuthorKeyPair()
    const wrong: [object, TestAgent?][] = [
      [sign({ ...good, content: { body: 'c', topic: null } })],
      [sign({ ...good, content: { body: 'b' } })],
      [sign({ ...good, kind: 'claim' })],
      [sign({ ...good, agent_id: bob.id })],
      [sign(good, other.author_secret_key)],
      [{ ...sign(good), seen: { ...seen, size: 8 } }],
      [{ signature: sign(good).signature }],
      [{ seen }],
      [{ seen, signature: 'A'.repeat(88) }],
      [{ ...sign(good), seen: { size: -1, root: '' } }],
      [sign({ ...good, agent_id: bob.id }), bob],
    ]
    for (const [signed, agent] of wrong) {
      const { status, json } = await call('/post', { body: 'b', ...signed }, agent)
      expect([status, json['error'], json['field']], JSON.stringify(signed)).toEqual([
        400,
        'invalid_field',
        expect.any(String),
      ])
    }
    expect(await market.ctx.posts.models.posts.countDocuments({ body: 'b' })).toBe(0)
  })

  // holds: rules.ledger.entry_kinds.author_key_change, rules.signatures.content.author_key_change
  // holds: rules.signatures.content.dm_key_change, rules.signatures.statements.once_there_is_an_author_key
  it('is asked of a change of either key once there is an author key, and stands whole in the entry', async () => {
    const [dmKey, next] = [newDmKey(), newAuthorKeyPair()]
    const carol = await market.register()
    expect((await call('/profile', { dm_key: newDmKey() }, carol)).status).toBe(200)
    expect((await call('/profile', { author_key: key.author_public_key }, carol)).status).toBe(200)
    const refused = async (body: object) => {
      const { status, json } = await call('/profile', body, carol)
      expect([status, json['error']]).toEqual([400, 'invalid_field'])
    }
    const change = sign({ agent_id: carol.id, kind: 'dm_key_change', content: { dm_key: dmKey } })
    await refused({ dm_key: dmKey })
    await refused({ dm_key: newDmKey(), ...change })
    await refused({ author_key: next.author_public_key })
    await refused({ dm_key: dmKey, author_key: next.author_public_key, ...change })
    expect((await call('/profile', { name: 'still free' }, carol)).status).toBe(200)
    expect((await call('/profile', { dm_key: dmKey, ...change }, carol)).status).toBe(200)
    expect((await call('/profile', { dm_key: dmKey }, carol)).status).toBe(200)
    const author = { author_key: key.author_public_key, ...change }
    expect(await entryOf('agents', carol.id)).toEqual({ agent_id: carol.id, dm_key: dmKey, author })
    const rotation = sign({
      agent_id: carol.id,
      kind: 'author_key_change',
      content: { author_key: next.author_public_key },
    })
    expect((await call('/profile', { author_key: next.author_public_key, ...rotation }, carol)).status).toBe(
      200,
    )
    await refused({ dm_key: newDmKey(), ...change })
    // Its holder alone revokes it; then nothing need be signed, and nothing can be.
    await refused({ author_key: null })
    const end = { agent_id: carol.id, kind: 'author_key_change', content: { author_key: null } }
    await refused({ author_key: null, ...sign(end) })
    const revocation = sign(end, next.author_secret_key)
    expect((await call('/profile', { author_key: null, ...revocation }, carol)).status).toBe(200)
    expect(await entryOf('agents', carol.id)).toEqual({
      agent_id: carol.id,
      author_key: null,
      author: { author_key: next.author_public_key, ...revocation },
    })
    expect((await call('/profile', { dm_key: newDmKey() }, carol)).status).toBe(200)
    await refused({ dm_key: newDmKey(), ...change })
  })

  // holds: rules.signatures.content.dispute disputed, rules.signatures.content.order accepted
  // holds: rules.signatures.content.order delivered
  // holds: rules.signatures.statements.the_entry_carries_author_the_author
  it('is taken on each step of an order, whoever does it, and covers its content alone', async () => {
    const { ctx, seller, buyer } = market
    const keys = new Map([seller, buyer].map((agent) => [agent.id, newAuthorKeyPair()]))
    for (const agent of [seller, buyer])
      expect(
        (await call('/profile', { author_key: keys.get(agent.id)?.author_public_key }, agent)).status,
      ).toBe(200)
    /** What `agent` signs of a step; `wrong` is what it sends in place of that. */
    const step = async (agent: TestAgent, kind: string, name: string, content: Record<string, unknown>) => {
      const { step: _step, ...body } = content
      const signed = sign({ agent_id: agent.id, kind, content }, keys.get(agent.id)?.author_secret_key)
      const misquoted = sign(
        { agent_id: agent.id, kind, content: { ...content, order_id: 'ord_other' } },
        keys.get(agent.id)?.author_secret_key,
      )
      expect(await call(`/market/${name}`, { ...body, ...misquoted }, agent)).toMatchObject({
        status: 400,
        json: { error: 'invalid_field', field: 'signature' },
      })
      const done = await market.call('POST', `/market/${name}`, {
        token: agent.token,
        body: { ...body, ...signed },
      })
      expect([done.status, done.json['error']], kind).toEqual([200, undefined])
      const { signatures } = done.json['order'] as { signatures: { step: string; signature: string }[] }
      expect(signatures.at(-1)).toMatchObject({ agent_id: agent.id, signature: signed.signature })
      const entries = await listPending(ctx.database.connection, 'orders', String(content['order_id']))
      const hashOf = hash('sha256', Buffer.from(signed.signature, 'base64'), 'hex')
      expect(JSON.stringify(entries)).toContain(hashOf)
    }
    const accepted = await market.paidOrder()
    const of = (order: { id: string }, fields: object) => ({ order_id: order.id, ...fields })
    await step(seller, 'order', 'deliver', of(accepted, { delivery: 'Saluton', step: 'delivered' }))
    await step(buyer, 'order', 'accept', of(accepted, { step: 'accepted' }))
    const disputed = await market.delivered()
    await step(buyer, 'dispute', 'dispute', of(disputed, { reason: 'It is empty.', step: 'disputed' }))
  })

  // holds: rules.signatures.content.order ordered, rules.signatures.content.order refund_address
  // holds: rules.signatures.statements.a_signature_that_is_not_right
  // holds: rules.signatures.statements.an_agent_whose_card_has_an
  it('is made by the client on all that it puts on record, an order with its steps too', async () => {
    const { ctx } = market
    const client = createClient({
      baseUrl: market.url,
      token: alice.token,
      author: { agent_id: alice.id, secret_key: key.author_secret_key },
    })
    const { post } = await client.post({ body: 'by the client', topic: 't' })
    expect(post.author?.author_key).toBe(key.author_public_key)
    const { claim } = await client.makeClaim({ statement: 's', resolve_by: '2100-01-01T00:00:00+00:00' })
    expect(claim.author).toBeDefined()
    expect(
      (await client.resolveClaim({ claim_id: claim.id, outcome: 'false', evidence: 'e' })).verdict.author,
    ).toBeDefined()
    await client.updateProfile({ dm_key: newDmKey() })
    await client.updateProfile({ name: 'N' })
    const { order } = await client.placeOrder({ offer_id: await market.offer() })
    expect(order.signatures?.map(({ step, agent_id: id }) => [step, id])).toEqual([['ordered', alice.id]])
    const named = await client.setRefundAddress({ order_id: order.order_id, address: ADDRESSES.xno })
    expect(named.order.signatures?.map(({ step }) => step)).toEqual(['ordered', 'refund_address'])
    const steps = await listPending(ctx.database.connection, 'orders', order.order_id)
    expect(steps.map(({ data }) => 'author' in data)).toEqual([true, true])
    const thief = createClient({ baseUrl: market.url, token: alice.token })
    await expect(thief.updateProfile({ dm_key: newDmKey() })).rejects.toBeInstanceOf(RefusalError)
  })
})
