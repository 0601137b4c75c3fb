import fs from 'node:fs'
import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../../../scripts/embedded/ports.ts'
import { startServers, type TemporaryServers } from '../../../scripts/embedded/temporary.ts'
import { newToken, toStoredToken } from '../../../shared/agents/token.ts'
import { QUEUES_TOGETHER } from '../../../shared/platform/queue-table.ts'
import { SECOND_MS } from '../../../shared/platform/time.ts'
import { startProcess } from '../../support/processes.ts'
import { compareWith, percentile, type Figure } from './figure.ts'
import { requestText } from './load.ts'
import { withContext } from './market.ts'
import { openLoop, type OpenLoop } from './open-loop.ts'
import { databaseUrl } from './processes.ts'
import { limitProcessor, usedNs } from './quota.ts'
import { makeAgent, makePost, makeShareBatches, makeWorkOrder } from './records.ts'
import { createScaler, readScalingRule, type ScalingRule } from './scaling-rule.ts'

/*
 * The network under a growing load and a flood of shares, on processes that are small: each may use a part of a core.
 * A loop adds and removes them as KEDA would by the ScaledObjects of deploy/kubernetes/autoscaled.
 */

/** What a process may use of a core; the ScaledObjects mean a whole one. */
const PART_OF_CORE = { api: 0.25, shares: 0.1 } as const
/** A new process compiles its code, which takes no less time on a part of a core. */
const WARM_MS = 10 * SECOND_MS
/** How often KEDA's measures are looked at by Kubernetes. */
const LOOK_EVERY_MS = 15 * SECOND_MS
const STEP_MS = 60 * SECOND_MS
/** Requests a second, and batches of nonces among them, step by step. */
const STEPS = [
  { requests: 10, batches: 0 },
  { requests: 75, batches: 5 },
  { requests: 150, batches: 15 },
  { requests: 300, batches: 30 },
  { requests: 10, batches: 0 },
  { requests: 10, batches: 0 },
] as const
/** The last two steps are calm. */
const CALM_STEPS = 2
const AGENTS = 500
const SHARES_A_BATCH = 100
const SHARE_BITS = 4
const BATCHES_EACH = 32
const CONNECTIONS = 256
/** As Retry-After says of a 503, which an overloaded process answers: the clients send it again then. */
const RETRY_AFTER_MS = 2 * SECOND_MS
/** What isn't answered with 2xx by then, from when it was first due, counts as lost. */
const ANSWER_WITHIN_MS = 30 * SECOND_MS
const BODY = 'What an agent says in a post of a usual length, and to whom it may be of use. '.repeat(3)
const TOKEN = 'the-operator-of-this-bench'

/** The most that each may be: docs/scaling.md states the same. */
const LIMITS = { oldestSeconds: 5, lost: 0, backSeconds: 120 } as const

type PoolName = keyof typeof PART_OF_CORE

interface Member {
  pid: number
  loop: OpenLoop | undefined
  stop(): Promise<void>
}

interface Pool {
  rule: ScalingRule
  members: Member[]
  most: number
  add(): Promise<void>
  remove(): Promise<void>
}

/** Measures the oldest job, what was lost, and how long the pools take to shrink again. */
export async function benchScale(
  report: (line: string) => void = (line) => void process.stderr.write(`${line}\n`),
): Promise<Figure[]> {
  const servers = await startServers(() => undefined, { cacheGb: 1 })
  const env = {
    MONGODB_URL: databaseUrl(servers.mongod.url, 'scale'),
    REDIS_URL: servers.redis.url,
    QUEUE_PREFIX: 'scale',
    CHALLENGE_SECRET: 'be'.repeat(32),
    LOG_LEVEL: 'info',
    FREE_UNTIL: 'none',
    PORT: '0',
    OPERATOR_PORT: '0',
  }
  const others = QUEUES_TOGETHER.filter((name) => name !== 'verify-shares').join()
  const operatorPort = await findFreePort()
  const operatorEnv = { OPERATOR_PORT: String(operatorPort), OPERATOR_TOKEN: TOKEN }
  const base = startProcess('workers/main.ts', { ...env, ...operatorEnv }, ['--queues', others])
  const pools = { api: createPool('api', env), shares: createPool('shares', env) }
  try {
    await base.waitForLine('"msg":"the workers work"')
    for (const pool of Object.values(pools)) while (pool.members.length < pool.rule.min) await pool.add()
    const world = await storeWorld(servers)
    return await measure(pools, world, () => readOldest(operatorPort), report)
  } finally {
    for (const { members } of Object.values(pools)) await Promise.all(members.map((one) => one.stop()))
    await base.stop()
    await servers.stop()
  }
}

function createPool(name: PoolName, env: Record<string, string>): Pool {
  const members: Member[] = []
  const pool: Pool = {
    rule: readScalingRule(name),
    members,
    most: 0,
    async add() {
      const started =
        name === 'api'
          ? startProcess('api/main.ts', env)
          : startProcess('workers/main.ts', env, ['--queues', 'verify-shares'])
      // Elsewhere it would start on another machine's processors.
      setNiceness(started.pid, os.constants.priority.PRIORITY_LOW)
      const line = await started.waitForLine(/"msg":"(the API listens|the workers work)"/)
      const { port } = JSON.parse(line) as { port?: number }
      setNiceness(started.pid, os.constants.priority.PRIORITY_NORMAL)
      let endQuota: (() => void) | undefined
      const timer = setTimeout(() => {
        endQuota = limitProcessor(started.pid, PART_OF_CORE[name])
      }, WARM_MS)
      const loop = name === 'api' ? openLoop(port ?? 0, CONNECTIONS) : undefined
      members.push({
        pid: started.pid,
        loop,
        async stop() {
          await loop?.close()
          clearTimeout(timer)
          endQuota?.()
          await started.stop()
        },
      })
      pool.most = Math.max(pool.most, members.length)
    },
    async remove() {
      // Nothing more comes to it, and what is under way is answered, as behind a load balancer.
      await members.pop()?.stop()
    },
  }
  return pool
}

/** Sets the niceness of all threads of a process. */
function setNiceness(pid: number, niceness: number): void {
  for (const task of fs.readdirSync(`/proc/${pid}/task`)) os.setPriority(Number(task), niceness)
}

interface World {
  tokens: string[]
  ids: string[]
  orderIds: string[]
}

/** Stores agents with passes, a post and a work order each. */
async function storeWorld(servers: TemporaryServers): Promise<World> {
  const tokens = Array.from({ length: AGENTS }, newToken)
  const agents = tokens.map((token, index) => makeAgent(index, toStoredToken(token)))
  const orders = agents.map(({ _id }) => makeWorkOrder(_id, SHARE_BITS))
  await withContext(
    databaseUrl(servers.mongod.url, 'scale'),
    servers,
    async ({ database: { connection } }) => {
      const insert = (name: string, documents: { _id: string }[]) =>
        connection.collection<{ _id: string }>(name).insertMany(documents)
      await insert('agents', agents)
      await insert(
        'posts',
        agents.map(({ _id }) => makePost(_id, BODY)),
      )
      await insert('work_orders', orders)
    },
  )
  return { tokens, ids: agents.map(({ _id }) => _id), orderIds: orders.map(({ _id }) => _id) }
}

/** The longest that the first of the waiting jobs of a queue has waited, in seconds. */
async function readOldest(port: number): Promise<Record<string, number>> {
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  })
  if (!answer.ok) throw new Error(`the operator port answers ${answer.status}`)
  const rows = (await answer.text()).matchAll(
    /^agent_network_queue_oldest_seconds\{queue="([^"]+)"\} (\S+)/gm,
  )
  return Object.fromEntries(Array.from(rows, ([, queue = '', seconds]) => [queue, Number(seconds)]))
}

async function measure(
  pools: Record<PoolName, Pool>,
  world: World,
  readAges: () => Promise<Record<string, number>>,
  report: (line: string) => void,
): Promise<Figure[]> {
  const abort = new AbortController()
  const watching = watchAges(readAges, abort.signal)
  const scaling = scale(pools, readAges, abort.signal, report)
  const sent: Promise<unknown>[] = []
  let calmAtMs = Number.POSITIVE_INFINITY
  let backAtMs: number | undefined
  const loops = new Set<OpenLoop>()
  let resent = 0
  let turn = 0
  /** Asks the APIs in turn. */
  const askAny = (kind: string, text: string, dueMs: number): Promise<string | undefined> => {
    const loop = pools.api.members[turn++ % pools.api.members.length]?.loop
    if (loop === undefined) throw new Error('there is no API')
    loops.add(loop)
    return loop.send(kind, text, dueMs)
  }
  for (const [index, step] of STEPS.entries()) {
    const startedMs = performance.now()
    if (index === STEPS.length - CALM_STEPS) calmAtMs = startedMs
    for (let count = 0; performance.now() - startedMs < STEP_MS;) {
      const dueCount = ((performance.now() - startedMs) / SECOND_MS) * step.requests
      for (; count < dueCount; count++) {
        const dueMs = startedMs + (count / step.requests) * SECOND_MS
        const isBatch = count % step.requests < step.batches
        const text = requestOf(world, count, isBatch)
        const answer = askUntilAnswered(
          () => askAny(isBatch ? 'work' : 'other', text, dueMs),
          () => resent++,
        )
        sent.push(Promise.race([answer, sleep(ANSWER_WITHIN_MS, 'late' as const, { ref: false })]))
      }
      const isBack = Object.values(pools).every(({ members, rule }) => members.length === rule.min)
      if (isBack && performance.now() > calmAtMs) backAtMs ??= performance.now()
      await sleep(2)
    }
    const sizes = Object.entries(pools).map(([name, { members }]) => `${name} ${members.length}`)
    report(`scale: after ${step.requests} requests/s, ${step.batches} of them batches: ${sizes.join(', ')}`)
  }
  const lost = (await Promise.all(sent)).filter((answer) => answer === 'late').length
  abort.abort()
  await scaling
  const tallies = [...loops].flatMap((loop) => [...loop.tallies.values()])
  report(`scale: ${resent} were refused, and sent again after ${RETRY_AFTER_MS / SECOND_MS} s`)
  for (const { firstFailure } of tallies)
    if (firstFailure !== undefined) report(`scale: refused: ${firstFailure}`)
  const latencies = tallies.flatMap((tally) => tally.latencies)
  report(
    `scale: ${latencies.length} answered, p50 ${percentile(latencies, 0.5).toFixed(0)} ms, p99 ${percentile(latencies, 0.99).toFixed(0)} ms; most api ${pools.api.most}, shares ${pools.shares.most}`,
  )
  const limited = (name: string, value: number, limit: number, unit: string): Figure =>
    compareWith(
      { name: 'limit', value: limit },
      { name: `scale: ${name}`, value, unit, better: 'lower', goal: 1 },
    )
  return [
    limited('oldest waiting job', await watching, LIMITS.oldestSeconds, 's'),
    limited(`lost of ${sent.length} requests, and one`, lost + 1, LIMITS.lost + 1, 'requests'),
    limited(
      'pools at their least again after the load',
      ((backAtMs ?? Number.POSITIVE_INFINITY) - calmAtMs) / SECOND_MS,
      LIMITS.backSeconds,
      's',
    ),
  ]
}

/** Sends a request until it is answered with 2xx. */
async function askUntilAnswered(
  send: () => Promise<string | undefined>,
  noteRefused: () => void,
): Promise<void> {
  while ((await send()) === undefined) {
    noteRefused()
    await sleep(RETRY_AFTER_MS, undefined, { ref: false })
  }
}

/** Reads the queues' ages each second until aborted. @returns the greatest, in seconds */
async function watchAges(
  readAges: () => Promise<Record<string, number>>,
  signal: AbortSignal,
): Promise<number> {
  let oldest = 0
  while (!signal.aborted) {
    oldest = Math.max(oldest, ...Object.values(await readAges()))
    await sleep(SECOND_MS)
  }
  return oldest
}

/** Adds and removes processes by the rules until aborted. */
async function scale(
  pools: Record<PoolName, Pool>,
  readAges: () => Promise<Record<string, number>>,
  signal: AbortSignal,
  report: (line: string) => void,
): Promise<void> {
  const scalers = { api: createScaler(pools.api.rule), shares: createScaler(pools.shares.rule) }
  const meters = { api: meterCores(pools.api), shares: meterCores(pools.shares) }
  while (!signal.aborted) {
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    const ages = await readAges()
    const cores = { api: meters.api() / PART_OF_CORE.api, shares: meters.shares() / PART_OF_CORE.shares }
    for (const name of ['api', 'shares'] as const) {
      const { members, rule, add, remove } = pools[name]
      const values = rule.metrics.map(({ query }) => measureQuery(query, cores, ages))
      const wanted = scalers[name].decide(performance.now(), values, members.length)
      const measured = values.map((value) => value.toFixed(2)).join(' and ')
      if (wanted !== members.length)
        report(`scale: ${name} ${members.length} -> ${wanted}, measured ${measured}`)
      const change = wanted > members.length ? add : remove
      await Promise.all(Array.from({ length: Math.abs(wanted - members.length) }, change))
    }
  }
}

/** What Prometheus would answer to a query of a ScaledObject. */
function measureQuery(query: string, cores: Record<string, number>, ages: Record<string, number>): number {
  const [, queue] = /queue_oldest_seconds\{queue="([^"]+)"\}/.exec(query) ?? []
  if (queue !== undefined) return ages[queue] ?? 0
  const [, app] = /process_cpu_seconds_total\{app="([^"]+)"\}/.exec(query) ?? []
  const value = app === undefined ? undefined : cores[app]
  if (value === undefined) throw new Error(`this bench measures nothing for ${query}`)
  return value
}

/**
 * Returns a function that tells how many cores the pool's members have used since its last call; what a new one used
 * before its first is left out, as Prometheus knows no rate of it.
 */
function meterCores({ members }: Pool): () => number {
  let before = new Map<number, number>()
  let atMs = performance.now()
  return () => {
    const now = performance.now()
    const used = new Map(members.map(({ pid }) => [pid, usedNs(pid)]))
    const ns = [...used].reduce((sum, [pid, total]) => sum + total - (before.get(pid) ?? total), 0)
    const cores = ns / ((now - atMs) * 1e6)
    ;[before, atMs] = [used, now]
    return cores
  }
}

const batches = makeShareBatches(BATCHES_EACH, SHARES_A_BATCH, SHARE_BITS)

/** The text of the nth request: a batch of nonces, or in turn a feed, an agent's own view, a card, a post. */
function requestOf({ tokens, ids, orderIds }: World, nth: number, isBatch: boolean): string {
  const place = (nth * 7_919) % AGENTS
  const token = tokens[place] ?? ''
  if (isBatch) {
    const body = { order_id: orderIds[place], nonces: batches[nth % BATCHES_EACH] }
    return requestText('POST', '/api/v1/work/submit', { token, body })
  }
  switch (nth % 4) {
    case 0:
      return requestText('GET', '/api/v1/feed?limit=20', {})
    case 1:
      return requestText('GET', '/api/v1/me', { token })
    case 2:
      return requestText('GET', `/api/v1/agent/${ids[place]}`, {})
    default:
      return requestText('POST', '/api/v1/post', { token, body: { body: BODY } })
  }
}
