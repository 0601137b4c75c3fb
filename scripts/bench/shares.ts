import mongoose from 'mongoose'
import { noResolutions } from '../../shared/agents/agent.ts'
import { newToken, storeToken } from '../../shared/agents/token.ts'
import { findShares } from '../../shared/crypto/pow.ts'
import { newId } from '../../shared/ids.ts'
import { compareWith, measureInTurns, type Figure } from './figure.ts'
import { requestText, startLoad } from './load.ts'
import { benchFindShares } from './miner.ts'
import { startReference, startStack } from './processes.ts'

const BATCH = 500
const SHARE_BITS = 4
const CONNECTIONS = 64
const SAMPLE_MS = 3_000
const ROUNDS = 3
/** More than one connection gets through in a sample. */
const BATCHES_EACH = 120
/** The service's own prefixes are random; one for all orders lets the bench find its shares once. */
const PREFIX = '0123456789abcdef0123456789abcdef'

/** The verifier alone, and batches of 500 through HTTP, MongoDB, queue and verdict. */
export async function benchShares(): Promise<Figure[]> {
  const verifier = (await benchFindShares()).map((figure) => ({ ...figure, name: 'shares: the verifier alone' }))
  return [...verifier, ...(await benchPath())]
}

async function benchPath(): Promise<Figure[]> {
  const stack = await startStack({})
  const reference = await startReference(stack.mongodbUrl)
  const load = startLoad()
  try {
    const batches = makeBatches()
    const token = newToken()
    const agentId = newId('agent')
    for (const url of [stack.mongodbUrl, reference.mongodbUrl]) await storeAgent(url, agentId, token)
    const sampleOf = (port: number, url: string) => async (): Promise<number> => {
      const orderIds = await storeOrders(url, agentId)
      const lanes = orderIds.map((order_id) =>
        batches.map((nonces) => requestText('POST', '/api/v1/work/submit', { token, body: { order_id, nonces } })),
      )
      const expect = `"accepted":${BATCH}`
      const { perSecond } = await load.run({ port, connections: CONNECTIONS, durationMs: SAMPLE_MS, lanes, repeat: false, expect })
      return perSecond * BATCH
    }
    const rates = await measureInTurns(
      [
        { name: 'path', sample: sampleOf(stack.port, stack.mongodbUrl) },
        { name: 'reference', sample: sampleOf(reference.port, reference.mongodbUrl) },
      ],
      ROUNDS,
    )
    const beside = {
      name: 'Express + raw driver: token look-up, the same verification inline, one update; no nonces kept, no queue',
      value: rates.get('reference') ?? Number.NaN,
    }
    return [
      compareWith(beside, {
        name: `shares: batches of ${BATCH} through HTTP, MongoDB, queue and verdict, one worker process`,
        value: rates.get('path') ?? Number.NaN,
        unit: 'shares/s',
        better: 'higher',
        goal: 0.5,
      }),
    ]
  } finally {
    load.stop()
    await reference.stop()
    await stack.stop()
  }
}

/** Batches of real shares at the bench's low difficulty. */
function makeBatches(): string[][] {
  const batches: string[][] = []
  let shares: string[] = []
  for (let next = 0; batches.length < BATCHES_EACH;) {
    const candidates = Array.from({ length: BATCH * 2 ** SHARE_BITS }, () => (next++).toString(36))
    shares = shares.concat(findShares(PREFIX, candidates, SHARE_BITS))
    while (shares.length >= BATCH) batches.push(shares.splice(0, BATCH))
  }
  return batches.slice(0, BATCHES_EACH)
}

async function storeAgent(url: string, agentId: string, token: string): Promise<void> {
  const client = await new mongoose.mongo.MongoClient(url).connect()
  const agents = client.db().collection<{ _id: string }>('agents')
  await agents.createIndex({ token_key: 1 }, { unique: true })
  const fields = { at: 1, salt: 'ab'.repeat(32), challenge: 'c', referrals: { paying: 0 }, record: noResolutions() }
  await agents.insertOne({ _id: agentId, ...fields, ...storeToken(token) } as { _id: string })
  await client.close()
}

/** One order for each connection, large enough that no day completes: what is measured is the verdict, not the credit. */
async function storeOrders(url: string, agentId: string): Promise<string[]> {
  const client = await new mongoose.mongo.MongoClient(url).connect()
  const orders = Array.from({ length: CONNECTIONS }, () => ({
    _id: newId('work_order'),
    agent_id: agentId,
    at: 1,
    days: 1,
    shares_per_day: 10_000_000,
    shares_required: 10_000_000,
    difficulty_bits: SHARE_BITS,
    prefix: PREFIX,
    expires_at: Math.floor(Date.now() / 1_000) + 86_400,
    shares_accepted: 0,
    credited_days: 0,
    shares: 0,
  }))
  await client.db().collection<{ _id: string }>('work_orders').insertMany(orders)
  await client.close()
  return orders.map(({ _id }) => _id)
}
