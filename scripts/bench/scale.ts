import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import mongoose from 'mongoose'
import { newToken, toStoredToken } from '../../shared/agents/token.ts'
import { newId } from '../../shared/foundation/ids.ts'
import { createLog } from '../../shared/foundation/log.ts'
import { openQueues, type Queues } from '../../shared/servers/queues.ts'
import { startServers, type TemporaryServers } from '../embedded/temporary.ts'
import { compareWith, measureInTurns, median, type Figure } from './figure.ts'
import { measureBacklog } from './market.ts'
import { startStack, type BenchStack } from './processes.ts'
import { makeAgent, makeShareBatches, makeWorkOrder } from './records.ts'

/**
 * Nonces of a batch: the most that are allowed, so that the verification is measured and not the overhead.
 */
const BATCH = 10_000
const BATCHES = 600
const DIFFERENT_BATCHES = 10
const SHARE_BITS = 1
const ROUNDS = 3
const LOOK_EVERY_MS = 50

/** Numbers of worker processes to compare; the others are compared with the first. */
const WORKERS = [1, 2, 4] as const
const ORDERS = 5_000
const ORDER_ROUNDS = 2

/**
 * Measures how fast 1, 2 and 4 worker processes verify the same shares and settle the same orders, and
 * compares 2 and 4 with one process and with what the machine's cores allow.
 */
export async function benchScale(): Promise<Figure[]> {
  const servers = await startServers(() => undefined, { cacheGb: 1 })
  try {
    // Four separately, since even idle processes would slow the others.
    const shares = new Map([
      ...(await measureShares(servers, [1, 2])),
      ...(await measureShares(servers, [4])),
    ])
    const orders = new Map<number, number>()
    for (const workers of WORKERS) {
      const rates = []
      for (let round = 0; round < ORDER_ROUNDS; round++)
        rates.push(await measureBacklog(servers, workers, ORDERS, round))
      orders.set(workers, median(rates))
    }
    return [
      ...compareAll('shares verified', 'shares/s', shares, 1.5),
      ...compareAll('orders settled', 'orders/s', orders),
    ]
  } finally {
    await servers.stop()
  }
}

/**
 * The figures of one kind of work, two for each number of worker processes above one.
 *
 * @param rates by the number of worker processes
 * @param goalOfTwo what two processes should do, as a multiple of one
 */
function compareAll(
  what: string,
  unit: string,
  rates: ReadonlyMap<number, number>,
  goalOfTwo?: number,
): Figure[] {
  const one = rates.get(1) ?? Number.NaN
  const cores = os.availableParallelism()
  return WORKERS.slice(1).flatMap((workers) => {
    const figure = { value: rates.get(workers) ?? Number.NaN, unit, better: 'higher' } as const
    const name = `scale: ${what}, ${workers} worker processes`
    const usable = Math.min(workers, cores)
    const goal = workers === 2 && goalOfTwo !== undefined ? { goal: goalOfTwo } : {}
    return [
      compareWith({ name: 'one worker process', value: one }, { ...figure, name, ...goal }),
      compareWith(
        { name: `${usable} cores’ worth of one process`, value: usable * one },
        { ...figure, name: `${name}, of what ${cores} cores allow` },
      ),
    ]
  })
}

/**
 * Starts a service for each number of workers, and has them verify in turns.
 *
 * @returns shares a second, by that number
 */
async function measureShares(
  servers: TemporaryServers,
  counts: readonly number[],
): Promise<Map<number, number>> {
  const stacks: { stack: BenchStack; queues: Queues }[] = []
  try {
    // The nonces of a batch are stored as one text.
    const texts = makeShareBatches(DIFFERENT_BATCHES, BATCH, SHARE_BITS).map((nonces) => nonces.join(' '))
    const contenders = []
    for (const workers of counts) {
      const database = `workers${workers}`
      const stack = await startStack({ SWEEP_SECONDS: '3600' }, { workers, database, servers })
      const queues = openQueues(servers.redis.url, database, createLog('bench', 'silent'))
      stacks.push({ stack, queues })
      await queues.whenReady()
      contenders.push({ name: String(workers), sample: () => verifyAll(stack.mongodbUrl, queues, texts) })
    }
    const rates = await measureInTurns(contenders, ROUNDS)
    return new Map([...rates].map(([workers, rate]) => [Number(workers), rate]))
  } finally {
    for (const { stack, queues } of stacks) {
      await queues.close()
      await stack.stop()
    }
  }
}

/** Stores BATCHES batches, has the workers verify them, and returns the shares verified per second. */
async function verifyAll(mongodbUrl: string, queues: Queues, texts: readonly string[]): Promise<number> {
  const client = await new mongoose.mongo.MongoClient(mongodbUrl).connect()
  const queue = queues.get('verify-shares')
  try {
    const orders = client.db().collection<{ shares_accepted: number }>('work_orders')
    await orders.createIndex({ shares_accepted: 1 })
    await queue.pause()
    const ids = await storeBatches(client, texts)
    await queue.addBulk(ids.map((batch_id) => ({ name: 'verify-shares', data: { batch_id } })))
    const startedAt = performance.now()
    await queue.resume()
    // By the index, so that polling hardly slows the workers.
    while ((await orders.countDocuments({ shares_accepted: 0 })) > 0) await sleep(LOOK_EVERY_MS)
    return ((BATCHES * BATCH) / (performance.now() - startedAt)) * 1_000
  } finally {
    await client.close()
  }
}

/**
 * Stores waiting batches, each of a work order of its own so that workers never conflict.
 *
 * @returns the batches' ids
 */
async function storeBatches(client: mongoose.mongo.MongoClient, texts: readonly string[]): Promise<string[]> {
  const insert = (name: string, documents: { _id: string }[]) =>
    client.db().collection<{ _id: string }>(name).insertMany(documents)
  const agent = makeAgent(0, toStoredToken(newToken()))
  await insert('agents', [agent])
  const orders = Array.from({ length: BATCHES }, () => makeWorkOrder(agent._id, SHARE_BITS))
  await insert('work_orders', orders)
  const batches = orders.map(({ _id: order_id }, index) => ({
    _id: newId('work_batch'),
    order_id,
    at_ms: Date.now(),
    state: 'waiting',
    nonces: texts[index % texts.length],
    rejected: [],
  }))
  await insert('work_batches', batches)
  return batches.map(({ _id }) => _id)
}
