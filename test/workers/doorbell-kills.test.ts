import { createHmac } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import mongoose from 'mongoose'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { AccessName } from '../../scripts/embedded/access.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { closeContext, openContext } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { BELL_CERTIFICATE, serveBell, type Got, type Receiver } from '../support/doorbell-receivers.ts'
import { FULL } from '../support/full.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startChild, startWorkersProcess, type RunningProcess } from '../support/processes.ts'
import { startServers, type TemporaryServers } from '../support/servers.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

const INTERVAL_SECONDS = 10
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 50 }
const PREFIX = 'bells'
const USERS = ['api', 'workers', 'doorbells', 'operator'] as const satisfies readonly AccessName[]
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let servers: TemporaryServers
let service: TestService
let bells: Receiver & { got: Got[] }
let doorbellEnv: Record<string, string>
const secrets = new Map<string, string>()

beforeAll(async () => {
  servers = await startServers(() => undefined, { users: USERS, queuePrefix: PREFIX })
  bells = await serveBell(({ body }) => {
    const { agent_id: agentId, challenge } = JSON.parse(body) as { agent_id: string; challenge?: string }
    if (challenge === undefined) return { status: 204 }
    return {
      status: 200,
      text: createHmac('sha256', secrets.get(agentId) ?? '')
        .update(challenge)
        .digest('hex'),
    }
  })
  const certificate = path.join(servers.folder, 'bell.pem')
  fs.writeFileSync(certificate, BELL_CERTIFICATE.cert)
  const settings = {
    DOORBELLS: '1',
    DOORBELL_INTERVAL_SECONDS: String(INTERVAL_SECONDS),
    DOORBELL_TEST_HOSTS: `bell.example:${bells.port}=127.0.0.1`,
    SWEEP_SECONDS: '1',
  }
  const envOf = (user: AccessName | 'all') => ({
    MONGODB_URL: servers.mongod.urls[user as AccessName] ?? servers.mongod.url,
    REDIS_URL: servers.redis.urls[user as AccessName] ?? servers.redis.url,
    QUEUE_PREFIX: PREFIX,
  })
  doorbellEnv = {
    ...settings,
    ...envOf('doorbells'),
    DATA_DIR: servers.folder,
    NODE_EXTRA_CA_CERTS: certificate,
  }
  // Each makes the collections that it may write, and waits for the others. Nobody waits for who rings doorbells.
  const makers = (['workers', 'operator'] as const).map((user) =>
    openContext(readConfig(envOf(user), user), createLog('test', 'silent'), { databaseTimeoutMs: 30_000 }),
  )
  service = await startService({
    servers: { api: envOf('api'), workers: envOf('workers'), test: envOf('all') },
    env: settings,
    queues: [...WITHOUT_LEDGER, 'find-rings'],
  })
  await Promise.all(makers.map((maker) => closeContext(maker)))
})
afterAll(async () => {
  await service.stop()
  bells.close()
  await servers.stop()
})

const startRinging = (): Promise<RunningProcess> =>
  startWorkersProcess(doorbellEnv, ['--queues', 'doorbells,slow-doorbells'])
const rings = ({ id }: TestAgent) =>
  bells.got.filter(({ body }) => body.includes(id) && body.includes('"wake"'))
/** Agents whose doorbells are proven, and not within an interval of a post. */
async function withBells(count: number): Promise<TestAgent[]> {
  const ringing = await startRinging()
  const agents = await Promise.all(Array.from({ length: count }, () => service.registerWithPass()))
  for (const { id, token } of agents) {
    const body = { url: `https://bell.example:${bells.port}/` }
    const { json } = await service.call('POST', '/doorbell', { token, body })
    secrets.set(id, String(json['secret']))
  }
  for (const { id } of agents)
    await waitFor(
      'a proof',
      async () => ((await service.ctx.doorbells.find(id))?.state === 'on' ? true : undefined),
      LIMIT,
    )
  await ringing.stop()
  await sleep(INTERVAL_SECONDS * 1_000)
  return agents
}
async function send(to: TestAgent): Promise<void> {
  const from = await service.registerWithPass()
  await service.call('POST', '/dm', { token: from.token, body: { to: to.id, box: 'x' } })
}
/** Waits until an agent was rung since a time, but no longer than two intervals. */
const rungInTime = (agent: TestAgent, fromMs: number) =>
  waitFor(`a ring of ${agent.id}`, () => rings(agent).find(({ atMs }) => atMs >= fromMs), {
    limitMs: 2 * INTERVAL_SECONDS * 1_000,
    everyMs: 50,
  })

const POINTS = [
  { at: 'before the try is stored', CRASH_PHASE: 'before', CRASH_COUNT: '1', most: 1 },
  { at: 'after the try is stored, before the post', CRASH_PHASE: 'after', CRASH_COUNT: '1', most: 1 },
  { at: 'after the post, before its outcome is stored', CRASH_PHASE: 'before', CRASH_COUNT: '2', most: 2 },
  { at: 'after its outcome is stored', CRASH_PHASE: 'after', CRASH_COUNT: '2', most: 1 },
] as const

describe('a process that rings doorbells', () => {
  it.each(POINTS.filter((_, index) => FULL || index === 1))(
    'may be killed $at: the agent is rung within two intervals, at most twice',
    async ({ CRASH_PHASE, CRASH_COUNT, most }) => {
      const [agent] = await withBells(1)
      const script = new URL('../support/doorbell-child.ts', import.meta.url)
      const crash = { CRASH_CALL: 'take', CRASH_PHASE, CRASH_COUNT }
      const { ended } = startChild(script, { ...doorbellEnv, ...crash })
      const fromMs = Date.now()
      await send(agent!)
      expect(await ended).toBe('SIGKILL')
      const ringing = await startRinging()
      await rungInTime(agent!, fromMs)
      // What comes twice comes after the try is over.
      await sleep(3_000)
      expect(rings(agent!).length).toBeLessThanOrEqual(most)
      await ringing.stop()
    },
  )

  it('goes on when Redis is emptied, with rings that wait and rings that are being tried again', async () => {
    const [one, two] = await withBells(2)
    const fromMs = Date.now()
    await Promise.all([send(one!), send(two!)])
    await waitFor(
      'rings that are due',
      async () => {
        const due = await service.ctx.doorbells.listDue(Date.now() + 60_000, 10)
        return due.length === 2 ? true : undefined
      },
      LIMIT,
    )
    const redis = new Redis(servers.redis.url)
    await redis.flushall()
    const ringing = await startRinging()
    await Promise.all([rungInTime(one!, fromMs), rungInTime(two!, fromMs)])
    await send(one!)
    await waitFor(
      'the next ring, which waits',
      async () => ((await service.ctx.doorbells.find(one!.id))?.due_ms === undefined ? undefined : true),
      LIMIT,
    )
    const againMs = Date.now()
    await redis.flushall()
    await redis.quit()
    await rungInTime(one!, againMs)
    await ringing.stop()
  })

  it('may read and write its own collections, say that it runs, and nothing else', async () => {
    const client = new mongoose.mongo.MongoClient(servers.mongod.urls.doorbells ?? '')
    const db = client.db()
    const REFUSED = { code: 13 }
    for (const name of ['agents', 'messages', 'orders', 'events', 'invoices', 'entries', 'coins', 'leases']) {
      await expect(db.collection(name).findOne({})).rejects.toMatchObject(REFUSED)
      await expect(db.collection(name).insertOne({})).rejects.toMatchObject(REFUSED)
    }
    await expect(db.collection('doorbells').deleteMany({})).rejects.toMatchObject(REFUSED)
    await expect(db.collection('schema').updateMany({}, { $set: { x: 1 } })).rejects.toMatchObject(REFUSED)
    expect(
      await db
        .collection('doorbells')
        .countDocuments({})
        .catch(() => -1),
    ).toBeGreaterThanOrEqual(0)
    await client.close()
    const redis = new Redis(servers.redis.urls.doorbells ?? '', { maxRetriesPerRequest: 0 })
    await expect(redis.get(`{${PREFIX}.send-nano}:send-nano:meta`)).rejects.toThrow(/NOPERM/)
    redis.disconnect()
  })

  it('refuses to do anything else beside', async () => {
    const mixed = startWorkersProcess(doorbellEnv, ['--queues', 'doorbells,sweep'])
    await expect(mixed).rejects.toThrow('a process that rings doorbells does nothing else')
  })
})
