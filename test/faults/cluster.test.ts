import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { tokenKey, toStoredToken } from '../../shared/agents/token.ts'
import { isOutage } from '../../shared/platform/database.ts'
import { readFindings } from '../../shared/operation/findings.ts'
import { askServer } from '../../shared/operation/reach.ts'
import { createLog } from '../../shared/platform/log.ts'
import { openQueues } from '../../shared/platform/queues.ts'
import { readQueueStates } from '../../shared/platform/queue-state.ts'
import { openFarm, type Farm, type RedisNodes, type ReplicaSet } from '../support/cluster.ts'
import { isEverythingSealed } from '../support/ledger.ts'
import { NODE_VERIFIER, reportToKnower } from '../support/run-verifier.ts'
import { findNonces, startService, type TestAgent, type TestService } from '../support/service.ts'

const LIMIT = { limitMs: 120_000 }
// Servers are killed and waited for, some of the waits one after the other.
vi.setConfig({ testTimeout: 400_000 })
const DAYS = 40
const SHARES_PER_DAY = 5

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cluster-'))
let farm: Farm
let mongo: ReplicaSet
let redis: RedisNodes
let service: TestService
let ada: TestAgent
let bob: TestAgent

beforeAll(async () => {
  farm = openFarm()
  ;[mongo, redis] = await Promise.all([farm.startReplicaSet(), farm.startRedisCluster()])
  const keyFile = path.join(folder, 'seal-key')
  ensureSealKey(keyFile)
  service = await startService({
    env: {
      MONGODB_URL: mongo.url,
      REDIS_URL: redis.url,
      SEAL_KEY_FILE: keyFile,
      SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
      SEAL_INTERVAL_SECONDS: '1',
      SHARES_PER_DAY: String(SHARES_PER_DAY),
    },
  })
}, 400_000)

afterAll(async () => {
  await service?.stop()
  await farm?.stop()
  fs.rmSync(folder, { recursive: true })
})

const call = async (method: string, pathname: string, agent?: TestAgent, body?: unknown) =>
  service.call(method, pathname, {
    ...(agent === undefined ? {} : { token: agent.token }),
    ...(body === undefined ? {} : { body }),
  })

async function good(
  method: string,
  pathname: string,
  agent?: TestAgent,
  body?: unknown,
): Promise<Record<string, unknown>> {
  const { status, json } = await call(method, pathname, agent, body)
  expect([200, 201], `${method} ${pathname}: ${JSON.stringify(json)}`).toContain(status)
  return json
}

/** The whole chain, by the verifier that agents use. */
async function verifySeals(minEntries: number): Promise<void> {
  await waitFor(
    'seals over every entry, all of them signed',
    async () =>
      ((await service.ctx.entries.highestId()) >= minEntries && (await isEverythingSealed(service.ctx))) ||
      undefined,
    LIMIT,
  )
  const report = await reportToKnower(NODE_VERIFIER, [service.url], folder)
  expect(report).toMatchObject({ ok: true, findings: [] })
}

describe('a replica set of three members and a Redis Cluster of three nodes', () => {
  it('take registrations, work for a pass, posts, claims and verdicts', async () => {
    ada = await service.register({ handle: 'ada' })
    bob = await service.register({ handle: 'bob', ref: ada.id })
    for (const agent of [ada, bob]) {
      const order = await good('POST', '/invoice', agent, { currency: 'pow', days: DAYS })
      const nonces = findNonces(String(order['prefix']), 8, 2 * SHARES_PER_DAY)
      // 202 says that the verdict takes longer; what is handed in again counts once.
      const handIn = async () => {
        const answer = await call('POST', '/work/submit', agent, { order_id: order['order_id'], nonces })
        return answer.status === 202 ? undefined : answer
      }
      const { status, json } = await waitFor('a verdict', handIn, LIMIT)
      expect([status, json['credited_days']]).toEqual([200, 2])
    }
    const { id } = await good('POST', '/post', ada, { body: 'from three machines', topic: 'cluster' })
    expect((await good('GET', '/feed?topic=cluster'))['posts']).toMatchObject([{ id, agent_id: ada.id }])
    const claim = await good('POST', '/claim', ada, { statement: 'Two of three are a majority.' })
    await good('POST', '/claim/resolve', bob, { claim_id: claim['id'], outcome: 'true' })
    expect((await good('GET', `/claim/${String(claim['id'])}`))['claim']).toMatchObject({ status: 'judged' })
    await good('POST', '/dm', bob, { to: ada.id, box: 'ciphertext' })
    expect((await good('GET', '/dm', ada))['messages']).toMatchObject([{ box: 'ciphertext' }])
  })

  it('credit a free pass', async () => {
    const free = await startService({
      env: {
        MONGODB_URL: mongo.url.replace('/testbed?', '/free?'),
        REDIS_URL: redis.url,
        FREE_UNTIL: '2099-01-01T00:00:00Z',
        QUEUE_PREFIX: 'free',
      },
      queues: [],
    })
    const agent = await free.register()
    const { json } = await free.call('POST', '/invoice', {
      token: agent.token,
      body: { currency: 'pow', days: 3 },
    })
    expect(json).toMatchObject({ free: true, credited_days: 3 })
    await free.stop()
  })

  it('spread the queues over the nodes, and show their workers', async () => {
    const states = await readQueueStates(service.ctx.queues, Date.now())
    expect(states.find(({ name }) => name === 'verify-shares')).toMatchObject({ workers: 1, waiting: 0 })
    expect(states.find(({ name }) => name === 'sequence')).toMatchObject({ workers: 1 })
  })

  it('have a chain of seals that a stranger can verify', async () => {
    await verifySeals(8)
  })

  it('name a secondary that is away, and say which members are there if no primary is', async () => {
    const degraded = async () =>
      (await readFindings(service.ctx, LIMIT.limitMs)).filter(({ kind }) => kind === 'mongodb_degraded')
    expect(await degraded()).toEqual([])
    const primary = await mongo.primary()
    const [first, second] = mongo.members.filter(({ port }) => port !== primary)
    await first?.kill()
    await expect
      .poll(async () => (await degraded()).map(({ about }) => about), { timeout: LIMIT.limitMs })
      .toEqual([`127.0.0.1:${first?.port}`])
    await second?.kill()
    const reach = async () => {
      const { kind, ...rest } = await askServer(service.ctx, 'mongodb', 2_000)
      return [kind, 'why' in rest ? rest.why : '']
    }
    await expect
      .poll(reach, { timeout: LIMIT.limitMs })
      .toEqual(['refused', expect.stringMatching(/^no member is primary.*: connect ECONNREFUSED/)])
    await Promise.all([first?.restart(), second?.restart()])
    await expect.poll(async () => (await degraded()).length, { timeout: LIMIT.limitMs }).toBe(0)
  })

  it('keep everything that was acknowledged while a primary steps down and the next one is killed', async () => {
    const posts: string[] = []
    const claims: string[] = []
    const refused = new Set<number>()
    let isWriting = true
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let turn = 0; isWriting; turn++) {
        const { status, json } =
          writer % 2 === 0
            ? await call('POST', '/post', ada, { body: `post ${writer} ${turn}` })
            : await call('POST', '/claim', bob, { statement: `claim ${writer} ${turn}` })
        if (status === 201) (writer % 2 === 0 ? posts : claims).push(String(json['id']))
        else refused.add(status)
      }
    })
    const soMuchMore = async () => {
      const goals = [posts.length + 20, claims.length + 20]
      await waitFor(
        'more writes',
        () => (posts.length >= (goals[0] ?? 0) && claims.length >= (goals[1] ?? 0) ? true : undefined),
        LIMIT,
      )
    }
    await soMuchMore()
    const first = await mongo.primary()
    const second = await mongo.stepDown()
    expect(second).not.toBe(first)
    await soMuchMore()
    const killed = mongo.members.find(({ port }) => port === second)
    await killed?.kill()
    await soMuchMore()
    expect(await mongo.primary()).not.toBe(second)
    isWriting = false
    await Promise.all(writers)

    // Unknown is what was refused; what was acknowledged is there.
    for (const status of refused) expect(status).toBe(503)
    for (const id of posts) expect(await service.ctx.posts.find(id), id).toBeDefined()
    for (const id of claims) expect(await service.ctx.claims.find(id), id).toBeDefined()
    const entries = service.ctx.entries.models.entries
    for (const [kind, ids] of [
      ['post', posts],
      ['claim', claims],
    ] as const) {
      const has = async () =>
        (await entries.countDocuments({ kind, record: { $in: ids } })) === ids.length ? true : undefined
      await waitFor(`an entry of each ${kind}`, has, LIMIT)
    }
    await verifySeals(posts.length + claims.length)
    // What was refused may have been stored, and is numbered by and by.
    const highest = await service.ctx.entries.highestId()
    expect(await entries.countDocuments({ _id: { $lte: highest } })).toBe(highest)
    await killed?.restart()
  })

  it('judge every share once though each node of the cluster is killed in turn', async () => {
    const order = await good('POST', '/invoice', ada, { currency: 'pow', days: DAYS })
    const orderId = String(order['order_id'])
    const nonces = findNonces(String(order['prefix']), 8, 90)
    let sent = 0
    const submit = async (count: number) => {
      for (const end = sent + count; sent < end; sent += 3) {
        const { status, json } = await call('POST', '/work/submit', ada, {
          order_id: orderId,
          nonces: nonces.slice(sent, sent + 3),
        })
        expect([200, 202], JSON.stringify(json)).toContain(status)
      }
    }
    for (const node of redis.nodes) {
      await submit(9)
      await node.kill()
      await submit(3)
      await node.restart()
      await submit(9)
    }
    await waitFor(
      'the verdict on every share',
      async () => ((await service.ctx.work.findOrder(orderId))?.shares_accepted === sent ? true : undefined),
      LIMIT,
    )
    expect(sent).toBe(63)
  })
})

describe('a primary that has lost the others', () => {
  it('shows no block for publishing that an election can take back, and is not believed that one is not on record', async () => {
    const { transfers } = service.ctx.payouts
    // As long as by default: one that gives up sooner is none any more by the time a slow machine asks it.
    await mongo.setElectionTimeout(10_000)
    const lasting = await mongo.primary()
    const others = mongo.members.filter(({ port }) => port !== lasting)
    await Promise.all(others.map((member) => member.kill()))
    const at = Math.floor(Date.now() / 1_000)
    const [tx, unknown] = ['ab'.repeat(32), 'cd'.repeat(32)]
    const block = {
      _id: 'trf_alone',
      coin: 'xno',
      kind: 'sweep',
      account_index: 7,
      previous: '0'.repeat(64),
      tx,
      signed: '{}',
    }
    const rest = { amount_raw: '1', payment_ids: [], payout_ids: [], state: 'signed', at, changed_at: at }
    await transfers.models.transfers.collection.insertOne({ ...block, ...rest } as never, {
      writeConcern: { w: 1 },
    })
    expect(await transfers.findByTx('xno', tx)).toMatchObject({ tx })
    expect(await transfers.listOpen('xno', 7)).toEqual([])
    expect(await transfers.list('xno', ['signed'], 10)).toEqual([])
    expect(await transfers.findByTx('xno', unknown)).toBeUndefined()
    await expect(transfers.findByTx('xno', unknown, { surely: true })).rejects.toSatisfy(isOutage)
    await Promise.all(others.map((member) => member.restart()))
    await mongo.primary()
    await waitFor(
      'a primary that is believed',
      async () => {
        try {
          return (await transfers.findByTx('xno', unknown, { surely: true })) === undefined ? true : undefined
        } catch (error) {
          if (!isOutage(error)) throw error
          return undefined
        }
      },
      LIMIT,
    )
  })
})

describe('a token that was rotated on a primary that has lost the others', () => {
  it('is still in force, and the new one is not yet: an election can take the rotation back', async () => {
    const { agents } = service.ctx
    const agent = await service.register()
    const next = `sk_${'7'.repeat(48)}`
    await mongo.setElectionTimeout(10_000)
    const alone = await mongo.primary()
    const others = mongo.members.filter(({ port }) => port !== alone)
    await Promise.all(others.map((member) => member.kill()))
    await agents.models.agents.collection.updateOne(
      { _id: agent.id as never },
      { $set: toStoredToken(next) },
      { writeConcern: { w: 1 } },
    )
    expect((await agents.findCaller(tokenKey(agent.token)))?._id).toBe(agent.id)
    await expect(agents.findCaller(tokenKey(next))).rejects.toMatchObject({ code: 'unavailable' })
    await Promise.all(others.map((member) => member.restart()))
    await mongo.primary()
    const isInForce = async (token: string): Promise<boolean> =>
      (await agents.findCaller(tokenKey(token)).catch(() => undefined))?._id === agent.id
    await waitFor(
      'one token in force',
      async () => ((await isInForce(agent.token)) !== (await isInForce(next)) ? true : undefined),
      LIMIT,
    )
  })
})

describe('Redis behind a sentinel', () => {
  it('takes jobs before and after the primary is replaced', async () => {
    const sentinel = await farm.startSentinel()
    const queues = openQueues(sentinel.url, 'behind-sentinel', createLog('test', 'silent'))
    await queues.whenReady()
    const taken = async (batchId: string) =>
      (await queues.enqueue('verify-shares', { batch_id: batchId })) ? true : undefined
    await waitFor('a job on the first primary', () => taken('bat_one'), LIMIT)
    await sentinel.nodes[0]?.kill()
    await waitFor('a job on the next primary', () => taken('bat_two'), LIMIT)
    const waiting = await queues.get('verify-shares').getWaiting()
    expect(waiting.map(({ data }) => (data as { batch_id: string }).batch_id)).toContain('bat_two')
    await queues.close()
  })
})
