import { createServer } from 'node:http'
import express from 'express'
import mongoose from 'mongoose'
import { createClient, type Client } from '../../client/client.ts'
import { registerAgent } from '../../client/register.ts'
import { storeToken, tokenKey, isToken, newToken } from '../../shared/agents/token.ts'
import { findShares } from '../../shared/crypto/pow.ts'
import { compareWith, measureInTurns, type Figure } from './figure.ts'
import { benchFindShares } from './miner.ts'
import { startStack } from './processes.ts'

const BATCH = 500
const PREFIX = '0123456789abcdef0123456789abcdef'

/** The verifier alone, and batches of 500 through HTTP, MongoDB, queue and verdict. */
export async function benchShares(): Promise<Figure[]> {
  return [...(await benchFindShares()), ...(await benchPath())]
}

const rateOf = (rates: ReadonlyMap<string, number>, name: string): number => rates.get(name) ?? Number.NaN

const CONNECTIONS = 8
const SAMPLE_MS = 4_000
const SHARE_BITS = 4

async function benchPath(): Promise<Figure[]> {
  const stack = await startStack({ SHARE_BITS: String(SHARE_BITS), SHARES_PER_DAY: '100000', REGISTER_BITS: '4' })
  const reference = await startReference(stack.mongodbUrl)
  try {
    const client = createClient({ baseUrl: stack.url })
    const { token } = await registerAgent({ client })
    const agent = createClient({ baseUrl: stack.url, token })
    const rates = await measureInTurns(
      [
        { name: 'path', sample: () => sampleService(agent) },
        { name: 'reference', sample: () => reference.sample() },
      ],
      3,
    )
    const beside = {
      name: 'Express + raw driver: token look-up, the same verification inline, one update',
      value: rateOf(rates, 'reference'),
    }
    return [
      compareWith(beside, {
        name: `shares: batches of ${BATCH} through HTTP, MongoDB, queue and verdict, one worker process`,
        value: rateOf(rates, 'path'),
        unit: 'shares/s',
        better: 'higher',
        goal: 0.5,
      }),
      compareWith(
        { name: beside.name, value: msPerBatch(beside.value) },
        {
          name: `shares: the path's own cost of a batch of ${BATCH}, ${CONNECTIONS} at a time`,
          value: msPerBatch(rateOf(rates, 'path')),
          unit: 'ms',
          better: 'lower',
        },
      ),
    ]
  } finally {
    await reference.stop()
    await stack.stop()
  }
}

/** Of the service's time, not of one caller's wait. */
const msPerBatch = (sharesPerSecond: number): number => (BATCH / sharesPerSecond) * 1_000

/** Fresh orders for each sample, so that no nonce repeats within one. */
async function sampleService(client: Client): Promise<number> {
  const orders = await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const order = await client.invoice({ currency: 'pow', days: 365 })
      if (!('order_id' in order)) throw new Error('the free period must be off for this benchmark')
      return { order_id: order.order_id, batches: makeBatches(order.prefix) }
    }),
  )
  return rateFor(orders, async ({ order_id, batches }) => {
    const nonces = batches.next().value
    if (nonces === undefined) return 0
    const answer = await client.submitWork({ order_id, nonces })
    if (answer.accepted !== BATCH) throw new Error(`a batch of ${BATCH} shares was accepted as ${answer.accepted}`)
    return BATCH
  })
}

/** Repeats `work` on each lane for the sample's time. @returns what it did, as it counts it, per second */
async function rateFor<Lane>(lanes: readonly Lane[], work: (lane: Lane) => Promise<number>): Promise<number> {
  const startedAt = performance.now()
  let done = 0
  await Promise.all(
    lanes.map(async (lane) => {
      while (performance.now() - startedAt < SAMPLE_MS) {
        const more = await work(lane)
        done += more
      }
    }),
  )
  return (done / (performance.now() - startedAt)) * 1_000
}

/** Batches of real shares at the bench's low difficulty, found before they are timed. */
function makeBatches(prefix: string, count = 200): IterableIterator<string[]> {
  const batches: string[][] = []
  for (let next = 0; batches.length < count;) {
    const candidates = Array.from({ length: BATCH * 2 ** SHARE_BITS }, () => (next++).toString(36))
    const shares = findShares(prefix, candidates, SHARE_BITS)
    while (shares.length >= BATCH) batches.push(shares.splice(0, BATCH))
  }
  return batches.values()
}

/** What one would write without a queue: look the token up, verify inline, one update. It keeps no nonces, so it cannot know a repeated one. */
async function startReference(mongodbUrl: string): Promise<{ sample(): Promise<number>; stop(): Promise<void> }> {
  const client = await new mongoose.mongo.MongoClient(mongodbUrl, {
    writeConcern: { w: 'majority', journal: true },
    maxPoolSize: 100,
  }).connect()
  const db = client.db()
  const token = newToken()
  const agents = db.collection<{ _id: string; token_key: string; token_salt: string; token_hash: string }>('reference_agents')
  await agents.createIndex({ token_key: 1 })
  await agents.insertOne({ _id: 'agt_reference', ...storeToken(token) })
  const orders = db.collection<{ _id: string; prefix: string; shares: number }>('reference_orders')
  const app = express()
    .disable('etag')
    .use(express.json({ limit: '1mb' }))
  app.post('/submit', async (req, res) => {
    const sent = String(req.headers.authorization).slice(7)
    const agent = await agents.findOne({ token_key: tokenKey(sent) })
    if (agent === null || !isToken(sent, agent)) return void res.status(401).end()
    const { order_id: orderId, nonces } = req.body as { order_id: string; nonces: string[] }
    const order = await orders.findOne({ _id: orderId })
    const shares = findShares(order?.prefix ?? '', nonces, SHARE_BITS)
    const after = await orders.findOneAndUpdate({ _id: orderId }, { $inc: { shares: shares.length } }, { returnDocument: 'after' })
    res.json({ ok: true, accepted: shares.length, shares_accepted: after?.shares })
  })
  const server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  let round = 0
  return {
    async sample() {
      round += 1
      const lanes = Array.from({ length: CONNECTIONS }, (_, index) => ({ id: `${round}-${index}`, batches: makeBatches(PREFIX) }))
      await orders.insertMany(lanes.map(({ id }) => ({ _id: id, prefix: PREFIX, shares: 0 })))
      return rateFor(lanes, async ({ id, batches }) => {
        const nonces = batches.next().value
        if (nonces === undefined) return 0
        const response = await fetch(`http://127.0.0.1:${port}/submit`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
          body: JSON.stringify({ order_id: id, nonces }),
        })
        const { accepted } = (await response.json()) as { accepted: number }
        if (accepted !== BATCH) throw new Error(`the reference accepted ${accepted} of ${BATCH}`)
        return BATCH
      })
    },
    async stop() {
      await new Promise((resolve) => server.close(resolve))
      await client.close()
    },
  }
}
