import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { commit } from '../../shared/crypto/commitment.ts'
import { findContentFaults } from '../../shared/operation/content-check.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { makeReceipt } from '../../shared/about/receipt-service.ts'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { checkChain } from '../../workers/jobs/check-chain.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

let service: TestService
let alice: TestAgent
const ids: Record<'post' | 'claim' | 'verdict', string> = { post: '', claim: '', verdict: '' }
beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  alice = await service.registerWithPass({ handle: 'alice' })
  const post = (path: string, body: object) => service.call('POST', path, { token: alice.token, body })
  ids.post = String((await post('/post', { body: 'as it was written' })).json['id'])
  ids.claim = String((await post('/claim', { statement: 'it rains' })).json['id'])
  ids.verdict = (
    (await post('/claim/resolve', { claim_id: ids.claim, outcome: 'true' })).json['verdict'] as { id: string }
  ).id
})
afterAll(() => service.stop())
beforeEach(async () => {
  await sequencePending(service.ctx)
  await makeSeal(service.ctx)
})

const collection = (name: string) =>
  service.ctx.database.connection.collection<{ _id: string | number }>(name)

/** The faults while one document is another one. */
async function faultsWhile(name: string, id: string | number, change: object): Promise<string[]> {
  const before = await collection(name).findOne({ _id: id })
  if (before === null) throw new Error(`there is no ${id}`)
  await collection(name).updateOne({ _id: id }, { $set: change })
  const { sentences } = await findContentFaults(service.ctx)
  await collection(name).replaceOne({ _id: id }, before)
  return sentences
}

describe('the walk over the chain', () => {
  it('finds nothing where every record is what its entry says', async () => {
    expect(await findContentFaults(service.ctx)).toEqual({ count: 0, sentences: [] })
  })

  // holds: rules.ledger.entry_kinds.dispute, rules.ledger.entry_kinds.order
  it('opens each commitment: a text that was changed after it was sealed is found', async () => {
    expect(await faultsWhile('posts', ids.post, { body: 'as it was never written' })).toEqual([
      expect.stringContaining(`${ids.post} is not what its entry commits to`),
    ])
    expect(await faultsWhile('claims', ids.claim, { statement: 'it snows' })).toHaveLength(1)
    expect(await faultsWhile('verdicts', ids.verdict, { evidence: 'dry' })).toHaveLength(1)
    expect(await faultsWhile('agents', alice.id, { handle: 'bob' })).toHaveLength(1)
    expect(await faultsWhile('posts', ids.post, { salt: 'none' })).toHaveLength(1)
  })

  it('follows the links to authors', async () => {
    for (const [name, id] of [
      ['posts', ids.post],
      ['claims', ids.claim],
      ['verdicts', ids.verdict],
    ] as const)
      expect(await faultsWhile(name, id, { agent_id: 'agt_another' })).toEqual([
        expect.stringContaining('has another author'),
      ])
  })

  it('computes the sums of every seal', async () => {
    const seal = await service.ctx.seals.find(1)
    expect(await faultsWhile('entries', seal?.to_id ?? 0, { 'data.owed.xno': '5' })).toContainEqual(
      expect.stringContaining('seal 1 states another "owed"'),
    )
  })

  it('goes on after a seal whose last entry does not close it', async () => {
    const { ctx } = service
    await service.call('POST', '/post', { token: alice.token, body: { body: 'one more' } })
    await sequencePending(ctx)
    await makeSeal(ctx)
    const [first, last] = [await ctx.seals.find(1), await ctx.seals.last()]
    const closing = await collection('entries').findOne({ _id: last?.to_id ?? 0 })
    await collection('entries').updateOne({ _id: last?.to_id ?? 0 }, { $set: { 'data.owed.xno': '5' } })
    const faults = await faultsWhile('entries', first?.to_id ?? 0, { kind: 'post' })
    await collection('entries').replaceOne({ _id: last?.to_id ?? 0 }, closing ?? {})
    expect(faults).toContainEqual(expect.stringContaining('is the last of seal 1 and does not close it'))
    expect(faults).toContainEqual(expect.stringContaining(`seal ${last?._id} states another "owed"`))
  })

  it('counts and says what it finds, and leaves the chain as it is', async () => {
    const { ctx } = service
    const before = await collection('posts').findOne({ _id: ids.post })
    await collection('posts').updateOne({ _id: ids.post }, { $set: { body: 'altered' } })
    await checkChain(ctx)
    await collection('posts').replaceOne({ _id: ids.post }, before ?? {})
    expect(await ctx.metrics.registry.metrics()).toContain('ledger_anomalies_total{kind="content"} 1')
    expect(service.logged()).toContain('records are not what the ledger says')
    expect(await ctx.seals.readStatus()).toMatchObject({ intact: true })
  })
})

describe('a commitment', () => {
  it('binds the id of its record, so that it is of no other one', async () => {
    const { openings = [], entries } = await makeReceipt(service.ctx, ids.post)
    const { salt = '', content } = openings[0] ?? {}
    expect(content).toEqual({ body: 'as it was written', id: ids.post, topic: null })
    expect(entries[0]?.entry.data['content_hash']).toBe(commit(Buffer.from(salt, 'hex'), content ?? null))
    // The same under another id is found.
    const other = { ...(await collection('posts').findOne({ _id: ids.post })), _id: 'pst_other' }
    await collection('posts').insertOne(other)
    const [first] = await service.ctx.entries.listByRecord(ids.post)
    const id = (await service.ctx.entries.highestId()) + 1
    await collection('entries').insertOne({
      ...first,
      _id: id,
      source: 'pst_other/post',
      record: 'pst_other',
    } as never)
    expect((await findContentFaults(service.ctx)).sentences).toEqual([
      `entry ${id}: pst_other is not what its entry commits to`,
    ])
    await collection('entries').deleteOne({ _id: id })
    await collection('posts').deleteOne({ _id: 'pst_other' })
  })
})

describe('the entries of hiding a post and of showing it again', () => {
  // holds: rules.ledger.entry_kinds.hide
  it('carry the rule', async () => {
    const { ctx } = service
    await setHidden(ctx, ids.post, true, 'spam')
    await setHidden(ctx, ids.post, false)
    await setHidden(ctx, ids.post, true)
    await setHidden(ctx, ids.post, false)
    await sequencePending(ctx)
    const entries = await ctx.entries.listByRecord(ids.post)
    expect(entries.slice(1).map(({ kind, data }) => [kind, data])).toEqual([
      ['hide', { post_id: ids.post, rule: 'spam' }],
      ['unhide', { post_id: ids.post, rule: 'spam' }],
      ['hide', { post_id: ids.post, rule: null }],
      ['unhide', { post_id: ids.post, rule: null }],
    ])
  })
})
