import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../embedded/ports.ts'
import { startServers } from '../embedded/temporary.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'
import { compareWith, type Figure } from './figure.ts'
import { readTreeUsage, readUsage, type ProcessUsage } from './proc.ts'

/** A start does more work than an idle network (indexes, checkpoints, compiling), so it is waited out. */
const SETTLE_MS = 60 * SECOND_MS
const MEASURE_MS = 180 * SECOND_MS

/**
 * Measures what an idle network of `npm start` costs: processor time beside that of MongoDB and Redis alone,
 * and memory beside that of bare node processes, all at the same time. Takes four minutes.
 */
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
    const readAll = () => {
      const usages = readTreeUsage(network.pid ?? 0)
      const ours = usages.filter(({ program }) => !/mongod|redis|valkey/.test(program))
      return { network: usages, ours, bare: bareIds.map(readUsage) }
    }
    const before = readAll()
    await sleep(MEASURE_MS)
    const after = readAll()
    /** Processor time between the two readings, in percent of one core. */
    const percent = (of: keyof typeof before): number =>
      (100 * (sum(after[of], 'cpuMs') - sum(before[of], 'cpuMs'))) / MEASURE_MS
    const bareNodes = nodes.map(({ pid = 0 }) => readUsage(pid))
    return [
      compareWith(
        { name: 'a mongod and a redis-server alone', value: percent('bare') },
        {
          name: 'idle: npm start, of a core',
          value: percent('network'),
          unit: '%',
          better: 'lower',
          goal: 1.5,
        },
      ),
      compareWith(
        { name: '2 % of a core', value: 2 },
        {
          name: 'idle: our own processes, of a core',
          value: percent('ours'),
          unit: '%',
          better: 'lower',
          goal: 1,
        },
      ),
      compareWith(
        { name: 'three bare node processes', value: sum(bareNodes, 'rssMib') },
        {
          name: 'idle: memory of our own processes',
          value: sum(after.ours, 'rssMib'),
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

const sum = (usages: readonly ProcessUsage[], field: 'cpuMs' | 'rssMib'): number =>
  usages.reduce((total, usage) => total + usage[field], 0)
