import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { findFreePort } from '../../scripts/embedded/ports.ts'
import { cacheDir } from '../../scripts/prepare.mjs'
import { SECRETS, VARIABLE_NAMES } from '../../shared/platform/config.ts'
import { startProcess, type RunningProcess } from '../support/processes.ts'

const NOBODY = '65534'
const INTRUDER = path.join(import.meta.dirname, '..', 'support', 'intruder.ts')
const asNobody = (args: readonly string[]) =>
  spawnSync('setpriv', ['--reuid', NOBODY, '--regid', NOBODY, '--clear-groups', process.execPath, ...args], {
    encoding: 'utf8',
  })
const isRoot = process.getuid?.() === 0
const canStart =
  isRoot && asNobody(['--input-type=module', '-e', "import 'ioredis'; import 'mongoose'"]).status === 0

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let home: string
let dataDir: string
let network: RunningProcess
let ports: { operator: number; api: number }
const pids = new Map<string, number>()

beforeAll(async () => {
  // Everybody may look into the folder around it, as into many homes.
  home = fs.mkdtempSync(path.join(os.tmpdir(), 'other-user-'))
  fs.chmodSync(home, 0o755)
  dataDir = path.join(home, 'data')
  ports = { api: await findFreePort(), operator: await findFreePort() }
  const seed = path.join(home, 'seed')
  fs.writeFileSync(seed, `${'5e'.repeat(32)}\n`, { mode: 0o600 })
  network = startProcess('scripts/start.ts', {
    DATA_DIR: dataDir,
    PORT: String(ports.api),
    OPERATOR_PORT: String(ports.operator),
    NANO_RPC_URL: 'http://127.0.0.1:9',
    NANO_SEED_FILE: seed,
    REGISTER_BITS: '4',
    HOME: home,
    AGENT_NETWORK_CACHE: cacheDir(process.env),
  })
  await network.waitForLine('The network is up')
  const children = z.array(z.object({ name: z.string(), pid: z.int() })).parse(readJson('children.json'))
  for (const { name, pid } of children) pids.set(name, pid)
})
afterAll(async () => {
  await network.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

const readJson = (name: string): unknown => JSON.parse(fs.readFileSync(path.join(dataDir, name), 'utf8'))
const servers = () =>
  z.object({ mongodbUrl: z.string(), redisUrl: z.string() }).parse(readJson('running.json'))
const environmentOf = (part: string): Map<string, string> =>
  new Map(
    fs
      .readFileSync(`/proc/${pids.get(part)}/environ`, 'utf8')
      .split('\0')
      .filter((line) => line !== '')
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )

describe('under npm start', () => {
  it.skipIf(!canStart)(
    'another user of the machine gets nowhere at MongoDB, Redis, the operator and every file (needs root and a readable checkout)',
    () => {
      const { mongodbUrl, redisUrl } = servers()
      const target = {
        dataDir,
        paths: fs
          .readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
          .map((name) => path.join(dataDir, name)),
        pids: [network.pid, ...pids.values()],
        mongoPort: Number(/:(\d+)\//.exec(mongodbUrl)?.[1]),
        redisPort: Number(new URL(redisUrl).port),
        operatorUrl: `http://127.0.0.1:${ports.operator}`,
      }
      expect(target.paths.length).toBeGreaterThan(20)
      const { status, stdout, stderr } = asNobody([INTRUDER, JSON.stringify(target)])
      expect([status, stderr]).toEqual([0, ''])
      expect(JSON.parse(stdout)).toEqual([])
    },
  )

  it('every file and every folder under DATA_DIR is for its owner alone', () => {
    const open = fs
      .readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
      .map((name) => path.join(dataDir, name))
      .filter((file) => {
        const stat = fs.lstatSync(file, { throwIfNoEntry: false })
        return stat !== undefined && (stat.mode & 0o077) !== 0
      })
    expect(open).toEqual([])
  })

  it('each process has the secrets of its own part in its environment, and a login of its own', () => {
    const api = environmentOf('api')
    const workers = environmentOf('workers')
    const foreign = VARIABLE_NAMES.filter(
      (name) => SECRETS[name] !== undefined && !SECRETS[name].includes('api'),
    )
    expect(foreign).toContain('OPERATOR_TOKEN')
    expect([...api.keys()].filter((name) => foreign.some((one) => one === name))).toEqual([])
    expect(workers.has('CHALLENGE_SECRET')).toBe(false)
    for (const name of ['MONGODB_URL', 'REDIS_URL']) {
      expect(new URL(api.get(name) ?? '').username).toBe('api')
      expect(new URL(workers.get(name) ?? '').username).toBe('workers')
    }
    for (const server of ['mongod', 'redis']) {
      const command = fs.readFileSync(`/proc/${pids.get(server)}/cmdline`, 'utf8')
      expect(command).not.toMatch(/[0-9a-f]{64}/)
      expect([...environmentOf(server).values()].filter((value) => /[0-9a-f]{64}/.test(value))).toEqual([])
    }
  })
})
