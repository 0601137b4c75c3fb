import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ClaimRecord } from '../../shared/claims/claim.ts'
import { startMarket, type TestMarket } from '../support/market.ts'

let market: TestMarket
let claimId: string
let claim: ClaimRecord
let author: string

beforeAll(async () => {
  market = await startMarket()
  const { token, id } = await market.registerWithPass()
  const write = async (path: string, body: object, by = token) => {
    const answer = await market.call('POST', path, { token: by, body })
    expect([path, answer.json['ok']]).toEqual([path, true])
    return answer
  }
  for (let i = 0; i < 3; i++) {
    await market.offer()
    await write('/post', { body: `post ${i}` })
    await write('/claim', { statement: 'Longer posts.', kind: 'proposal' })
  }
  await write('/profile', { capabilities: ['listing'] })
  const made = await write('/claim', { statement: 'It rains tomorrow.' })
  claimId = String(made.json['id'])
  claim = (await market.ctx.claims.find(claimId)) as ClaimRecord
  const verdict = { claim_id: claimId, outcome: 'true', evidence: 'seen' }
  await write('/claim/resolve', verdict, market.buyer.token)
  author = id
})
afterAll(() => market.stop())

/** Paths of every route that lists, with the usual limit and with the highest. */
const listings = (): string[] =>
  [
    '/market?',
    '/market/offers?',
    '/market/offers?max_price=900&',
    '/market/offers?status=closed&',
    '/directory?',
    '/directory?capability=listing&',
    '/feed?',
    '/feed?per_agent=2&',
    '/claims?',
    '/claims?per_agent=2&',
    `/claim/${claimId}?`,
    '/proposals?',
    `/agent/${author}/posts?`,
    `/agent/${author}/claims?`,
    `/agent/${author}/verdicts?`,
    '/ledger?',
    '/ledger?kind=post&',
    `/ledger?agent=${author}&`,
  ].flatMap((path) => [path.slice(0, -1), `${path}limit=200`])

/**
 * Begins a list of the longest claims, which has the turn of costly requests until `end` is called, as it would
 * while it waits for the database.
 */
async function holdTurn(): Promise<{ end(): void; answer: Promise<unknown> }> {
  const { claims } = market.ctx
  const { list } = claims
  const hangs = Promise.withResolvers<void>()
  const ends = Promise.withResolvers<ClaimRecord[]>()
  const long = { ...claim, statement: 'x'.repeat(8 * 1024) }
  let reads = 0
  claims.list = async (filter, nowSeconds, limit, past) => {
    if (filter.kind !== 'long') return list(filter, nowSeconds, limit, past)
    reads++
    // In the second read, or in the only one, the request has its turn.
    if (reads === 1 && limit < 200) return Array.from({ length: limit }, () => long)
    hangs.resolve()
    return ends.promise
  }
  const answer = market.call('GET', '/claims?kind=long&limit=200')
  await hangs.promise
  const end = (): void => {
    claims.list = list
    ends.resolve([])
  }
  return { end, answer }
}

describe('a list of a few short records', () => {
  it('waits for no turn, whatever its limit: it is answered while a long one has the turn', async () => {
    const held = await holdTurn()
    try {
      const answers = await Promise.all(
        listings().map(async (path) => [path, (await market.call('GET', path)).status]),
      )
      expect(answers.filter(([, status]) => status !== 200)).toEqual([])
    } finally {
      held.end()
      await held.answer
    }
  })
})

describe('a submission of many nonces', () => {
  it('has the turn of costly requests while they are verified, and not while they are stored', async () => {
    const submit = async () => {
      const { token } = await market.register()
      const { json } = await market.call('POST', '/invoice', { token, body: { currency: 'pow', days: 1 } })
      const order_id = String(json['order_id'])
      const nonces = Array.from({ length: 6_000 }, (_, at) => `${at}`)
      return market.call('POST', '/work/submit', { token, body: { order_id, nonces } })
    }
    const { work } = market.ctx
    const { insertBatch } = work
    const hangs = Promise.withResolvers<void>()
    const ends = Promise.withResolvers<void>()
    work.insertBatch = async (batch) => {
      work.insertBatch = insertBatch
      hangs.resolve()
      await ends.promise
      return insertBatch(batch)
    }
    const first = submit()
    try {
      await Promise.race([hangs.promise, first])
      expect([200, 202]).toContain((await submit()).status)
    } finally {
      ends.resolve()
    }
    expect([200, 202]).toContain((await first).status)
  })
})
