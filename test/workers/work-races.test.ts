import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { MAX_BATCH_NONCES } from '../../shared/platform/limits.ts'
import { newId } from '../../shared/platform/ids.ts'
import { submitShares, verifyBatch } from '../../shared/passes/work-service.ts'
import { findNonces, startService, type TestAgent, type TestService } from '../support/service.ts'

/*
 * What processes do to one batch of shares in the same moment, or too late. The moment is made, not hit: one
 * takes its step between another's read and write.
 */

const BITS = 8
let service: TestService
/** Another worker process, as far as the database can tell. */
let worker: Context

beforeAll(async () => {
  service = await startService({ queues: [] })
  worker = openContext(service.ctx.config, service.ctx.log, { now: service.ctx.now })
  await worker.database.whenReady()
})
afterAll(async () => {
  await closeContext(worker)
  await service.stop()
})

interface Order {
  agent: TestAgent
  id: string
  /** Ten different ones. */
  shares: string[]
}

async function makeOrder(): Promise<Order> {
  const agent = await service.register()
  const body = { currency: 'pow', days: 9 }
  const { json } = await service.call('POST', '/invoice', { token: agent.token, body })
  const { order_id: id, prefix } = json as unknown as { order_id: string; prefix: string }
  return { agent, id, shares: findNonces(prefix, BITS, 10) }
}

/** Stores nonces as the order's waiting batch. */
async function wait({ agent, id }: Order, nonces: string[]): Promise<string> {
  const batchId = newId('work_batch')
  const batch = { _id: batchId, order_id: id, agent_id: agent.id, slot: id, nonces, count: nonces.length }
  await service.ctx.work.insertBatch({ ...batch, at_ms: service.ctx.now(), state: 'waiting' })
  return batchId
}

/** Verifies a batch; `meanwhile` happens once, after the order was read. */
function verifyWhile(batchId: string, meanwhile: () => Promise<unknown>): Promise<unknown> {
  let isFirst = true
  const findOrder: typeof worker.work.findOrder = async (orderId) => {
    const order = await worker.work.findOrder(orderId)
    if (isFirst) await meanwhile()
    isFirst = false
    return order
  }
  return verifyBatch({ ...worker, work: { ...worker.work, findOrder } }, batchId)
}

/** A letter for each nonce of a verified batch: see encodeOutcomes(). */
const outcomesOf = async (batchId: string) => (await service.ctx.work.findVerified(batchId))?.outcomes
const pagesOf = async ({ id }: Order) =>
  (await service.ctx.work.listPages(id, 1, 99)).map(({ nonces }) => nonces)

describe('a batch of shares', () => {
  it('that more join while it is verified is verified again at once, with all of them', async () => {
    const order = await makeOrder()
    const [first = '', second = '', third = ''] = order.shares
    const batchId = await wait(order, [first, second])
    await verifyWhile(batchId, () => service.ctx.work.joinBatch(order.id, [third]))
    expect(await outcomesOf(batchId)).toBe('aaa')
    expect(await pagesOf(order)).toEqual([[first, second, third]])
  })

  // holds: rules.errors.try_later
  it('takes as many as one job may hold; shares beyond are its owner’s to send later, and not stored', async () => {
    const order = await makeOrder()
    const almostFull = Array.from({ length: MAX_BATCH_NONCES - 1 }, (_, index) => `a${index}`)
    const batchId = await wait(order, almostFull)
    const body = { order_id: order.id, nonces: order.shares.slice(0, 2) }
    const refused = await service.call('POST', '/work/submit', { token: order.agent.token, body })
    expect([refused.status, refused.json.error]).toEqual([429, 'try_later'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    const submit = (nonces: string[]) => submitShares(service.ctx, order.agent.id, order.id, nonces)
    expect(await submit(order.shares.slice(2, 3))).toMatchObject({ batchId, from: MAX_BATCH_NONCES - 1 })
    const [batch] = await service.ctx.work.findWaiting([batchId])
    expect(batch?.nonces?.slice(-2)).toEqual([almostFull.at(-1), order.shares[2]])
  })

  it('that waits past the end of its order finds there what was counted before, and nothing counts twice', async () => {
    const order = await makeOrder()
    const [first = '', second = ''] = order.shares
    await verifyBatch(worker, await wait(order, [first]))
    const batchId = await wait(order, [first, second])
    const endedAt = (await service.ctx.work.findOrder(order.id))?.expires_at ?? 0
    const tidy = () => service.ctx.work.deleteOldPages(endedAt, Number.MAX_SAFE_INTEGER)
    await tidy()
    await verifyBatch(worker, batchId)
    expect(await outcomesOf(batchId)).toBe('da')
    expect(await pagesOf(order)).toEqual([[first], [second]])
    await tidy()
    expect(await pagesOf(order)).toEqual([])
  })
})
