import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../../../shared/context.ts'
import type { DoorbellRecord } from '../../../shared/doorbells/doorbell.ts'
import { EVENT_KINDS, makeMark } from '../../../shared/events/mark.ts'
import { newId } from '../../../shared/platform/ids.ts'
import { MINUTE_MS, SECOND_MS, unixSeconds } from '../../../shared/platform/time.ts'
import { BELL_CERTIFICATE } from '../../support/doorbell-receivers.ts'
import { startProcess, startWorkersProcess } from '../../support/processes.ts'
import { percentile, type Figure } from './figure.ts'
import { withContext } from './market.ts'
import { startServers } from '../../../scripts/embedded/temporary.ts'

/** Of the database and the queues. */
const NAME = 'bench-bells'
const FULL_LOAD: Load = { perSecond: 100, alone: 3_000, doorbells: 10_000 }
const MIB = 2 ** 20

interface Load {
  perSecond: number
  /** Doorbells that answer at once, and then all of them, of which half are dead or slow. */
  alone: number
  doorbells: number
}

/**
 * Measures the time from an event's commit until its agent's receiver has the ring: first with receivers that answer
 * at once, then among doorbells of which half are dead or slow. One event for each doorbell, at a steady rate; and
 * the processor time of a ring, which hardly depends on what else the machine does.
 */
export async function benchDoorbell({ perSecond, alone: count, doorbells } = FULL_LOAD): Promise<Figure[]> {
  const servers = await startServers(() => undefined)
  const mongodbUrl = new URL(servers.mongod.url)
  mongodbUrl.pathname = `/${NAME}`
  const bells = startProcess('test/harness/bench/bell-child.ts', {})
  const started = [bells]
  try {
    const { ports } = JSON.parse(await bells.waitForLine('ports')) as { ports: [number, number, number] }
    const [good, slow, silent] = ports
    const certificate = path.join(servers.folder, 'bell.pem')
    fs.writeFileSync(certificate, BELL_CERTIFICATE.cert)
    // Nobody listens at the last one.
    const urls = { good, slow, silent, dead: 9 }
    const env = {
      QUEUE_PREFIX: NAME,
      MONGODB_URL: mongodbUrl.href,
      REDIS_URL: servers.redis.url,
      DOORBELLS: '1',
      DOORBELL_TEST_HOSTS: Object.entries(urls)
        .map(([name, port]) => `${name}.bell.example:${port}=127.0.0.1`)
        .join(','),
      NODE_EXTRA_CA_CERTS: certificate,
      DATA_DIR: servers.folder,
      LOG_LEVEL: 'warn',
    }
    const workersEnv = { ...env, LOG_LEVEL: 'info' }
    const finding = await startWorkersProcess(workersEnv, ['--queues', 'sweep,find-rings'])
    started.push(finding)
    const ringing = await startWorkersProcess(workersEnv, ['--queues', 'doorbells,slow-doorbells'])
    started.push(ringing)
    return await withContext(mongodbUrl.href, servers, async (ctx) => {
      const urlOf = (name: keyof typeof urls) => `https://${name}.bell.example:${urls[name]}/`
      const first = await store(
        ctx,
        Array.from({ length: count }, () => urlOf('good')),
      )
      const readAll = () => [ringing.pid, finding.pid].map(readCpuMs)
      const before = readAll()
      const alone = await ringAll(ctx, first, perSecond, bells, () => true)
      const [cpuMs = Number.NaN, findingMs = Number.NaN] = readAll().map(
        (ms, nth) => (ms - (before[nth] ?? Number.NaN)) / count,
      )
      const mixed = Array.from({ length: doorbells }, (_, nth) =>
        urlOf(
          nth % 2 === 0
            ? 'good'
            : ((['slow', 'silent', 'silent', 'dead'] as const)[(nth >> 1) % 4] ?? 'dead'),
        ),
      )
      const all = await store(ctx, mixed)
      const isGood = (nth: number) => nth % 2 === 0
      const beside = await ringAll(ctx, all, perSecond, bells, isGood)
      return [
        figure(
          `p50 from an event's commit to the receiver, ${perSecond} events/s, alone`,
          percentile(alone, 0.5),
          percentile(alone, 0.5),
        ),
        figure('p99 of the same', percentile(alone, 0.99), percentile(alone, 0.5)),
        figure(
          `p50 among ${doorbells} of which half are dead or slow`,
          percentile(beside, 0.5),
          percentile(alone, 0.5),
        ),
        figure('p99 of the same', percentile(beside, 0.99), percentile(alone, 0.99)),
        figure('the latest of the same', percentile(beside, 1), percentile(alone, 1)),
        costFigure('processor time of the process that rings, for each', cpuMs),
        costFigure('processor time of the process that finds them, for each', findingMs),
        {
          name: 'doorbell: memory of the process that rings, after that',
          value: readRssMib(ringing.pid),
          unit: 'MiB',
          reference: 'the limit of its container',
          reference_value: 1_024,
          ratio: readRssMib(ringing.pid) / 1_024,
          better: 'lower',
        },
      ]
    })
  } finally {
    for (const one of started.toReversed()) await one.stop()
    await servers.stop()
  }
}

const figure = (name: string, value: number, reference: number): Figure => ({
  name: `doorbell: ${name}`,
  value,
  unit: 'ms',
  reference: 'the same alone, or its p50',
  reference_value: reference,
  ratio: value / reference,
  better: 'lower',
})

const costFigure = (name: string, ms: number): Figure => ({
  name: `doorbell: ${name}`,
  value: ms,
  unit: 'ms',
  reference: 'what 100 a second may take of a core',
  reference_value: 10,
  ratio: ms / 10,
  better: 'lower',
})

/** Stores proven doorbells. @returns whose they are */
async function store(ctx: Context, urls: readonly string[]): Promise<string[]> {
  const records = urls.map((url): DoorbellRecord => ({
    ...{ _id: newId('agent'), rev: 'bench', url, kinds: [...EVENT_KINDS] },
    ...{ at: unixSeconds(ctx.now()), state: 'on', tries: 0 },
  }))
  await ctx.doorbells.models.doorbells.insertMany(records)
  return records.map(({ _id }) => _id)
}

/**
 * Stores an event for each agent, at a steady rate.
 *
 * @param isMeasured by the agent's place in the list
 * @returns for each that is measured, the time from the commit until its receiver had the ring, in ms
 */
async function ringAll(
  ctx: Context,
  agentIds: readonly string[],
  perSecond: number,
  bells: { logged(): string },
  isMeasured: (nth: number) => boolean,
): Promise<number[]> {
  const committed = new Map<string, number>()
  const startedAt = performance.now()
  const storing: Promise<void>[] = []
  for (const [nth, to] of agentIds.entries()) {
    await sleep(Math.max(0, startedAt + (nth * SECOND_MS) / perSecond - performance.now()))
    storing.push(storeEvent(ctx, to).then((atMs) => void (isMeasured(nth) && committed.set(to, atMs))))
  }
  await Promise.all(storing)
  const rung = new Map<string, number>()
  const deadline = performance.now() + MINUTE_MS
  let read = 0
  while (rung.size < committed.size && performance.now() < deadline) {
    await sleep(SECOND_MS)
    const lines = bells.logged().split('\n')
    for (const line of lines.slice(read)) {
      const { id, at_ms: atMs } = JSON.parse(line) as { id?: string; at_ms?: number }
      if (id !== undefined && atMs !== undefined && committed.has(id) && !rung.has(id)) rung.set(id, atMs)
    }
    read = lines.length
  }
  if (rung.size < committed.size) throw new Error(`${committed.size - rung.size} were not rung`)
  return [...rung].map(([id, atMs]) => atMs - (committed.get(id) ?? Number.NaN))
}

/** Stores a message with its event. @returns when a majority had it */
async function storeEvent(ctx: Context, to: string): Promise<number> {
  const _id = newId('message')
  const message = { _id, from: to, to, at: unixSeconds(ctx.now()), box: 'x', handed: 0 }
  await ctx.database.connection
    .collection<{ _id: string; tells: unknown[] }>('messages')
    .insertOne(
      { ...message, tells: [makeMark(to, 'message', _id)] },
      { writeConcern: { w: 'majority', j: true } },
    )
  return Date.now()
}

/** What a process has used of the processor. */
function readCpuMs(pid: number): number {
  const [, rest = ''] = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const [user, system] = rest.split(' ').slice(11, 13).map(Number)
  return ((user ?? 0) + (system ?? 0)) * 10
}

/** What a process holds in memory. */
const readRssMib = (pid: number): number =>
  (Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) * 1_024) /
  MIB
