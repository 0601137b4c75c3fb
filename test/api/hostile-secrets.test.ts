import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { startPart } from '../../scripts/embedded/parts.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { findFreePort } from '../../scripts/embedded/ports.ts'
import { isStoredToken, newToken, toStoredToken, tokenKey } from '../../shared/agents/token.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext } from '../../shared/context.ts'
import { createLog } from '../../shared/platform/log.ts'
import { requireKeys } from '../../shared/operation/require-keys.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { FULL } from '../support/full.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startApiProcess, startProcess, type RunningProcess } from '../support/processes.ts'
import { isolate, leaveDatabase, PATIENT } from '../support/servers.ts'
import {
  callService,
  CHALLENGE_SECRET,
  findNonces,
  registerOver,
  type CallOptions,
} from '../support/service.ts'
import { dumpStored } from '../support/stored.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 20 }

let folder: string
beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-secrets-'))
})
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

describe('a secret in a file that others can read', () => {
  const settings = () => {
    const { mongodbUrl, redisUrl, queuePrefix } = isolate()
    return { MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl, QUEUE_PREFIX: queuePrefix, OPERATOR_PORT: '0' }
  }

  const ROWS = [
    ['SEAL_KEY_FILE', '644'],
    ['SEAL_KEY_FILE', '620'],
    ['SEAL_MEMORY_FILE', '604'],
    ['NANO_SEED_FILE', '640'],
  ] as const
  /** A file of that mode, and what is said of it. */
  const readable = (name: string, mode: string) => {
    const file = path.join(folder, `${name}-${mode}`)
    fs.writeFileSync(file, `${'5e'.repeat(32)}\n`)
    fs.chmodSync(file, Number.parseInt(mode, 8))
    return {
      file,
      reason: `${name}: ${file} can be read or written by others than its owner (mode ${mode})`,
    }
  }
  /** What a process of workers checks before it does anything. */
  const begin = (env: Record<string, string>) => requireKeys(readConfig({ ...settings(), ...env }, 'workers'))

  it.runIf(FULL)('keeps the workers from starting, and they say which file', async () => {
    const { file, reason } = readable(...ROWS[0])
    const workers = startProcess('workers/main.ts', { ...settings(), SEAL_KEY_FILE: file })
    expect(await workers.ended).toBe(1)
    expect(workers.logged()).toContain(reason)
    expect(workers.logged()).not.toContain('5e'.repeat(32))
  })

  it.each(ROWS)('is refused: %s with mode %s', (name, mode) => {
    const { file, reason } = readable(name, mode)
    expect(() => begin({ [name]: file })).toThrow(reason)
  })

  it.each([
    ['SEAL_KEY_FILE', undefined, 'there is no file'],
    ['SEAL_KEY_FILE', 'no key\n', 'does not hold a key'],
    ['NANO_SEED_FILE', undefined, 'cannot be read (ENOENT)'],
    ['NANO_SEED_FILE', 'no seed\n', 'does not hold a seed'],
  ])('or that is none is refused, too: %s with %j', (name, content, reason) => {
    const file = path.join(folder, `${name}-${content?.length ?? 0}`)
    if (content !== undefined) fs.writeFileSync(file, content, { mode: 0o600 })
    expect(() => begin({ [name]: file })).toThrow(reason)
    expect(() => begin({ [name]: file })).toThrow(file)
  })

  it.runIf(FULL)('is missed by workers that can do nothing without it', async () => {
    const workers = startProcess('workers/main.ts', settings(), ['--queues', 'sign-seals,send-nano'])
    const line = await workers.waitForLine('the workers have nothing to do')
    expect(JSON.parse(line)).toMatchObject({ level: 40, for_want_of: ['seal key', 'nano node and seed'] })
    workers.kill('SIGTERM')
    expect(await workers.ended).toBe(0)
  })

  it('is named by workers with the queues that they leave out for want of it, beside those that they serve', async () => {
    const workers = startProcess('workers/main.ts', settings(), ['--queues', 'sweep,sign-seals,send-nano'])
    const line = await workers.waitForLine('the workers work')
    expect(JSON.parse(line)).toMatchObject({
      level: 30,
      queues: ['sweep'],
      not_served: ['sign-seals', 'send-nano'],
      for_want_of: ['seal key', 'nano node and seed'],
    })
    workers.kill('SIGTERM')
    expect(await workers.ended).toBe(0)
  })

  it('keeps the whole network from starting, before any server is up', () => {
    const dataDir = path.join(folder, 'data')
    const file = path.join(folder, 'key')
    fs.writeFileSync(file, `${'5e'.repeat(32)}\n`, { mode: 0o644 })
    fs.chmodSync(file, 0o644)
    const env = {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      DATA_DIR: dataDir,
      SEAL_KEY_FILE: file,
      ...settings(),
      PORT: '29999',
    }
    const { status, stderr } = spawnSync(process.execPath, ['scripts/start.ts'], {
      cwd: ROOT,
      encoding: 'utf8',
      env,
    })
    expect([status, stderr]).toEqual([1, expect.stringContaining(`SEAL_KEY_FILE: ${file} can be read`)])
  })

  it('is made for its owner alone, with its folder', () => {
    const file = path.join(folder, 'made-key')
    ensureSealKey(file)
    expect(fs.statSync(file).mode & 0o777).toBe(0o600)
  })
})

describe('a part of the network', () => {
  it('leaves no core dump: its limit is 0, whatever the machine allows', async () => {
    const script = path.join(folder, 'tell-limits.ts')
    fs.writeFileSync(
      script,
      `import fs from 'node:fs'\nconsole.log(fs.readFileSync('/proc/self/limits', 'utf8'))\nsetInterval(() => undefined, 1_000)\n`,
    )
    const children = trackChildren(folder, () => undefined)
    const said: string[] = []
    // The line is no log line of ours, so it is shown as it is.
    const part = startPart({
      part: 'workers',
      script,
      env: { PATH: process.env['PATH'] },
      dataDir: folder,
      children,
      report: (line) => void said.push(line),
    })
    const limits = await waitFor(
      'its limits',
      () => said.find((line) => line.includes('Max core file size')),
      LIMIT,
    )
    expect(limits).toMatch(/Max core file size\s+0\s+0\s/)
    const status = fs.readFileSync(`/proc/${part.pid()}/cmdline`, 'utf8').split('\0')
    expect(status[0]).toBe(process.execPath)
    await part.stop()
    children.close()
  })
})

describe('what the network was given to keep', () => {
  const OPERATOR_TOKEN = 'operator-token-of-this-test'
  const METRICS_TOKEN = 'metrics-token-of-this-test'
  let api: RunningProcess & { url: string }
  let workers: RunningProcess
  let metricsPort: number
  let env: Record<string, string>

  beforeAll(async () => {
    const { mongodbUrl, redisUrl, queuePrefix } = isolate()
    const keyFile = path.join(folder, 'seal-key')
    ensureSealKey(keyFile)
    metricsPort = await findFreePort()
    env = {
      ...{
        MONGODB_URL: mongodbUrl,
        REDIS_URL: redisUrl,
        QUEUE_PREFIX: queuePrefix,
        SHARE_BITS: '4',
        SHARES_PER_DAY: '2',
        REGISTER_BITS: '4',
      },
      ...{
        ...PATIENT,
        LOG_LEVEL: 'trace',
        OPERATOR_TOKEN,
        METRICS_TOKEN,
        SWEEP_SECONDS: '1',
        SEAL_INTERVAL_SECONDS: '1',
        FREE_UNTIL: 'none',
      },
    }
    api = await startApiProcess({ ...env, CHALLENGE_SECRET, METRICS_PORT: String(metricsPort) })
    workers = startProcess('workers/main.ts', {
      ...env,
      OPERATOR_PORT: '0',
      SEAL_KEY_FILE: keyFile,
      SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
    })
    await workers.waitForLine('the workers work')
  })
  afterAll(() => Promise.all([api.stop(), workers.stop()]))

  it('is in no answer, log, metric, queue or record after a run', async () => {
    const call = (method: string, where: string, options: CallOptions = {}) =>
      callService(api.url, method, where, options)
    const answers: string[] = []
    const ask = async (method: string, where: string, options: CallOptions = {}) => {
      const { json, headers } = await call(method, where, options)
      answers.push(JSON.stringify(json) + JSON.stringify([...headers]))
      return json
    }
    // An API that listens may not have its database yet.
    const { token, id } = await registerOver(call)
    const own = { token }
    const order = (await ask('POST', '/invoice', { ...own, body: { currency: 'pow' } })) as unknown as {
      order_id: string
      prefix: string
    }
    await ask('POST', '/work/submit', {
      ...own,
      body: { order_id: order.order_id, nonces: findNonces(order.prefix, 4, 2) },
    })
    await ask('POST', '/post', { ...own, body: { body: 'a post' } })
    await ask('POST', '/post', { ...own, rawBody: '{' })
    await ask('POST', '/token/rotate', { ...own, body: { new_token: own.token } })
    await ask('GET', '/me', { token: `${own.token.slice(0, -1)}x` })
    for (const where of [
      '/feed',
      '/stats',
      '//seal',
      '/ledger',
      `/receipt/${id}`,
      `/agent/${id}`,
      '/challenge',
      '/limits',
      '/contract',
      '/openapi.json',
      '/no-such-route?token=x',
    ])
      await ask('GET', where, own)
    await workers.waitForLine('seals were signed')
    const metrics = await (
      await fetch(`http://127.0.0.1:${metricsPort}/metrics`, {
        headers: { Authorization: `Bearer ${METRICS_TOKEN}` },
      })
    ).text()
    expect(metrics).toContain('agent_network_request_seconds')

    const ctx = openContext(readConfig(env, 'workers'), createLog('test', 'silent'))
    await ctx.database.whenReady()
    const redis = new Redis(String(env['REDIS_URL']))
    try {
      const places = {
        answers: answers.join('\n'),
        metrics,
        'log of the API': api.logged(),
        'log of the workers': workers.logged(),
        MongoDB: await dumpStored(ctx.database.connection),
        Redis: await dumpRedis(redis, String(env['QUEUE_PREFIX'])),
      }
      expect(places.Redis.length).toBeGreaterThan(500)
      const secrets = {
        'the token of an agent': own.token,
        'the secret part of a token': own.token.slice(3 + 16),
        'the challenge secret': CHALLENGE_SECRET,
        'the seal key': fs.readFileSync(path.join(folder, 'seal-key'), 'utf8').trim(),
        "the operator's token": OPERATOR_TOKEN,
        'the token of the metrics': METRICS_TOKEN,
        "Redis's password": new URL(String(env['REDIS_URL'])).password,
      }
      for (const [place, text] of Object.entries(places))
        for (const [name, secret] of Object.entries(secrets)) {
          expect(secret.length, name).toBeGreaterThan(15)
          expect(text.includes(secret), `${name} in ${place}`).toBe(false)
        }
    } finally {
      redis.disconnect()
      await leaveDatabase(ctx.database.connection)
      await closeContext(ctx)
    }
  })
})

/** Every key of a network's queues with all that it holds, as text. */
async function dumpRedis(redis: Redis, prefix: string): Promise<string> {
  const lines: string[] = []
  for (const key of await redis.keys(`{${prefix}.*`)) {
    const type = await redis.type(key)
    const held =
      type === 'hash'
        ? await redis.hgetall(key)
        : type === 'list'
          ? await redis.lrange(key, 0, -1)
          : type === 'zset'
            ? await redis.zrange(key, '0', '-1')
            : type === 'set'
              ? await redis.smembers(key)
              : type === 'stream'
                ? await redis.xrange(key, '-', '+')
                : await redis.get(key)
    lines.push(`${key} ${JSON.stringify(held)}`)
  }
  return lines.join('\n')
}

describe('the check of a token whose look-up key is known', () => {
  /**
   * That it takes as long whatever differs is a matter of its form: the whole token goes through SHA-256 with
   * a salt, and two digests of equal length are compared by timingSafeEqual. Here it is measured that nothing
   * else came between.
   */
  it('takes as long with the first character of the secret wrong as with the last, and as with none', () => {
    const token = newToken()
    const stored = toStoredToken(token)
    const other = (at: number) => token.slice(0, at) + (token[at] === '0' ? '1' : '0') + token.slice(at + 1)
    const candidates = { first: other(3 + 16), last: other(token.length - 1), right: token }
    expect([
      isStoredToken(candidates.first, stored),
      isStoredToken(candidates.last, stored),
      isStoredToken(token, stored),
    ]).toEqual([false, false, true])
    expect(new Set(Object.values(candidates).map(tokenKey)).size).toBe(1)
    const times: Record<string, number[]> = { first: [], last: [], right: [] }
    // In turns, so that whatever else the machine does hits all of them alike.
    for (let round = 0; round < 300; round++)
      for (const [name, candidate] of Object.entries(candidates)) {
        const startedAt = performance.now()
        for (let i = 0; i < 50; i++) isStoredToken(candidate, stored)
        times[name]?.push(performance.now() - startedAt)
      }
    const medians = Object.values(times).map(
      (all) => all.sort((one, two) => one - two)[Math.floor(all.length / 2)] ?? 0,
    )
    expect(Math.max(...medians) / Math.min(...medians)).toBeLessThan(1.5)
  })
})
