import mongoose from 'mongoose'
import { afterEach, describe, expect, it } from 'vitest'
import { LEDGERED } from '../harness/auditor/stored.ts'
import { makeClaim } from '../../shared/claims/claim-service.ts'
import { publishPost } from '../../shared/posts/post-service.ts'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { numberEntry } from '../../shared/ledger/entry.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { FULL } from '../support/full.ts'
import { openLedger, verifyLedger, type TestLedger } from '../support/ledger.ts'

let ledger: TestLedger
afterEach(() => ledger.stop())

describe('the sequencer', () => {
  it('numbers the entries of every collection from 1 and clears their marks', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const post = await publishPost(ctx, 'agt_a', { body: 'one' })
    await makeClaim(ctx, 'agt_a', { statement: 'it rains', kind: 'claim' })
    await setHidden(ctx, post._id, true)
    await setHidden(ctx, post._id, false)
    expect(await sequencePending(ctx)).toBe(4)
    const { entries, sources, waiting } = await verifyLedger(ctx, [post._id])
    expect(entries.map(({ id }) => id)).toEqual([1, 2, 3, 4])
    expect(waiting).toEqual([])
    expect(
      sources.filter((source) => source.startsWith(post._id)).map((source) => source.split('/')[1]),
    ).toEqual(['post', 'hide', 'unhide'])
    expect(entries.find(({ kind }) => kind === 'post')).toEqual({
      id: expect.any(Number),
      at: post.at,
      kind: 'post',
      data: post.pending?.[0]?.data,
    })
    expect(await sequencePending(ctx)).toBe(0)
  })

  it('numbers the entries of one record in the order of their writing, also where the clock of the later one is behind', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const nowSeconds = Math.floor(ctx.now() / 1_000)
    const behind = (seconds: number) => ({ ...ctx, now: () => (nowSeconds - seconds) * 1_000 })
    const post = await publishPost(behind(0), 'agt_a', { body: 'one' })
    await setHidden(behind(3), post._id, true)
    await setHidden(behind(4), post._id, false)
    const between = await publishPost(behind(2), 'agt_a', { body: 'two' })
    const last = await publishPost(behind(-1), 'agt_a', { body: 'three' })
    expect(await sequencePending(ctx)).toBe(5)
    const { entries } = await verifyLedger(ctx, [post._id, between._id, last._id])
    expect(entries.map(({ kind, at, data }) => [kind, data['post_id'], nowSeconds - at])).toEqual([
      ['post', between._id, 2],
      ['post', post._id, 0],
      ['hide', post._id, 3],
      ['unhide', post._id, 4],
      ['post', last._id, -1],
    ])
  })

  it('goes through more than one batch of a collection', async () => {
    ledger = await openLedger()
    const written = await ledger.write(1_050)
    expect(await sequencePending(ledger.ctx, { batchSize: 100 })).toBe(1_050)
    const { entries, waiting } = await verifyLedger(ledger.ctx, written)
    expect([entries.length, waiting.length]).toEqual([1_050, 0])
  })

  it('leaves nothing behind of a transaction that commits late', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const session = await ctx.database.connection.getClient().startSession()
    const early = { ...(await publishEarly()), at: 1 }
    const late: string[] = []
    do {
      session.startTransaction()
      await ctx.posts.models.posts.insertMany([early], { session, lean: true })
      late.push(...(await ledger.write(20)))
      expect(await sequencePending(ctx)).toBe(20)
      expect((await verifyLedger(ctx, late)).sources).not.toContain(`${early._id}/post`)
    } while (!(await isCommitted()))
    await session.endSession()
    expect(await sequencePending(ctx)).toBe(1)
    expect((await verifyLedger(ctx, [...late, early._id])).sources[late.length]).toBe(`${early._id}/post`)

    /**
     * False where the server has ended it: it does so after 3 s (mongod.ts), which a busy machine may take
     * for all that.
     */
    async function isCommitted(): Promise<boolean> {
      try {
        await session.commitTransaction()
        return true
      } catch (error) {
        if (error instanceof mongoose.mongo.MongoError && error.hasErrorLabel('TransientTransactionError'))
          return false
        throw error
      }
    }

    function publishEarly() {
      const _id = 'pst_00000000000000000000000000'
      return Promise.resolve({
        _id,
        agent_id: 'agt_a',
        body: 'early',
        salt: '00'.repeat(32),
        pending: [{ source: `${_id}/post`, at: 1, kind: 'post' as const, data: { post_id: _id } }],
      })
    }
  })

  it.each([
    ['before the entries', 'entries', 'before'],
    ['after the entries', 'entries', 'after'],
    ['before the marks', 'marks', 'before'],
    ['after the marks', 'marks', 'after'],
  ] as const)('that fails %s is carried on by the next one', async (_, write, phase) => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written = await ledger.write(250)
    let calls = 0
    const watch = (at: string, when: string) => {
      if (at === write && when === phase && ++calls === 2) throw new Error('the connection broke')
    }
    await expect(sequencePending(ctx, { batchSize: 100, watch, useLease: false })).rejects.toThrow(
      'the connection broke',
    )
    await verifyLedger(ctx, written)
    written.push(...(await ledger.write(30)))
    await sequencePending(ctx, { batchSize: 70 })
    const { entries, waiting } = await verifyLedger(ctx, written)
    expect([entries.length, waiting.length]).toEqual([280, 0])
  })

  it('is waited for by torture in every collection that may have pending entries', async () => {
    ledger = await openLedger()
    const names = ledger.ctx.entries.pendingCollections().map(({ name }) => name)
    expect(names.toSorted()).toEqual(LEDGERED.toSorted())
  })

  it('goes on where only a part of an insert was stored', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written = await ledger.write(100)
    const [posts] = ctx.entries.pendingCollections().filter(({ name }) => name === 'posts')
    const marks = ((await posts?.list('', 100)) ?? []).flatMap(({ pending }) => pending)
    await ctx.entries.append(marks.slice(0, 37).map((mark, index) => numberEntry(mark, index + 1)))
    await sequencePending(ctx, { batchSize: 60 })
    const { entries, waiting } = await verifyLedger(ctx, written)
    expect([entries.length, waiting.length]).toEqual([100, 0])
  })

  // holds: rules.ledger.statements.an_entry_is_id_at_kind
  it.runIf(FULL)('numbers each entry once with four of them at work beside 32 writers', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written: string[] = []
    let writing = true
    const writers = Array.from({ length: 32 }, async (_, writer) => {
      for (let i = 0; i < 8; i++)
        written.push(
          ...(writer % 2 === 0
            ? [(await publishPost(ctx, 'agt_w', { body: `${writer} ${i}` }))._id]
            : await ledger.write(5)),
        )
    })
    const sequencers = Array.from({ length: 4 }, async (_, index) => {
      do await sequencePending(ctx, { useLease: false, batchSize: 10 + 7 * index })
      while (writing)
    })
    await Promise.all(writers)
    writing = false
    await Promise.all(sequencers)
    await sequencePending(ctx)
    const { entries, waiting } = await verifyLedger(ctx, written)
    expect([entries.length, waiting.length]).toEqual([written.length, 0])
    expect(written).toHaveLength(16 * 8 + 16 * 8 * 5)
  })

  it('leaves the work to another that holds the lease', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    await ledger.write(1)
    const lease = await ctx.leases.take('sequencer')
    expect(await sequencePending(ctx)).toBe(0)
    await lease?.release()
    expect(await sequencePending(ctx)).toBe(1)
  })
})
