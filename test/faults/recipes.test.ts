import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { findFreePort } from '../../scripts/embedded/ports.ts'
import { requireMongod } from '../../scripts/embedded/programs.ts'
import type { SupervisedChild } from '../../scripts/embedded/supervise.ts'
import type { TemporaryServers } from '../../scripts/embedded/temporary.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { startMongoSet } from '../harness/testbed/mongo-set.ts'
import { measurePace } from '../harness/testbed/pace.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import {
  startApiProcess,
  startProcess,
  startWorkersProcess,
  type RunningProcess,
} from '../support/processes.ts'
import { runCommand, type Ran } from '../support/run-verb.ts'
import { startServers } from '../support/servers.ts'
import {
  callService,
  CHALLENGE_SECRET,
  registerOver,
  type TestService,
  whenServed,
} from '../support/service.ts'

const LIMIT = { limitMs: 90_000 }
const WRITES_PER_SECOND = 200
const ROUNDS = 5
const DOCS = ['set-up', 'run', 'repair']
  .map((name) => fs.readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8'))
  .join('\n')
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'recipes-'))
const toStop: (() => unknown)[] = []
let [here, there]: TemporaryServers[] = []

type Env = Record<string, string>

beforeAll(async () => {
  ;[here, there] = await Promise.all([startServers(), startServers()])
})
afterAll(async () => {
  for (const stop of toStop.reverse()) await stop()
  await Promise.all([here?.stop(), there?.stop()])
  fs.rmSync(folder, { recursive: true })
})

/** The commands of a recipe, in order, as the page has them. */
function commandsOf(heading: string): string[] {
  const section = new RegExp(`^#+ ${heading}\\n(.*?)^#+ `, 'ms').exec(DOCS)?.[1]
  if (section === undefined) throw new Error(`docs/ has no "${heading}"`)
  const lines = section.split('\n').filter((line) => line.includes('npm run operator -- '))
  return lines.map((line) => line.replace(/\s+#.*$/, '').replace(/^.*npm run operator -- /, ''))
}

/** @param words what stands for the words in capitals */
const operator = (env: Env, command: string, words: Env = {}): Promise<Ran> =>
  runCommand(
    env,
    command.split(' ').map((word) => words[word] ?? word),
  )

async function done(env: Env, command: string | undefined, words: Env = {}): Promise<string> {
  const { exitCode, stdout, stderr } = await operator(env, command ?? 'help', words)
  expect([command, exitCode, stderr], stdout).toEqual([command, 0, ''])
  return stdout
}

const urlOf = (servers: TemporaryServers | undefined, name: string): string => {
  const url = new URL(servers?.mongod.url ?? '')
  url.pathname = `/${name}`
  return url.href
}

function keysOf(name: string): { SEAL_KEY_FILE: string; SEAL_MEMORY_FILE: string } {
  const [key, memory] = [path.join(folder, `${name}-key`), path.join(folder, `${name}-memory`)] as const
  ensureSealKey(key, memory)
  return { SEAL_KEY_FILE: key, SEAL_MEMORY_FILE: memory }
}

/** @param keys of which network: its signer remembers what it has signed */
const settings = (mongodbUrl: string, servers: TemporaryServers | undefined, keys: string): Env => ({
  MONGODB_URL: mongodbUrl,
  REDIS_URL: servers?.redis.url ?? '',
  QUEUE_PREFIX: path.basename(new URL(mongodbUrl.replace(/,[^/]*/, '')).pathname),
  CHALLENGE_SECRET,
  DATA_DIR: path.join(folder, 'none'),
  ...keysOf(keys),
  ...{ FREE_UNTIL: '2100-01-01T00:00:00+00:00', REGISTER_BITS: '4' },
  ...{ SEAL_INTERVAL_SECONDS: '2', SWEEP_SECONDS: '1', REQUEST_SECONDS: '10' },
})

async function open<T>(env: Env, work: (ctx: Context) => Promise<T>): Promise<T> {
  const ctx = openContext(readConfig(env, 'workers'), createLog('test', 'silent'))
  try {
    await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
    return await work(ctx)
  } finally {
    await closeContext(ctx)
  }
}

async function startBoth(env: Env): Promise<{ url: string; stop(): Promise<void> }> {
  const both: RunningProcess[] = []
  const stop = async (): Promise<void> => void (await Promise.all(both.map((one) => one.stop())))
  toStop.push(stop)
  const [api] = await Promise.all([
    startApiProcess(env).then((one) => (both.push(one), one)),
    startWorkersProcess(env).then((one) => both.push(one)),
  ])
  return { url: api.url, stop }
}

/** Posts as fast as is asked for, to wherever the network is; what is refused is written again. */
function startWriting(at: { url: string }, perSecond: number) {
  const written: { id: string; at: number }[] = []
  let isWriting = true
  const lanes = async (): Promise<void> => {
    const call: TestService['call'] = (method, route, options) => callService(at.url, method, route, options)
    const agents = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const agent = await registerOver(call)
        // It is a free period.
        await whenServed(() =>
          call('POST', '/invoice', { token: agent.token, body: { currency: 'pow', days: 1 } }),
        )
        return agent
      }),
    )
    const startedAt = performance.now()
    let count = 0
    await Promise.all(
      agents.map(async ({ token }) => {
        while (isWriting) {
          const dueMs = (count++ * 1_000) / perSecond - (performance.now() - startedAt)
          if (dueMs > 0) await new Promise((resolve) => setTimeout(resolve, dueMs))
          const answer = await call('POST', '/post', { token, body: { body: 'kept' } }).catch(() => undefined)
          if (answer?.status === 201) written.push({ id: String(answer.json['id']), at: performance.now() })
          else await new Promise((resolve) => setTimeout(resolve, 20))
        }
      }),
    )
  }
  const ended = lanes()
  return {
    written,
    async stop() {
      isWriting = false
      await ended
    },
  }
}

const hasAll = (env: Env, ids: readonly string[]): Promise<string[]> =>
  open(env, async (ctx) => {
    const lost: string[] = []
    for (let start = 0; start < ids.length; start += 1_000) {
      const page = ids.slice(start, start + 1_000)
      const found = await ctx.posts.models.posts.find({ _id: { $in: page } }, { _id: 1 }).lean()
      const there = new Set(found.map(({ _id }) => _id))
      lost.push(...page.filter((id) => !there.has(id)))
    }
    return lost
  })

/** What `check` finds, but of the memory: this host's is the running network's, and ahead of a copy. */
async function faultsOf(env: Env): Promise<unknown[]> {
  const { stdout } = await operator(env, 'check --json')
  const { checks } = JSON.parse(stdout) as { checks: { name: string; faults: unknown[] }[] }
  return checks.flatMap(({ name, faults }) => (name === 'memory' ? [] : faults))
}

const isSigned = (env: Env, after: number): Promise<number> =>
  open(env, (ctx) =>
    waitFor(
      'a signed seal',
      async () => {
        const last = (await ctx.seals.lastSigned())?._id ?? 0
        return last > after ? last : undefined
      },
      LIMIT,
    ),
  )

describe('a backup', () => {
  it(`under ${WRITES_PER_SECOND} writes a second has all that was acknowledged before it, ${ROUNDS} times of ${ROUNDS}`, async () => {
    const env = settings(urlOf(here, 'loaded'), here, 'loaded')
    const network = await startBoth(env)
    const writing = startWriting(network, WRITES_PER_SECOND)
    await waitFor('posts', () => (writing.written.length > 200 ? true : undefined), LIMIT)
    const rates: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const [from, startedAt] = [writing.written.length, performance.now()]
      await waitFor('more posts', () => (writing.written.length > from + 400 ? true : undefined), LIMIT)
      const before = writing.written.map(({ id }) => id)
      const to = path.join(folder, `loaded-${round}`)
      await done(env, 'backup DIR', { DIR: to })
      rates.push(((writing.written.length - from) * 1_000) / (performance.now() - startedAt))
      const copy = settings(urlOf(there, `loaded-${round}`), there, 'loaded')
      await done(copy, 'restore DIR --to URL', { DIR: to, URL: copy['MONGODB_URL'] ?? '' })
      expect([round, await faultsOf(copy), await hasAll(copy, before)]).toEqual([round, [], []])
    }
    await writing.stop()
    await network.stop()
    console.log(
      `${writing.written.length} posts, ${rates.map((rate) => rate.toFixed(0)).join(', ')} a second: nothing missing in ${ROUNDS} of ${ROUNDS}`,
    )
  }, 400_000)
})

describe('the recipe of docs/set-up.md', () => {
  const move = commandsOf('Move')

  /** Runs the commands of "Move" under writes, of which none is lost, and none is refused for long. */
  async function moveTo(name: string, from: Env, to: Env): Promise<void> {
    const old = await startBoth(from)
    const at = { url: old.url }
    const writing = startWriting(at, 20)
    await waitFor('posts', () => (writing.written.length > 30 ? true : undefined), LIMIT)
    const last = await isSigned(from, 0)
    const dir = path.join(folder, `move-${name}`)
    const words = { DIR: dir, URL: to['MONGODB_URL'] ?? '' }
    const [backup, restore, check, promote] = move
    const pace = measurePace()
    const stoppedAt = performance.now()
    await old.stop()
    await done(from, backup, words)
    await done(to, restore, words)
    at.url = (await startBoth(to)).url
    const startedAt = performance.now()
    await waitFor('a write', () => writing.written.some((one) => one.at > startedAt) || undefined, LIMIT)
    const times = writing.written.map((one) => one.at).filter((time) => time > stoppedAt - 1_000)
    const pauses = times.toSorted((a, b) => a - b).map((time, place, all) => time - (all[place - 1] ?? time))
    const idleMs = Math.max(...pauses) / pace.worstBetween(stoppedAt, performance.now())
    pace.close()
    await done(to, check)
    await done(to, promote)
    await isSigned(to, last)
    await writing.stop()
    expect(
      await hasAll(
        to,
        writing.written.map(({ id }) => id),
      ),
    ).toEqual([])
    console.log(`${name}: ${(idleMs / 1_000).toFixed(1)} s without a write on an idle machine`)
    expect(idleMs).toBeLessThan(10_000)
  }

  it('moves the network to other servers, with less than 10 s without writes', async () => {
    await moveTo(
      'machine',
      settings(urlOf(here, 'moving'), here, 'moving'),
      settings(urlOf(there, 'moved'), there, 'moving'),
    )
  }, 240_000)

  it('moves it from one member of MongoDB to three', async () => {
    const home = fs.mkdtempSync(path.join(folder, 'three-'))
    const report = (): void => undefined
    const children = trackChildren(home, report)
    const started: SupervisedChild[] = []
    toStop.push(async () => {
      await Promise.all(started.map((child) => child.stop()))
      children.close()
    })
    const set = await startMongoSet({
      ...{ binary: requireMongod(), folder: home, size: 3, children, report },
      onStarted: (child) => void started.push(child),
    })
    toStop.push(() => set.closeGates())
    await moveTo('three', settings(urlOf(here, 'single'), here, 'three'), settings(set.url, there, 'three'))
  }, 240_000)

  it('moves it from the embedded servers to others', async () => {
    const dataDir = path.join(folder, 'embedded')
    const [port, operatorPort] = [await findFreePort(), await findFreePort()]
    const start = startProcess('scripts/start.ts', {
      ...{ DATA_DIR: dataDir, PORT: String(port), OPERATOR_PORT: String(operatorPort) },
      ...{ REGISTER_BITS: '4', SEAL_INTERVAL_SECONDS: '2', HOME: process.env['HOME'] ?? '' },
    })
    toStop.push(() => start.stop())
    await start.waitForLine('The network is up')
    const at = { url: `http://127.0.0.1:${port}` }
    const writing = startWriting(at, 20)
    await waitFor('posts', () => (writing.written.length > 20 ? true : undefined), LIMIT)
    await writing.stop()
    const [backup, restore, check] = move
    const from = { DATA_DIR: dataDir }
    const to = {
      ...settings(urlOf(there, 'own'), there, 'own'),
      SEAL_KEY_FILE: path.join(dataDir, 'seal-key'),
      SEAL_MEMORY_FILE: path.join(dataDir, 'seal-memory'),
    }
    const words = { DIR: path.join(folder, 'of-embedded'), URL: (to as Env)['MONGODB_URL'] ?? '' }
    await done(from, backup, words)
    await start.stop()
    await done(to, restore, words)
    expect(await faultsOf(to)).toEqual([])
    expect(check).toBe('check')
    expect(
      await hasAll(
        to,
        writing.written.map(({ id }) => id),
      ),
    ).toEqual([])
  }, 240_000)

  it('goes on with another seal key, which the last seal of the one before leads to', async () => {
    const env = settings(urlOf(here, 'rotated'), here, 'rotated')
    const network = await startBoth(env)
    const writing = startWriting(network, 20)
    await isSigned(env, 0)
    await network.stop()
    await writing.stop()
    const [keygen, adopt] = commandsOf('Another seal key')
    const next = {
      ...env,
      SEAL_KEY_FILE: path.join(folder, 'next-key'),
      SEAL_MEMORY_FILE: path.join(folder, 'next-memory'),
    }
    await done(next, keygen, { FILE: next.SEAL_KEY_FILE })
    // Whoever names another seal is told which one it is.
    const refused = await operator(next, adopt ?? '', { SEQ: '0', HASH: '0'.repeat(64) })
    const [, seq = '', hash = ''] =
      /seal of the database is (\d+), and .* ([0-9a-f]{64})/.exec(refused.stderr) ?? []
    await done(next, adopt, { SEQ: seq, HASH: hash })
    const again = await startBoth(next)
    const more = startWriting(again, 20)
    const signed = await isSigned(next, Number(seq))
    await more.stop()
    const pubkeys = await open(next, async (ctx) => [
      (await ctx.seals.find(Number(seq)))?.pubkey,
      (await ctx.seals.find(signed))?.pubkey,
    ])
    expect(new Set(pubkeys).size).toBe(2)
    expect(await faultsOf(next)).toEqual([])
  }, 240_000)

  it('makes other tokens with the command that status prints', () => {
    const file = path.join(folder, 'operator-token')
    fs.writeFileSync(file, 'leaked\n', { mode: 0o644 })
    const command = /^\(umask 077.*FILE.*\)/m.exec(DOCS)?.[0] ?? 'false'
    execFileSync('/bin/sh', ['-c', command.replaceAll('FILE', `'${file}'`)])
    expect(fs.readFileSync(file, 'utf8')).toMatch(/^[0-9a-f]{64}\n$/)
    expect(fs.statSync(file).mode & 0o777).toBe(0o600)
  })
})
