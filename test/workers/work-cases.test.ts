import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Context } from '../../shared/context.ts'
import { submitShares, verifyBatch } from '../../shared/passes/work-service.ts'
import { workStatusAt, type WorkOrderRecord } from '../../shared/passes/work.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { newId } from '../../shared/platform/ids.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { startService, type TestService } from '../support/service.ts'
import { listPending } from '../support/stored.ts'
import {
  orderIn,
  SENT,
  SENT_NAMES,
  SITUATIONS,
  SUBMISSION_CASES,
  VERIFIED_CASES,
  type SentName,
  type SituationName,
} from '../support/work-cases.ts'

let service: TestService
let ctx: Context
let agentId: string
beforeAll(async () => {
  service = await startService({ queues: [] })
  ctx = service.ctx
  agentId = (await service.register()).id
})
afterAll(() => service.stop())

/** Stores an order in a situation, with the page of what it has counted. */
async function storeOrder(
  name: SituationName,
  more: Partial<WorkOrderRecord> = {},
): Promise<WorkOrderRecord> {
  const { order, page } = orderIn(name, { _id: newId('work_order'), agent_id: agentId, ...more })
  await ctx.work.models.orders.create([order])
  const { number: _number, nonces, ...fields } = page
  if (nonces.length > 0)
    await ctx.work.models.pages.create([
      { ...fields, _id: `${order._id}/${'1'.padStart(9, '0')}`, nonces: nonces.join(' ') },
    ])
  return order
}

async function submit({ _id }: WorkOrderRecord, sent: readonly string[]): Promise<string> {
  try {
    const { shares, rejected } = await submitShares(ctx, agentId, _id, sent)
    const reasons = rejected.map(({ reason }) => reason).join(' ')
    return `takes ${shares.length}${reasons === '' ? '' : `: ${reasons}`}`
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const [status] = /(?<=^This work order is )\w+/.exec(error.message) ?? []
    return status === undefined ? error.code : `${error.code} ${status}`
  }
}

/** Has a worker verify nonces that wait, and says what came of them and of the order. */
async function verify(before: WorkOrderRecord, sent: readonly string[]): Promise<string> {
  const [batchId, nonces] = [newId('work_batch'), [...sent]]
  const batch = { _id: batchId, order_id: before._id, slot: before._id, nonces, count: nonces.length }
  await ctx.work.insertBatch({ ...batch, agent_id: agentId, at_ms: ctx.now(), state: 'waiting' })
  await verifyBatch(ctx, batchId)
  const verified = await ctx.work.findVerified(batchId)
  const after = await ctx.work.findOrder(before._id)
  if (after === undefined) throw new Error('the order is gone')
  const credits = await listPending(ctx.database.connection, 'work_orders', before._id)
  expect(credits.map(({ source }) => source)).toEqual(
    after.credited_days === before.credited_days ? [] : [`${before._id}/credit/${after.credited_days}`],
  )
  const status = workStatusAt(after, unixSeconds(ctx.database.now()))
  return `${verified?.outcomes}, ${status} ${after.shares_accepted}, ${after.credited_days} days`
}

describe('a stored work order', () => {
  it.each(SENT_NAMES)('takes of %s what the table says', async (name) => {
    const found: Partial<Record<SituationName, string>> = {}
    for (const situation of SITUATIONS)
      found[situation] = await submit(await storeOrder(situation), SENT[name])
    expect(found).toEqual(SUBMISSION_CASES[name])
  })

  it.each(Object.entries(VERIFIED_CASES))(
    'that has taken %s counts what the table says',
    async (name, cases) => {
      const found: Partial<Record<SituationName, string>> = {}
      for (const situation of SITUATIONS)
        found[situation] = await verify(await storeOrder(situation), SENT[name as SentName])
      expect(found).toEqual(cases)
    },
  )

  it('keeps its place among those of its agent while it is open', async () => {
    for (const [slot, situation] of SITUATIONS.entries()) await storeOrder(situation, { open_slot: slot })
    const isOpen = (name: string) => name.startsWith('open')
    const expected = SITUATIONS.flatMap((name, slot) => (isOpen(name) ? [slot] : []))
    for (let times = 0; times < 2; times++)
      expect((await ctx.work.freeOldSlots(agentId, unixSeconds(ctx.database.now()))).toSorted()).toEqual(
        expected,
      )
    const inPlace = await ctx.work.models.orders.countDocuments({ open_slot: { $exists: true } })
    expect(inPlace).toBe(expected.length)
  })
})
