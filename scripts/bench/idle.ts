import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../embedded/ports.ts'
import { startServers } from '../embedded/temporary.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'
import { compareWith, type Figure } from './figure.ts'

/** Waited after the start, which does more work: indexes, checkpoints, compiling. */
const SETTLE_MS = 60 * SECOND_MS
const MEASURE_MS = 180 * SECOND_MS
/** A tick in /proc. */
const TICK_MS = 10
const MIB = 1_024

/** What an idle network costs, compared with MongoDB and Redis alone, both measured at the same time. */
export async function benchIdle(): Promise<Figure[]> {
  const bare = await startServers(() => undefined)
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-idle-'))
  const [port, operatorPort] = [await findFreePort(), await findFreePort()]
  const env = { ...process.env, DATA_DIR: dataDir, PORT: String(port), OPERATOR_PORT: String(operatorPort) }
  const network = spawn(process.execPath, ['scripts/start.ts'], { env, stdio: 'ignore' })
  const gone = new Promise<void>((resolve) => network.once('exit', () => resolve()))
  const nodes = Array.from({ length: 3 }, () =>
    spawn(process.execPath, ['--eval', 'setInterval(() => {}, 1_000_000)'], { stdio: 'ignore' }),
  )
  try {
    await sleep(SETTLE_MS)
    const bareIds = [bare.mongod.child.pid() ?? 0, bare.redis.child.pid() ?? 0]
    const before = { network: readTree(network.pid ?? 0), bare: bareIds.map(readProcess) }
    await sleep(MEASURE_MS)
    const after = { network: readTree(network.pid ?? 0), bare: bareIds.map(readProcess) }
    const all = after.network
    const ours = all.filter(({ isServer }) => !isServer)
    const percent = (now: readonly Process[], then: readonly Process[]) =>
      (100 * TICK_MS * (sum(now, 'ticks') - sum(then, 'ticks'))) / MEASURE_MS
    const bareNodes = nodes.map(({ pid = 0 }) => readProcess(pid))
    const oursBefore = before.network.filter(({ isServer }) => !isServer)
    return [
      compareWith(
        { name: 'a mongod and a redis-server alone', value: percent(after.bare, before.bare) },
        {
          name: 'idle: npm start, of a core',
          value: percent(all, before.network),
          unit: '%',
          better: 'lower',
          goal: 1.5,
        },
      ),
      compareWith(
        { name: '2 % of a core', value: 2 },
        {
          name: 'idle: our own processes, of a core',
          value: percent(ours, oursBefore),
          unit: '%',
          better: 'lower',
          goal: 1,
        },
      ),
      compareWith(
        { name: 'three bare node processes', value: sum(bareNodes, 'kib') / MIB },
        {
          name: 'idle: memory of our own processes',
          value: sum(ours, 'kib') / MIB,
          unit: 'MiB',
          better: 'lower',
          goal: 2,
        },
      ),
    ]
  } finally {
    for (const node of nodes) node.kill()
    network.kill('SIGTERM')
    await gone
    await bare.stop()
    fs.rmSync(dataDir, { recursive: true, force: true })
  }
}

interface Process {
  isServer: boolean
  ticks: number
  kib: number
}

const sum = (processes: readonly Process[], field: 'ticks' | 'kib'): number =>
  processes.reduce((total, one) => total + one[field], 0)

/** A process and its descendants. */
function readTree(root: number): Process[] {
  const ids = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const parents = new Map(ids.flatMap((id) => readParent(id)))
  const isBelow = (id: number): boolean => id === root || (parents.has(id) && isBelow(parents.get(id) ?? 0))
  return [...parents.keys()].filter(isBelow).map(readProcess)
}

const readStat = (id: string | number): string[] =>
  fs
    .readFileSync(`/proc/${id}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')

function readParent(id: string): [number, number][] {
  try {
    return [[Number(id), Number(readStat(id)[1])]]
  } catch {
    return []
  }
}

function readProcess(id: number): Process {
  const stat = readStat(id)
  const command = fs.readFileSync(`/proc/${id}/cmdline`, 'utf8').split('\0', 1)[0] ?? ''
  const kib = /^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${id}/status`, 'utf8'))?.[1]
  return {
    isServer: /mongod|redis|valkey/.test(path.basename(command)),
    ticks: Number(stat[11]) + Number(stat[12]),
    kib: Number(kib ?? 0),
  }
}
