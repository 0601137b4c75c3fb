import mongoose from 'mongoose'
import { readConfig } from '../../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../../shared/context.ts'
import { newId } from '../../../shared/platform/ids.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { enqueueDeadline } from '../../../shared/market/order-deadlines.ts'
import { feeOf } from '../../../shared/market/order-states.ts'
import { deadlineUpdate } from '../../../shared/market/order-rules.ts'
import { journalLinesOf, orderMarks, type OrderRecord } from '../../../shared/market/order.ts'
import { pushing } from '../../../shared/events/mark.ts'
import { storedLine } from '../../../shared/money/journal.ts'
import { startServers, type TemporaryServers } from '../../../scripts/embedded/temporary.ts'
import { TimeoutError, waitFor } from '../../../scripts/embedded/wait.ts'
import { compareWith, median, percentile, type Figure } from './figure.ts'
import { databaseUrl, startStack } from './processes.ts'

const ORDERS = 10_000
const MINUTE_SECONDS = 60
/** Time to store the orders before the first one is due. */
const LEAD_SECONDS = 10
const LIMIT_MS = 5 * 60_000
const GOAL = 0.8
const BATCH = 200
/** Deadlines that the reference acts on at once, as one worker process does. */
const LANES = 4
const WRITE_CONCERN = { w: 'majority', journal: true } as const

/**
 * Measures, with 1 and with 4 worker processes, how late orders are released whose accept deadlines all fall
 * into one minute, and how fast a backlog of them is worked off.
 */
export async function benchMarket(): Promise<Figure[]> {
  const servers = await startServers(() => undefined, { cacheGb: 1 })
  try {
    const figures: Figure[] = []
    for (const workers of [1, 4]) {
      const { medianMs, worstMs } = await measureLateness(servers, workers, ORDERS)
      const rates: number[] = []
      const references: number[] = []
      // In turns, so that a slow phase of the machine affects both.
      for (let round = 0; round < 2; round++) {
        rates.push(await measureBacklog(servers, workers, ORDERS, round))
        references.push(await measureReference(servers, ORDERS, `${workers}-${round}`))
      }
      const name = `market: ${workers} worker ${workers === 1 ? 'process' : 'processes'}, ${ORDERS} orders due in one minute`
      figures.push(
        compareWith(
          {
            name: `the raw driver, same reads and transactions, ${BATCH} orders in each`,
            value: median(references),
          },
          {
            name: `${name}, worked off at once`,
            value: median(rates),
            unit: 'orders/s',
            better: 'higher',
            goal: GOAL,
          },
        ),
        compareWith(
          { name: 'the latest of them', value: worstMs },
          {
            name: `${name}, acted on after the deadline, median`,
            value: medianMs,
            unit: 'ms',
            better: 'lower',
          },
        ),
      )
    }
    return figures
  } finally {
    await servers.stop()
  }
}

/**
 * Measures how long after its accept deadline the workers released each of `count` orders due in one minute.
 */
async function measureLateness(
  servers: TemporaryServers,
  workers: number,
  count: number,
): Promise<{ medianMs: number; worstMs: number }> {
  const stack = await startStack({}, { workers, servers, database: `market-late-${workers}` })
  try {
    return await withContext(stack.mongodbUrl, servers, async (ctx) => {
      await fetch(`${stack.url}/api/v1`) // the API records that it serves from its first answer on
      const from = Math.ceil(ctx.now() / 1_000) + LEAD_SECONDS
      const orders = makeOrders(count, from)
      await storeOrders(ctx, orders)
      for (const dueAt of new Set(orders.map(({ due_at: due }) => due)))
        await enqueueDeadline(ctx, { due_at: dueAt ?? 0 })
      await whenReleased(ctx, count)
      const late = await ctx.orders.models.orders
        .find({}, { _id: 0, late_ms: 1 })
        .lean<Required<Pick<OrderRecord, 'late_ms'>>[]>()
      const lateMs = late.map(({ late_ms: ms }) => ms)
      return { medianMs: percentile(lateMs, 0.5), worstMs: percentile(lateMs, 1) }
    })
  } finally {
    await stack.stop()
  }
}

/**
 * Measures how fast the workers release orders that are overdue.
 *
 * @returns orders per second, from the first job to the last release
 */
export async function measureBacklog(
  servers: TemporaryServers,
  workers: number,
  count: number,
  round: number,
): Promise<number> {
  const stack = await startStack({}, { workers, servers, database: `market-backlog-${workers}-${round}` })
  try {
    return await withContext(stack.mongodbUrl, servers, async (ctx) => {
      await fetch(`${stack.url}/api/v1`)
      const orders = makeOrders(count, Math.ceil(ctx.now() / 1_000) - MINUTE_SECONDS - LEAD_SECONDS)
      // Due in the far future until all are stored, so that the sweep doesn't find them early.
      await storeOrders(ctx, orders, { due_at: Number.MAX_SAFE_INTEGER })
      await ctx.database.connection.collection('orders').updateMany({}, [{ $set: { due_at: '$accept_by' } }])
      const startedAt = performance.now()
      for (const dueAt of new Set(orders.map(({ due_at: due }) => due)))
        await enqueueDeadline(ctx, { due_at: dueAt ?? 0 })
      await whenReleased(ctx, count)
      return (count / (performance.now() - startedAt)) * 1_000
    })
  } finally {
    await stack.stop()
  }
}

/** Opens the workers' context on a database, gives it to `work`, and closes it again. */
export async function withContext<T>(
  mongodbUrl: string,
  servers: TemporaryServers,
  work: (ctx: Context) => Promise<T>,
): Promise<T> {
  const env = {
    MONGODB_URL: mongodbUrl,
    REDIS_URL: servers.redis.url,
    // As startStack() has it.
    QUEUE_PREFIX: new URL(mongodbUrl).pathname.slice(1),
  }
  const ctx = openContext(readConfig(env, 'workers'), createLog('bench', 'silent'), {
    databaseTimeoutMs: 30_000,
  })
  try {
    await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
    return await work(ctx)
  } finally {
    await closeContext(ctx)
  }
}

/**
 * Makes delivered orders whose accept deadlines spread evenly over the minute from `from` on (Unix seconds).
 */
export function makeOrders(count: number, from: number): OrderRecord[] {
  const amount = 5n * 10n ** 30n
  const salt = 'ab'.repeat(32)
  return Array.from({ length: count }, (_, place) => {
    const acceptBy = from + Math.floor((place * MINUTE_SECONDS) / count)
    return {
      _id: newId('order'),
      offer_id: 'ofr_bench',
      buyer_id: `agt_buyer${place % 100}`,
      seller_id: `agt_seller${place % 100}`,
      at: from - 1_000,
      title: 'A translation of 1,000 words',
      coin: 'xno',
      price_usd_cents: 1_000,
      amount_raw: String(amount),
      fee_raw: String(feeOf(amount)),
      invoice_id: newId('invoice'),
      delivery_seconds: 3_600,
      accept_seconds: 1_000,
      payout_address: 'nano_3e3j5tkog48pnny9dmfzj1r16pg8t1e76dz5tmac6iq689wyjfpiij4txtdo',
      payout_salt: salt,
      status: 'delivered',
      version: 2,
      pay_by: from - 1_000,
      paid_at: from - 1_000,
      deliver_by: from - 1_000,
      delivered_at: from - 1_000,
      delivery: 'x'.repeat(1_000),
      delivery_salt: salt,
      accept_by: acceptBy,
      due_at: acceptBy,
      written_off_raw: '0',
    }
  })
}

/** @param fields replace the orders' own */
export async function storeOrders(
  ctx: Context,
  orders: readonly OrderRecord[],
  fields: Partial<OrderRecord> = {},
): Promise<void> {
  const collection = ctx.database.connection.collection<OrderRecord>('orders')
  for (let start = 0; start < orders.length; start += 1_000)
    await collection.insertMany(orders.slice(start, start + 1_000).map((order) => ({ ...order, ...fields })))
}

/**
 * Waits until no order is due any more.
 *
 * @throws Error if that takes longer than LIMIT_MS, or if an order is not released with its payout
 */
async function whenReleased(ctx: Context, count: number): Promise<void> {
  const { orders } = ctx.orders.models
  try {
    await waitFor(
      'the last order',
      async () => ((await orders.countDocuments({ due_at: { $exists: true } })) === 0 ? true : undefined),
      {
        limitMs: LIMIT_MS,
        everyMs: 50,
      },
    )
  } catch (error) {
    if (error instanceof TimeoutError)
      throw new Error(`of ${count} orders some were not acted on in ${LIMIT_MS / 1_000} s`, { cause: error })
    throw error
  }
  const released = await orders.countDocuments({ status: 'released' })
  const payouts = await ctx.payouts.models.payouts.countDocuments({})
  if (released !== count || payouts !== count)
    throw new Error(`of ${count} orders ${released} are released, with ${payouts} payouts`)
}

/**
 * Measures the raw driver on what the workers do, without queues and without rules: the same documents, indexes, reads
 * and transactions. What is stored is made before.
 *
 * @returns orders per second
 */
async function measureReference(servers: TemporaryServers, count: number, name: string): Promise<number> {
  const url = databaseUrl(servers.mongod.url, `market-reference-${name}`)
  return withContext(url, servers, async (ctx) => {
    const orders = makeOrders(count, 1_000_000)
    await storeOrders(ctx, orders)
    const client = await new mongoose.mongo.MongoClient(url, {
      writeConcern: WRITE_CONCERN,
      maxPoolSize: 100,
    }).connect()
    const db = client.db()
    const own = db.collection<OrderRecord>('orders')
    const payouts = db.collection<{ _id: string }>('payouts')
    const journal = db.collection<{ _id: string }>('journal')
    const releases = new Map(orders.map((order) => [order._id, makeRelease(order)]))
    const times = [...new Set(orders.map(({ due_at: due }) => due ?? 0))]
    const startedAt = performance.now()
    await Promise.all(
      Array.from({ length: LANES }, async () => {
        for (let due = times.shift(); due !== undefined; due = times.shift()) {
          for (;;) {
            const found = await own
              .find({ due_at: due }, { projection: { delivery: 0, pending: 0 }, limit: BATCH })
              .toArray()
            if (found.length === 0) break
            const released = found.flatMap(({ _id }) => releases.get(_id) ?? [])
            await client.withSession((session) =>
              session.withTransaction(
                async () => {
                  const operations = released.map(({ update }) => ({ updateOne: update }))
                  const { matchedCount } = await own.bulkWrite(operations, { session })
                  if (matchedCount !== found.length) throw new Error('an order changed')
                  await payouts.insertMany(
                    released.flatMap((release) => release.payouts),
                    { session },
                  )
                  await journal.insertMany(
                    released.flatMap(({ lines }) => lines),
                    { session },
                  )
                },
                { readConcern: { level: 'snapshot' }, writeConcern: WRITE_CONCERN },
              ),
            )
          }
        }
      }),
    )
    const seconds = (performance.now() - startedAt) / 1_000
    await client.close()
    return count / seconds
  })
}

/** After every deadline of the reference. */
const RELEASED_AT_MS = 1_000_100_000

/** All that is stored when an order is released after its deadline, as the workers store it. */
function makeRelease(order: OrderRecord) {
  const { change, payouts = [] } = deadlineUpdate(order, RELEASED_AT_MS)
  const { step, at, set = {}, unset = [], entries = [] } = change
  const { _id, status, version } = order
  const filter = { _id, status, version, accept_by: { $lte: at } }
  const gone = Object.fromEntries(unset.map((name) => [name, 1 as const]))
  const told = { pending: entries, tells: orderMarks(order, step, set.status ?? status) }
  const update = { $set: set, $inc: { version: 1 }, $unset: gone, ...pushing(told) }
  return {
    update: { filter, update: update as mongoose.mongo.UpdateFilter<OrderRecord> },
    payouts,
    lines: journalLinesOf(order, change, payouts).map(storedLine),
  }
}
