import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { isOutage } from '../servers/database.ts'
import { pagesOf } from '../servers/records.ts'
import { SECOND_MS, unixSeconds, nowSeconds } from '../foundation/time.ts'
import { DEADLINE_SLACK_MS, OUTAGE_GAP_MS } from './market-terms.ts'
import { extendForOutage } from './order-schedule.ts'
import { deadlineStep } from './order-states.ts'
import { payoutFor, releaseOrder, storeUpdate, type OrderUpdate } from './order-updates.ts'
import { journalLinesOf, stepChange, type OrderRecord } from './order.ts'

const BATCH_ORDERS = 100
const LOOK_EVERY_MS = 100

/**
 * Acts on every order with this deadline (Unix seconds), but not before the API is known to have served at
 * that time or later. A deadline that fell into an outage is extended instead. Orders share a transaction
 * only for speed: if one of them has changed, each is tried separately.
 */
export async function actOnDeadline(ctx: Context, dueAt: number): Promise<void> {
  if (nowSeconds(ctx) < dueAt || !(await hasServedSince(ctx, dueAt))) return
  const isInOutage = (await ctx.serving.findOutage(dueAt * SECOND_MS)) !== undefined
  const pages = pagesOf((after) => ctx.orders.listDue(dueAt, after, BATCH_ORDERS))
  await tryEach(pages, async (due) => {
    if (isInOutage) for (const order of due) await extendForOutage(ctx, order)
    else await actOnAll(ctx, due)
  })
}

/**
 * Works on each item, even if others fail.
 *
 * @throws the last failure, after all were tried; an outage at once
 */
async function tryEach<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = []
  for await (const item of items) {
    try {
      await work(item)
    } catch (error) {
      if (isOutage(error)) throw error
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures.at(-1)
}

/**
 * Whether the API is known to have served at `dueAt` or later. Waits a little, since its record of that may
 * still be on its way.
 */
async function hasServedSince(ctx: Context, dueAt: number): Promise<boolean> {
  const giveUpAt = performance.now() + 2 * DEADLINE_SLACK_MS
  for (;;) {
    const until = await ctx.serving.servedUntil()
    if (until !== undefined && until >= dueAt * SECOND_MS) return true
    if (until === undefined || ctx.databaseNow() - until > OUTAGE_GAP_MS || performance.now() > giveUpAt)
      return false
    await sleep(LOOK_EVERY_MS)
  }
}

/** Ends the transaction of many orders of which one has changed since it was read. */
class SomeChanged extends Error {}

async function actOnAll(ctx: Context, due: readonly OrderRecord[]): Promise<void> {
  const nowMs = ctx.databaseNow()
  const updates = due.map((before) => ({ before, payouts: [], ...deadlineUpdate(before, nowMs) }))
  try {
    await ctx.database.transaction(async (session) => {
      if (!(await ctx.orders.changeAll(updates, session))) throw new SomeChanged()
      const payouts = updates.flatMap((update) => update.payouts)
      await ctx.payouts.insert(payouts, session)
      const lines = updates.flatMap(({ before, change, payouts: own }) => journalLinesOf(before, change, own))
      await ctx.journal.write(lines, session)
    })
  } catch (error) {
    if (isOutage(error)) throw error
    if (!(error instanceof SomeChanged))
      ctx.log.warn({ err: error, orders: due.length }, 'deadlines that fail together are tried one by one')
    await tryEach(due, (order) => actOnOne(ctx, order))
  }
  ctx.log.info(
    { orders: due.length, late_ms: Math.max(...updates.map(({ change }) => change.set?.late_ms ?? 0)) },
    'deadlines of orders were acted on',
  )
}

/** Acts on an order alone, unless its deadline has changed since it was listed. */
async function actOnOne(ctx: Context, { _id: orderId, due_at: dueAt }: OrderRecord): Promise<void> {
  try {
    for (;;) {
      const before = await ctx.orders.find(orderId)
      if (before === undefined || before.due_at !== dueAt) return
      const update = deadlineUpdate(before, ctx.databaseNow())
      if (await ctx.database.transaction((session) => storeUpdate(ctx, before, update, session))) return
    }
  } catch (error) {
    if (!isOutage(error))
      ctx.log.error({ err: error, order_id: orderId }, 'the deadline of an order could not be acted on')
    throw error
  }
}

/** No delivery in time: the buyer is owed the price. No answer in time: the order is released. */
function deadlineUpdate(order: OrderRecord, nowMs: number): OrderUpdate {
  const due = deadlineStep(order.status)
  if (due === undefined || order.due_at === undefined)
    throw new Error(`order ${order._id} is ${order.status} and has a deadline`)
  const at = unixSeconds(nowMs)
  const late = { late_ms: nowMs - order.due_at * SECOND_MS }
  if (due.step === 'unanswered') return releaseOrder(order, 'unanswered', at, late)
  const set = { ...late, closed_at: at, undelivered: true } as const
  const change = stepChange(order, 'undelivered', at, { set, unset: ['due_at'] })
  return { change, payouts: [payoutFor(order, 'buyer', 'undelivered', BigInt(order.amount_raw), at)] }
}
