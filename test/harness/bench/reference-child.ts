/*
 * A hand-written implementation of the same routes for comparison: Express 5 and the raw driver, as fast as
 * they are without tricks. One command for each thing to read or store, independent ones at the same time,
 * with projections, indexes and majority writes. It has no ledger entries, no commitments, no ETags and
 * hardly any validation.
 */
import { createServer } from 'node:http'
import express, { type Request, type Response } from 'express'
import mongoose from 'mongoose'
import { isStoredToken, tokenKey } from '../../../shared/agents/token.ts'
import { findShares } from '../../../shared/crypto/pow.ts'
import { newId } from '../../../shared/platform/ids.ts'

interface AgentDocument {
  _id: string
  token_key: string
  token_salt: string
  token_hash: string
  pass_until_ms?: number
  ref?: string
  handle?: string
  profile?: object
  record?: object
  referrals?: object
  at: number
}
interface OrderDocument {
  _id: string
  agent_id: string
  prefix: string
  difficulty_bits: number
  shares: number
}
type Document = { _id: string; [field: string]: unknown }

const client = await new mongoose.mongo.MongoClient(process.env['MONGODB_URL'] ?? '', {
  writeConcern: { w: 'majority', journal: true },
  maxPoolSize: 100,
  minPoolSize: 64,
}).connect()
const db = client.db()
const agents = db.collection<AgentDocument>('agents')
const posts = db.collection<Document>('posts')
const claims = db.collection<Document>('claims')
const verdicts = db.collection<Document>('verdicts')
const messages = db.collection<Document>('messages')
const orders = db.collection<OrderDocument>('work_orders')

const seconds = (): number => Math.floor(Date.now() / 1_000)

/** Returns the agent whose token was sent. For an unknown token it answers 401 and returns undefined. */
async function requireCaller(req: Request, res: Response): Promise<AgentDocument | undefined> {
  const token = String(req.headers.authorization).slice(7)
  const agent = await agents.findOne(
    { token_key: tokenKey(token) },
    { projection: { token_key: 1, token_salt: 1, token_hash: 1 } },
  )
  if (agent !== null && isStoredToken(token, agent)) return agent
  res.status(401).json({ ok: false })
  return undefined
}

const app = express().disable('etag').disable('x-powered-by')
const json = express.json({ limit: '1mb' })

app.post('/api/v1/post', json, async (req, res) => {
  const caller = await requireCaller(req, res)
  if (caller === undefined) return
  const pass = await agents.findOne({ _id: caller._id }, { projection: { pass_until_ms: 1 } })
  if ((pass?.pass_until_ms ?? 0) < Date.now()) return void res.status(402).json({ ok: false })
  const { body, topic } = req.body as { body?: unknown; topic?: unknown }
  if (typeof body !== 'string') return void res.status(400).json({ ok: false })
  const post = {
    _id: newId('post'),
    agent_id: caller._id,
    at: seconds(),
    body,
    ...(typeof topic === 'string' ? { topic } : {}),
  }
  await posts.insertOne(post)
  res.status(201).json({ ok: true, id: post._id, post })
})

app.post('/api/v1/claim/resolve', json, async (req, res) => {
  const caller = await requireCaller(req, res)
  if (caller === undefined) return
  const { claim_id: claimId, outcome } = req.body as { claim_id: string; outcome: string }
  const verdict = { _id: newId('verdict'), claim_id: claimId, agent_id: caller._id, at: seconds(), outcome }
  const claim = await client.withSession((session) =>
    session.withTransaction(async () => {
      await verdicts.insertOne(verdict, { session })
      return claims.findOneAndUpdate(
        { _id: claimId },
        { $inc: { [`standing.${outcome}`]: 1 } as Record<string, never> },
        { returnDocument: 'after', session },
      )
    }),
  )
  res.json({ ok: true, verdict, claim })
})

app.get('/api/v1/feed', async (req, res) => {
  const found = await posts
    .find({ hidden_at: { $exists: false } }, { projection: { pending: 0 } })
    .sort({ _id: -1 })
    .limit(Number(req.query['limit'] ?? 50))
    .toArray()
  res.json({ ok: true, posts: found, count: found.length })
})

app.get('/api/v1/agent/:id', async (req, res) => {
  const { id } = req.params
  const [agent, recentPosts, recentClaims] = await Promise.all([
    agents.findOne(
      { _id: id },
      { projection: { token_key: 0, token_salt: 0, token_hash: 0, challenge: 0, pending: 0 } },
    ),
    posts
      .find({ agent_id: id }, { projection: { pending: 0 } })
      .sort({ _id: -1 })
      .limit(20)
      .toArray(),
    claims
      .find({ agent_id: id }, { projection: { pending: 0 } })
      .sort({ _id: -1 })
      .limit(20)
      .toArray(),
  ])
  if (agent === null) return void res.status(404).json({ ok: false })
  res.json({ ok: true, agent, recent_posts: recentPosts, recent_claims: recentClaims })
})

app.get('/api/v1/me', async (req, res) => {
  const caller = await requireCaller(req, res)
  if (caller === undefined) return
  const [agent, registered, unread] = await Promise.all([
    agents.findOne({ _id: caller._id }, { projection: { handle: 1, pass_until_ms: 1, referrals: 1 } }),
    agents.countDocuments({ ref: caller._id }, { limit: 10_000 }),
    messages.countDocuments({ to: caller._id, handed: 0 }, { limit: 10_000 }),
  ])
  res.json({ ok: true, agent, registered, unread })
})

/** No queue, no ledger; it stores no nonces, so it can't notice a repeated one. */
app.post('/api/v1/work/submit', json, async (req, res) => {
  const caller = await requireCaller(req, res)
  if (caller === undefined) return
  const { order_id: orderId, nonces } = req.body as { order_id: string; nonces: string[] }
  const order = await orders.findOne({ _id: orderId })
  if (order === null) return void res.status(404).json({ ok: false })
  const shares = findShares(order.prefix, nonces, order.difficulty_bits)
  const after = await orders.findOneAndUpdate(
    { _id: orderId },
    { $inc: { shares: shares.length } },
    { returnDocument: 'after' },
  )
  res.json({ ok: true, accepted: shares.length, shares_accepted: after?.shares })
})

const server = createServer(app)
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(
    `${JSON.stringify({ msg: 'the API listens', port: (server.address() as { port: number }).port })}\n`,
  )
})
process.on('SIGTERM', () => process.exit(0))
