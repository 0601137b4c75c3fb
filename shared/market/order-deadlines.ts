import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { isOutage } from '../servers/database.ts'
import { pagesOf } from '../servers/records.ts'
import { SECOND_MS, unixSeconds, nowSeconds } from '../foundation/time.ts'
import { DEADLINE_SLACK_MS, OUTAGE_GAP_MS } from './market-terms.ts'
import { extendForOutage } from './order-outages.ts'
import { makeMove, payoutFor, releaseOrder, type Move } from './order-service.ts'
import { deadlineStep } from './order-states.ts'
import { moveLines, stepChange, type OrderRecord } from './order.ts'

const BATCH_ORDERS = 100
const LOOK_EVERY_MS = 100

/**
 * Acts on every order with this deadline (Unix seconds), but not before the API is known to have served at
 * that time or later. A deadline that fell into an outage is extended instead. Orders share a transaction
 * only for speed: if one of them has changed, each is tried separately.
 */
export async function actOnDeadline(ctx: Context, dueAt: number): Promise<void> {
  if (nowSeconds(ctx) < dueAt || !(await isKnown(ctx, dueAt))) return
  const isInOutage = (await ctx.serving.findOutage(dueAt * SECOND_MS)) !== undefined
  let failed: unknown
  for await (const due of pagesOf((after) => ctx.orders.listDue(dueAt, after, BATCH_ORDERS))) {
    try {
      if (isInOutage) for (const order of due) await extendForOutage(ctx, order)
      else await actOnAll(ctx, due)
    } catch (error) {
      if (isOutage(error)) throw error
      failed = error
    }
  }
  if (failed !== undefined) throw failed
}

/**
 * Whether the API is known to have served at `dueAt` or later. Waits a little, since its record of that may
 * still be on its way.
 */
async function isKnown(ctx: Context, dueAt: number): Promise<boolean> {
  const giveUpAt = performance.now() + 2 * DEADLINE_SLACK_MS
  for (;;) {
    const until = await ctx.serving.servedUntil()
    if (until !== undefined && until >= dueAt * SECOND_MS) return true
    if (until === undefined || ctx.databaseNow() - until > OUTAGE_GAP_MS || performance.now() > giveUpAt)
      return false
    await sleep(LOOK_EVERY_MS)
  }
}

class NotAll extends Error {}

async function actOnAll(ctx: Context, due: readonly OrderRecord[]): Promise<void> {
  const nowMs = ctx.databaseNow()
  const moves = due.map((before) => ({ before, ...deadlineMove(before, nowMs) }))
  try {
    await ctx.database.transaction(async (session) => {
      if (!(await ctx.orders.changeAll(moves, session))) throw new NotAll()
      await ctx.payouts.insert(
        moves.flatMap(({ payouts = [] }) => payouts),
        session,
      )
      await ctx.journal.write(
        moves.flatMap(({ before, change, payouts }) => moveLines(before, change, payouts)),
        session,
      )
    })
  } catch (error) {
    if (isOutage(error)) throw error
    if (!(error instanceof NotAll))
      ctx.log.warn({ err: error, orders: due.length }, 'deadlines that fail together are tried one by one')
    await actOnEach(ctx, due)
  }
  ctx.log.info(
    { orders: due.length, late_ms: Math.max(...moves.map(({ change }) => change.set.late_ms ?? 0)) },
    'deadlines of orders were acted on',
  )
}

/**
 * Acts on orders one after the other, even if one of them fails.
 *
 * @throws the last failure, after all were tried; an outage at once
 */
async function actOnEach(ctx: Context, due: readonly OrderRecord[]): Promise<void> {
  let failed: unknown
  for (const { _id: orderId, due_at: dueAt } of due) {
    try {
      await actOnOne(ctx, orderId, dueAt)
    } catch (error) {
      if (isOutage(error)) throw error
      ctx.log.error({ err: error, order_id: orderId }, 'the deadline of an order could not be acted on')
      failed = error
    }
  }
  if (failed !== undefined) throw failed
}

async function actOnOne(ctx: Context, orderId: string, dueAt: number | undefined): Promise<void> {
  for (;;) {
    const before = await ctx.orders.find(orderId)
    if (before === undefined || before.due_at !== dueAt) return
    const move = deadlineMove(before, ctx.databaseNow())
    if (await ctx.database.transaction((session) => makeMove(ctx, before, move, session))) return
  }
}

function deadlineMove(order: OrderRecord, nowMs: number): Move {
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
