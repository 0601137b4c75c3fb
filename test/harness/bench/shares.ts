import mongoose from 'mongoose'
import { newToken, toStoredToken } from '../../../shared/agents/token.ts'
import { newId } from '../../../shared/platform/ids.ts'
import { compareInTurns, type Figure } from './figure.ts'
import { requestText, startLoad } from './load.ts'
import { benchFindShares } from './miner.ts'
import { startReference, startStack } from './processes.ts'
import { makeAgent, makeShareBatches, makeWorkOrder } from './records.ts'

const BATCH = 500
const SHARE_BITS = 4
const CONNECTIONS = 64
const SAMPLE_MS = 3_000
const ROUNDS = 3
/** More batches than one connection can send in a sample. */
const BATCHES_EACH = 120

/**
 * Measures how fast shares are verified: by the verifier alone, and by the whole service in batches of 500.
 */
export async function benchShares(): Promise<Figure[]> {
  const verifier = (await benchFindShares()).map((figure) => ({
    ...figure,
    name: 'shares: the verifier alone',
  }))
  return [...verifier, ...(await benchService())]
}

/** Compares the service with the hand-written server, in shares accepted a second. */
async function benchService(): Promise<Figure[]> {
  const stack = await startStack({})
  const reference = await startReference(stack.mongodbUrl)
  const load = startLoad()
  try {
    const batches = makeShareBatches(BATCHES_EACH, BATCH, SHARE_BITS)
    const token = newToken()
    const agentId = newId('agent')
    for (const url of [stack.mongodbUrl, reference.mongodbUrl]) await storeAgent(url, agentId, token)
    const sampleOf = (port: number, url: string) => async (): Promise<number> => {
      const orderIds = await storeOrders(url, agentId)
      const lanes = orderIds.map((order_id) =>
        batches.map((nonces) =>
          requestText('POST', '/api/v1/work/submit', { token, body: { order_id, nonces } }),
        ),
      )
      const expect = `"accepted":${BATCH}`
      const { perSecond } = await load.run({
        port,
        connections: CONNECTIONS,
        durationMs: SAMPLE_MS,
        lanes,
        repeat: false,
        expect,
      })
      return perSecond * BATCH
    }
    return [
      await compareInTurns(
        ROUNDS,
        {
          name: 'Express + raw driver: token look-up, verification inline, one update; no nonces kept, no queue',
          sample: sampleOf(reference.port, reference.mongodbUrl),
        },
        {
          name: `shares: batches of ${BATCH} through HTTP, MongoDB, queue and verdict, one worker process`,
          sample: sampleOf(stack.port, stack.mongodbUrl),
          unit: 'shares/s',
          better: 'higher',
          goal: 0.8,
        },
      ),
    ]
  } finally {
    load.stop()
    await reference.stop()
    await stack.stop()
  }
}

/** Stores an agent with a pass, and the index by which its token is found. */
async function storeAgent(url: string, agentId: string, token: string): Promise<void> {
  const client = await new mongoose.mongo.MongoClient(url).connect()
  const agents = client.db().collection<{ _id: string }>('agents')
  await agents.createIndex({ token_key: 1 }, { unique: true })
  await agents.insertOne({ ...makeAgent(0, toStoredToken(token)), _id: agentId })
  await client.close()
}

/** Stores one work order for each connection. @returns their ids */
async function storeOrders(url: string, agentId: string): Promise<string[]> {
  const client = await new mongoose.mongo.MongoClient(url).connect()
  const orders = Array.from({ length: CONNECTIONS }, () => makeWorkOrder(agentId, SHARE_BITS))
  await client.db().collection<{ _id: string }>('work_orders').insertMany(orders)
  await client.close()
  return orders.map(({ _id }) => _id)
}
