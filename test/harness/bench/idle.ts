import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { MINUTE_MS } from '../../../shared/platform/time.ts'
import { startServers } from '../../../scripts/embedded/temporary.ts'
import { compareWith, type Figure } from './figure.ts'
import { makePlace, runNpmStart } from './npm-start.ts'
import { readTreeUsage, readUsage, type ProcessUsage } from './proc.ts'

const MINUTES = 10

/**
 * Measures what an idle network of `npm start` costs: processor time beside that of one MongoDB and one Redis
 * alone, and memory beside that of three bare node processes, all at the same time. It is a second start, on
 * the data of a first. Of `minutes` from the start the first half passes, since a start does more work
 * (indexes, checkpoints), and the processors are measured in the second; memory is that at the end. npm's own
 * process is left out.
 */
export async function benchIdle({
  minutes = MINUTES,
  report = (line: string) => void process.stderr.write(`${line}\n`),
}: { minutes?: number; report?: (line: string) => void } = {}): Promise<Figure[]> {
  const place = await makePlace()
  // Makes the data, and compiles what the next one finds compiled.
  const first = runNpmStart(place)
  try {
    await first.firstAnswerMs
  } finally {
    await first.stop()
  }
  const bare = await startServers(() => undefined)
  const network = runNpmStart(place)
  const nodes = Array.from({ length: 3 }, () =>
    spawn(process.execPath, ['--eval', 'setInterval(() => {}, 1_000_000)'], { stdio: 'ignore' }),
  )
  try {
    await network.firstAnswerMs
    const halfMs = (minutes / 2) * MINUTE_MS
    await sleep(halfMs)
    const bareIds = [bare.mongod.child.pid() ?? 0, bare.redis.child.pid() ?? 0]
    const readAll = () => {
      const usages = readTreeUsage(network.npmPid).filter(({ pid }) => pid !== network.npmPid)
      return {
        network: usages,
        ours: usages.filter(({ program }) => !/mongod|redis|valkey/.test(program)),
        bare: bareIds.map(readUsage),
      }
    }
    const before = readAll()
    await sleep(halfMs)
    const after = readAll()
    /** Processor time between the two readings, in percent of one core. */
    const percent = (of: keyof typeof before): number =>
      (100 * (sum(after[of], 'cpuMs') - sum(before[of], 'cpuMs'))) / halfMs
    for (const { pid, program, cpuMs, rssMib } of [...after.network, ...after.bare]) {
      const earlier = [...before.network, ...before.bare].find((usage) => usage.pid === pid)?.cpuMs ?? 0
      const part = ((100 * (cpuMs - earlier)) / halfMs).toFixed(2)
      report(`idle: ${program} (${pid}): ${part} % of a core, ${rssMib.toFixed(0)} MiB`)
    }
    const bareNodes = nodes.map(({ pid = 0 }) => readUsage(pid))
    const withoutMongod = after.network.filter(({ program }) => !program.includes('mongod'))
    return [
      compareWith(
        { name: 'one mongod and one redis-server alone', value: percent('bare') },
        {
          name: `idle: all processes of npm start during ${minutes / 2} min, of a core`,
          value: percent('network'),
          unit: '%',
          better: 'lower',
          goal: 1.5,
        },
      ),
      compareWith(
        { name: '0.6 % of a core', value: 0.6 },
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
          name: `idle: memory after ${minutes} min, without mongod`,
          value: sum(withoutMongod, 'rssMib'),
          unit: 'MiB',
          better: 'lower',
          goal: 2.4,
        },
      ),
      compareWith(
        { name: 'one bare node process', value: sum(bareNodes, 'rssMib') / bareNodes.length },
        {
          name: `idle: the supervisor's memory after ${minutes} min`,
          value: after.network.find(({ parentId }) => parentId === network.npmPid)?.rssMib ?? NaN,
          unit: 'MiB',
          better: 'lower',
          goal: 1.5,
        },
      ),
    ]
  } finally {
    for (const node of nodes) node.kill()
    await network.stop()
    await bare.stop()
    place.remove()
  }
}

const sum = (usages: readonly ProcessUsage[], field: 'cpuMs' | 'rssMib'): number =>
  usages.reduce((total, usage) => total + usage[field], 0)
