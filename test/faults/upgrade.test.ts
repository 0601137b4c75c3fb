import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import https from 'node:https'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reservePort } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { createLog } from '../../shared/platform/log.ts'
import { isEverythingSealed, verifyWholeLedger } from '../support/ledger.ts'
import { startProcess, whenAnswering, type RunningProcess } from '../support/processes.ts'
import { startHaproxy, type Proxy } from '../support/proxies.ts'
import { isolate } from '../support/servers.ts'
import { CHALLENGE_SECRET, solveChallenge, type TestService } from '../support/service.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'

/** What the network ran before: the last commit with schema 1, or any other. */
const OLD = process.env['UPGRADE_FROM'] ?? '5385087c'
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const hasHistory = spawnSync('git', ['cat-file', '-e', `${OLD}^{commit}`], { cwd: ROOT }).status === 0
/** Requests a second; a third of them writes. */
const RATE = 40
const LONG_MS = 600_000
const LIMIT = { limitMs: 120_000, everyMs: 100 }
/** Each part of the service, as docs/run.md says to replace them. */
const POOLS = [
  'sequence,make-seal,check-chain',
  'sign-seals,sign-announcement',
  'verify-shares',
  'sweep,order-deadlines',
]

let folder: string
let settings: Record<string, string>
let ctx: Context
let proxy: Proxy
const apis: { process: RunningProcess; port: number; readyPort: number }[] = []
const workers: RunningProcess[] = []

async function startApi(root: string, port: number, readyPort: number): Promise<RunningProcess> {
  const env = { ...settings, PORT: String(port), METRICS_PORT: String(readyPort) }
  const api = startProcess('api/main.ts', env, [], undefined, root)
  await whenAnswering(`http://127.0.0.1:${readyPort}/readyz`)
  return api
}

async function startWorkers(root: string, queues: string): Promise<RunningProcess> {
  const started = startProcess(
    'workers/main.ts',
    { ...settings, OPERATOR_PORT: '0' },
    ['--queues', queues],
    undefined,
    root,
  )
  const works = () => started.logged().includes('the workers work') || undefined
  await waitFor(`workers of ${queues}`, works, LIMIT).catch((error: unknown) => {
    throw new Error(started.logged(), { cause: error })
  })
  return started
}

async function hasServed(readyPort: number): Promise<true | undefined> {
  const headers = { Authorization: `Bearer ${settings['METRICS_TOKEN']}` }
  const metrics = await (await fetch(`http://127.0.0.1:${readyPort}/metrics`, { headers })).text()
  return metrics.includes('route="/api/v1/feed"') || undefined
}

const isRun = hasHistory

beforeAll(async () => {
  if (!isRun) return
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'upgrade-'))
  const archive = execFileSync('git', ['archive', OLD], { cwd: ROOT, maxBuffer: 1 << 28 })
  execFileSync('tar', ['-x', '-C', folder], { input: archive })
  fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'))
  ensureSealKey(path.join(folder, 'seal-key'))
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  settings = {
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: queuePrefix,
    CHALLENGE_SECRET,
    METRICS_TOKEN: 'metrics-token-of-this-test',
    // The API of a version before asks for it.
    OPERATOR_TOKEN: 'metrics-token-of-this-test',
    SEAL_KEY_FILE: path.join(folder, 'seal-key'),
    SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
    DATA_DIR: folder,
    FREE_UNTIL: new Date(Date.now() + 30 * 86_400_000).toISOString(),
    REGISTER_BITS: '4',
    SEAL_INTERVAL_SECONDS: '5',
    SWEEP_SECONDS: '1',
    REQUEST_SECONDS: '10',
    DRAIN_SECONDS: '4',
  }
  const ports = await Promise.all(Array.from({ length: 4 }, () => reservePort()))
  const startApiAt = async (port = 0, readyPort = 0): Promise<void> => {
    apis.push({ process: await startApi(folder, port, readyPort), port, readyPort })
  }
  const [old] = await Promise.all([
    Promise.all(POOLS.map((queues) => startWorkers(folder, queues))),
    startApiAt(...ports.slice(0, 2)),
    startApiAt(...ports.slice(2)),
  ])
  workers.push(...old)
  const [first, second] = apis
  if (first === undefined || second === undefined) throw new Error('two APIs were started')
  proxy = await startHaproxy([first, second], { REQUESTS_PER_ADDRESS: '100000' })
}, LONG_MS)
afterAll(async () => {
  if (!isRun) return
  await proxy?.stop()
  await Promise.all([...apis.map(({ process: api }) => api), ...workers].map((one) => one.stop()))
  if (ctx !== undefined) {
    await ctx.database.connection.dropDatabase()
    await closeContext(ctx)
  }
  fs.rmSync(folder, { recursive: true })
})

// It needs git's history, and minutes.
describe.skipIf(!isRun)(`an upgrade from ${OLD} under load, one process after the other`, () => {
  it('fails no request behind HAProxy, and leaves a ledger that holds', { timeout: LONG_MS }, async () => {
    const agent = new https.Agent({ keepAlive: true, maxSockets: 64 })
    const call = (async (
      method: string,
      pathOf: string,
      { body, token }: { body?: unknown; token?: string } = {},
    ) => {
      const { status, text } = await proxy.send(method, `/api/v1${pathOf}`, {
        agent,
        ...(token === undefined ? {} : { token }),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status, json: JSON.parse(text) as Record<string, unknown>, headers: new Headers() }
    }) as TestService['call']
    const { json } = await call('POST', '/register', { body: await solveChallenge(call) })
    const token = String(json['token'])
    await call('POST', '/invoice', { token, body: { currency: 'pow' } })

    const failures: string[] = []
    const posts: string[] = []
    const underWay = new Set<Promise<void>>()
    let sent = 0
    let isLoading = true
    const request = async (turn: number): Promise<void> => {
      const [method, pathOf, body] =
        turn % 3 === 0
          ? (['POST', '/post', { body: `post ${turn}` }] as const)
          : (['GET', turn % 3 === 1 ? '/feed' : '/me', undefined] as const)
      try {
        const { status, json: answer } = await call(
          method,
          pathOf,
          body === undefined ? { token } : { token, body },
        )
        if (status >= 300) failures.push(`${method} ${pathOf}: ${status} ${JSON.stringify(answer)}`)
        else if (body !== undefined) posts.push(String(answer['id']))
      } catch (error) {
        failures.push(`${method} ${pathOf}: ${String(error)}`)
      }
    }
    const startedMs = performance.now()
    const loading = (async () => {
      while (isLoading) {
        const due = Math.floor(((performance.now() - startedMs) / 1_000) * RATE)
        for (; sent < due; sent++) {
          const one = request(sent).finally(() => underWay.delete(one))
          underWay.add(one)
        }
        await sleep(5)
      }
      await Promise.all(underWay)
    })()
    const moreLoad = (count: number) => {
      const goal = posts.length + count
      return waitFor(
        'more writes',
        () => (posts.length >= goal || failures.length > 0 ? true : undefined),
        LIMIT,
      )
    }

    await moreLoad(20)
    for (const [index, queues] of POOLS.entries()) {
      workers[index]?.kill('SIGTERM')
      expect(await workers[index]?.ended, workers[index]?.logged()).toBe(0)
      workers[index] = await startWorkers(ROOT, queues)
      await moreLoad(10)
    }
    for (const api of apis) {
      api.process.kill('SIGTERM')
      expect(await api.process.ended, api.process.logged()).toBe(0)
      api.process = await startApi(ROOT, api.port, api.readyPort)
      await waitFor('requests at the new API', () => hasServed(api.readyPort), LIMIT)
      await moreLoad(10)
    }
    await moreLoad(20)
    isLoading = false
    await loading
    const seconds = (performance.now() - startedMs) / 1_000
    console.info(
      `${sent} requests in ${seconds.toFixed(0)} s, ${posts.length} writes, ${failures.length} failures`,
    )
    expect(failures).toEqual([])
    agent.destroy()

    ctx = openContext(readConfig(settings, 'api'), createLog('test', 'silent'))
    await ctx.database.whenReady()
    for (const id of posts) expect(await ctx.posts.find(id), id).toBeDefined()
    await waitFor('all of it to be sealed', async () => (await isEverythingSealed(ctx)) || undefined, LIMIT)
    await verifyWholeLedger(ctx, posts)
  })
})
