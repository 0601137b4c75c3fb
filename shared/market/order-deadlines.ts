import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { isOutage, Overtaken, rolledBack } from '../platform/database.ts'
import { pagesOf } from '../platform/records.ts'
import { SECOND_MS, unixSeconds, nowSeconds } from '../platform/time.ts'
import { DEADLINE_OVERDUE_SECONDS, DEADLINE_SLACK_MS, OUTAGE_GAP_MS } from './market-terms.ts'
import { deadlineUpdate, extensionUpdate } from './order-rules.ts'
import { changeOrder } from './order-updates.ts'
import { journalLinesOf, type OrderRecord } from './order.ts'
import type { OutageRecord } from './outage-store.ts'

const BATCH_ORDERS = 200
const POLL_MS = 100
/** How many overdue times one sweep enqueues. */
const SWEEP_TIMES = 1_000

/** Enqueues the job for an order's deadline, if it has one: one job for all that are due in that second. */
export async function enqueueDeadline(
  ctx: Context,
  { due_at: dueAt }: Pick<OrderRecord, 'due_at'>,
): Promise<void> {
  if (dueAt === undefined) return
  const delayMs = Math.max(0, dueAt * SECOND_MS + DEADLINE_SLACK_MS - ctx.database.now())
  await ctx.queues.enqueue('order-deadlines', { due_at: dueAt }, { debounceId: `due-${dueAt}`, delayMs })
}

/**
 * Enqueues the deadlines that no job has acted on in time; the sweep calls it. The job's own id keeps it
 * apart from the deadline's first job, which may still be delayed.
 */
export async function enqueueOverdueDeadlines(ctx: Context): Promise<number> {
  const untilSeconds = nowSeconds(ctx) - DEADLINE_OVERDUE_SECONDS
  const overdue = await ctx.orders.listDueTimes(untilSeconds, SWEEP_TIMES)
  for (const dueAt of overdue)
    await ctx.queues.enqueue('order-deadlines', { due_at: dueAt }, { debounceId: `overdue-${dueAt}` })
  return overdue.length
}

/**
 * Acts on every order with this deadline (Unix seconds); does nothing before that time, or if the API is not
 * known to have served since. If the deadline fell into an outage of the API, it is extended instead. Orders
 * share a transaction only for speed: if one of them has changed, each is tried separately.
 *
 * @returns how many orders were due
 * @throws the last failure, after all orders were tried; an outage of MongoDB at once
 */
export async function actOnDeadline(ctx: Context, dueAt: number): Promise<number> {
  if (nowSeconds(ctx) < dueAt || !(await waitUntilServed(ctx, dueAt))) return 0
  let orders = 0
  const isInOutage = (await ctx.orders.outages.find(dueAt * SECOND_MS)) !== undefined
  const pages = pagesOf((after) => ctx.orders.listDue(dueAt, after, BATCH_ORDERS), BATCH_ORDERS)
  await tryEach(pages, async (due) => {
    orders += due.length
    if (isInOutage) for (const order of due) await extendForOutage(ctx, order)
    else await actOnAll(ctx, due)
  })
  return orders
}

/** Works on each item, even if others fail. @throws the last failure at the end; an outage at once */
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
 * Waits a few seconds at most until the API's record says that it served at `dueAt` (Unix seconds) or later.
 *
 * @returns false if it does not say so in time, or if the API has not served for so long that it is an outage
 */
async function waitUntilServed(ctx: Context, dueAt: number): Promise<boolean> {
  const giveUpAt = performance.now() + 2 * DEADLINE_SLACK_MS
  for (;;) {
    const untilMs = await ctx.orders.outages.readServedUntil()
    if (untilMs !== undefined && untilMs >= dueAt * SECOND_MS) return true
    if (untilMs === undefined || ctx.database.now() - untilMs > OUTAGE_GAP_MS) return false
    if (performance.now() > giveUpAt) return false
    await sleep(POLL_MS)
  }
}

/**
 * Acts on orders with one deadline, in one transaction, or each alone if that fails.
 *
 * @throws the last failure, after all orders were tried; an outage of MongoDB at once
 */
async function actOnAll(ctx: Context, due: readonly OrderRecord[]): Promise<void> {
  const nowMs = ctx.database.now()
  const updates = due.map((before) => ({ before, payouts: [], ...deadlineUpdate(before, nowMs) }))
  try {
    await ctx.database.transaction(async (session) => {
      await ctx.orders.changeAll(updates, session)
      const payouts = updates.flatMap((update) => update.payouts)
      await ctx.payouts.insert(payouts, session)
      const lines = updates.flatMap((update) => journalLinesOf(update.before, update.change, update.payouts))
      await ctx.journal.write(lines, session)
    })
  } catch (error) {
    if (isOutage(error)) throw error
    if (!(error instanceof Overtaken))
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
    await changeOrder(
      ctx,
      async () => ({ order: await readAgain(ctx, orderId) }),
      ({ order }, nowMs) => (order.due_at === dueAt ? deadlineUpdate(order, nowMs) : undefined),
    )
  } catch (error) {
    if (!isOutage(error))
      ctx.log.error({ err: error, order_id: orderId }, 'the deadline of an order could not be acted on')
    throw error
  }
}

/** Reads an order that was listed before. @throws Refusal `unavailable` if an election has rolled it back */
async function readAgain(ctx: Context, orderId: string): Promise<OrderRecord> {
  const order = await ctx.orders.find(orderId)
  if (order === undefined) throw rolledBack(`order ${orderId}`)
  return order
}

/**
 * If the order's deadline fell into an outage of the API, extends it to an hour after the first request that
 * was served again. The pay-by time is never extended: the chain can be paid meanwhile.
 *
 * @returns the order as it stands now
 */
export async function extendForOutage(ctx: Context, order: OrderRecord): Promise<OrderRecord> {
  if ((await findOutageOf(ctx, order)) === undefined) return order
  const changed = await changeOrder(
    ctx,
    async () => {
      const current = await readAgain(ctx, order._id)
      return { order: current, outage: await findOutageOf(ctx, current) }
    },
    ({ order: current, outage }, nowMs) => extensionUpdate(current, outage, unixSeconds(nowMs)),
  )
  if (changed.due_at === order.due_at) return changed
  await enqueueDeadline(ctx, changed)
  // The new deadline may lie in another outage.
  return extendForOutage(ctx, changed)
}

/** The outage of the API that an order's deadline fell into, if there is one. */
const findOutageOf = async (
  ctx: Context,
  { due_at: dueAt }: OrderRecord,
): Promise<OutageRecord | undefined> =>
  dueAt === undefined ? undefined : ctx.orders.outages.find(dueAt * SECOND_MS)
