import { setTimeout as sleep } from 'node:timers/promises'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import type { Context } from '../../../shared/context.ts'
import { SEQUENCE_EVERY_MS } from '../../../shared/platform/limits.ts'
import type { QueueName } from '../../../shared/platform/queue-table.ts'
import { MINUTE_MS, SECOND_MS } from '../../../shared/platform/time.ts'
import { startDay, type DayWorld, type Kind } from './day.ts'
import { compareWith, type Figure } from './figure.ts'
import { withContext } from './market.ts'
import { readUsage } from './proc.ts'

/** Requests of each kind, and how many are under way at once. */
const REQUESTS = 2_500
const AT_ONCE = 24
/** How long the network rests before its use at rest is measured, and how long that takes. */
const SETTLE_MS = 3 * SECOND_MS
const REST_MS = 8 * SECOND_MS

/** The kinds whose requests have no steps that wait. The first is what the others are compared with. */
const KINDS = [
  ...(['me', 'feed', 'card', 'events', 'messages read', 'directory', 'post', 'message', 'work'] as const),
  ...(['verdict', 'claim', 'registration'] as const),
] satisfies readonly Kind[]

/** Jobs of each queue. */
const JOBS_EACH = 100
/**
 * The queues of a network with Nano whose jobs may be added by anybody, with the payload of one that finds nothing to do:
 * what each costs again and again. Batches of work are in the cost of a request, rings in bench `doorbell`.
 */
const QUEUES_ASKED = {
  sequence: {},
  'make-seal': {},
  'sign-seals': {},
  cosign: {},
  'check-chain': {},
  sweep: {},
  'refresh-rates': {},
  'order-deadlines': { due_at: 0 },
  'watch-nano': {},
  'check-nano': {},
  'fill-nano': {},
  'sweep-nano': {},
  'send-nano': {},
  'reconcile-nano': {},
} satisfies Partial<Record<QueueName, object>>

/** Processor time in ms. */
type Used = Record<'API' | 'workers' | 'MongoDB' | 'Redis', number>
const PARTS = ['API', 'workers', 'MongoDB', 'Redis'] as const

/**
 * Measures what each kind of request of bench `day` costs of the processor in the API, in the workers until all
 * that follows is done, in MongoDB and in Redis, and how many commands MongoDB gets for it; and the same of a job of
 * each queue that finds nothing to do. What the network uses at rest is taken off.
 */
export async function benchCost(): Promise<Figure[]> {
  const world = await startDay()
  try {
    return await measureKinds(world)
  } finally {
    await world.stop()
  }
}

async function measureKinds({ stack, connect }: DayWorld): Promise<Figure[]> {
  const pids = {
    API: stack.api.pid,
    workers: stack.workers[0]?.pid ?? 0,
    MongoDB: stack.servers.mongod.child.pid() ?? 0,
    Redis: stack.servers.redis.child.pid() ?? 0,
  }
  const forEach = (value: (part: (typeof PARTS)[number]) => number): Used =>
    Object.fromEntries(PARTS.map((part) => [part, value(part)])) as Used
  const report = (name: string, used: Used, unit: string, rest = ''): void =>
    void process.stderr.write(
      `cost: ${name}: ${PARTS.map((part) => `${part} ${used[part].toFixed(3)}`).join(', ')} ${unit}${rest}\n`,
    )

  return withContext(stack.mongodbUrl, stack.servers, async (ctx) => {
    const read = async () => ({
      atMs: performance.now(),
      used: forEach((part) => readUsage(pids[part]).cpuMs),
      commands: await countCommands(ctx),
    })
    type Reading = Awaited<ReturnType<typeof read>>
    const readSince = async (before: Reading) => {
      const { atMs, used, commands } = await read()
      return {
        spanMs: atMs - before.atMs,
        used: forEach((part) => used[part] - before.used[part]),
        commands: commands - before.commands,
      }
    }
    const whenDone = () =>
      waitFor(
        'all that follows from the requests',
        async () =>
          (await ctx.entries.hasPending()) ||
          (await ctx.work.listWaiting(Number.MAX_SAFE_INTEGER, 1)).length > 0
            ? undefined
            : true,
        { limitMs: 5 * MINUTE_MS, everyMs: 100 },
      )
    await whenDone()
    await sleep(SETTLE_MS)
    const restFrom = await read()
    await sleep(REST_MS)
    const rest = await readSince(restFrom)
    report(
      'at rest',
      forEach((part) => rest.used[part] / rest.spanMs),
      'cores',
      `; ${((rest.commands * SECOND_MS) / rest.spanMs).toFixed(1)} commands a second`,
    )
    /** What was used since `before` for each of `count`, without what is used at rest. */
    const readEach = async (before: Reading, count: number) => {
      const { spanMs, used, commands } = await readSince(before)
      const withoutRest = (value: number, atRest: number): number =>
        Math.max(0, (value - (atRest / rest.spanMs) * spanMs) / count)
      return {
        each: forEach((part) => withoutRest(used[part], rest.used[part])),
        commandsEach: withoutRest(commands, rest.commands).toFixed(2),
      }
    }
    const sums: { what: string; ms: number }[] = []
    const note = (what: string, used: Used, tail: string): void => {
      report(what, used, 'ms', tail)
      sums.push({ what, ms: PARTS.reduce((sum, part) => sum + used[part], 0) })
    }
    for (const kind of KINDS) {
      const { loop, actions } = connect()
      const before = await read()
      let [begun, bytes] = [0, 0]
      const askInTurn = async (): Promise<void> => {
        while (begun++ < REQUESTS) {
          const answer = await actions[kind](performance.now())
          if (typeof answer === 'string') bytes += Buffer.byteLength(answer)
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, askInTurn))
      const askedMs = performance.now() - before.atMs
      await loop.close()
      // What was written last is numbered with the sequencer's next turn.
      await sleep(2 * SEQUENCE_EVERY_MS)
      await whenDone()
      const { each, commandsEach } = await readEach(before, REQUESTS)
      const { failed = 0, firstFailure = '' } = loop.tallies.get(kind) ?? {}
      const rate = Math.round((REQUESTS * SECOND_MS) / askedMs)
      const failures = failed === 0 ? '' : `, ${failed} failed: ${firstFailure.slice(0, 200)}`
      const rests = `; ${commandsEach} commands; ${rate}/s, ${Math.round(bytes / REQUESTS)} bytes each${failures}`
      note(kind, each, rests)
    }
    for (const [name, payload] of Object.entries(QUEUES_ASKED) as [QueueName, object][]) {
      const queue = ctx.queues.get(name)
      const before = await read()
      const add = () => ctx.queues.enqueue(name, payload)
      await Promise.all(Array.from({ length: JOBS_EACH }, add))
      await waitFor(
        `the jobs of ${name}`,
        async () => {
          const counts = Object.values(await queue.getJobCounts('waiting', 'active', 'delayed'))
          return counts.every((count) => count === 0) ? true : undefined
        },
        { limitMs: 5 * MINUTE_MS, everyMs: 100 },
      )
      const { each, commandsEach } = await readEach(before, JOBS_EACH)
      const failed = await queue.getFailedCount()
      note(`job of ${name}`, each, `; ${commandsEach} commands${failed === 0 ? '' : `; ${failed} failed`}`)
    }
    const reference = { name: 'GET /me', value: sums[0]?.ms ?? Number.NaN }
    return sums.map(({ what, ms }) =>
      compareWith(reference, {
        name: `cost: ${what}, in all processes`,
        value: ms,
        unit: 'ms',
        better: 'lower',
      }),
    )
  })
}

/** The commands that MongoDB has had from its clients. */
async function countCommands({ database }: Pick<Context, 'database'>): Promise<number> {
  const admin = database.connection.getClient().db('admin')
  const { network } = (await admin.command({ serverStatus: 1 })) as {
    network: { numRequests: number | bigint }
  }
  return Number(network.numRequests)
}
