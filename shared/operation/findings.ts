import type { Context } from '../context.ts'
import { withDeadline } from '../foundation/deadline.ts'
import { StartError } from '../foundation/process.ts'
import { coinFindings } from './coin-findings.ts'
import { nameOf, OPERATOR, severityOf, type Finding, type FindingReader } from './finding.ts'
import { hostFindings } from './host-findings.ts'
import { keyFindings } from './key-findings.ts'
import { ledgerFindings } from './ledger-findings.ts'
import { processFindings } from './process-findings.ts'
import { queueFindings } from './queue-findings.ts'
import { serviceFindings } from './service-findings.ts'

const READERS: readonly FindingReader[] = [
  hostFindings,
  processFindings,
  queueFindings,
  ledgerFindings,
  coinFindings,
  keyFindings,
  serviceFindings,
]

/**
 * All that isn't fine, the worst first. It changes nothing, and takes no longer than `limitMs` however the
 * servers are.
 */
export async function readFindings(ctx: Context, limitMs: number): Promise<Finding[]> {
  const endsAt = performance.now() + limitMs
  const inTime = <T>(work: Promise<T>, what: string): Promise<T> =>
    withDeadline(
      work,
      Math.max(1, endsAt - performance.now()),
      () => new Error(`${what} does not answer within ${(limitMs / 1_000).toFixed(1)} s`),
    )
  const servers = {
    mongodb: inTime(
      ctx.database
        .whenReady()
        .then(() => ctx.database.connection.getClient().db('admin').command({ ping: 1 })),
      'MongoDB',
    ),
    redis: inTime(
      ctx.queues.whenReady().then(() => ctx.queues.get('sweep').getMeta()),
      'Redis',
    ),
  }
  const away: Finding[] = []
  const found = await Promise.all([
    ...Object.entries(servers).map(async ([server, answer]) => {
      await answer.catch((error: unknown) => away.push(serverFinding(server as 'mongodb' | 'redis', error)))
      return []
    }),
    ...READERS.map(async ({ name, needs, read }): Promise<Finding[]> => {
      const isUp =
        needs === 'nothing' ||
        (await servers[needs].then(
          () => true,
          () => false, // said of the server itself
        ))
      if (!isUp) return []
      return inTime(read(ctx), `The part "${name}"`).catch((error: unknown) => [
        {
          kind: 'part_unreadable' as const,
          about: name,
          what: `The part "${name}" cannot be read, so nothing is known of it`,
          why: error instanceof Error ? error.message : String(error),
          command: `${OPERATOR} status --wait 30`,
        },
      ])
    }),
    inTime(
      servers.mongodb.then(() => ctx.watch.readSince()),
      'MongoDB',
    ).catch(() => new Map<string, number>()),
  ])
  const since = found.at(-1) as ReadonlyMap<string, number>
  return [...away, ...(found.slice(0, -1) as Finding[][]).flat()]
    .map((finding) => ({ ...finding, since: finding.since ?? since.get(nameOf(finding)) }))
    .toSorted((a, b) => Number(severityOf(a) === 'look') - Number(severityOf(b) === 'look'))
}

function serverFinding(server: 'mongodb' | 'redis', error: unknown): Finding {
  const why = error instanceof Error ? error.message : String(error)
  // MongoDB answers, and this program can't work on what it holds.
  if (error instanceof StartError)
    return {
      kind: 'wrong_program',
      what: 'This program and the database do not belong together',
      why,
      command: 'run the command of the program that the network runs',
    }
  return server === 'mongodb'
    ? {
        kind: 'mongodb_away',
        what: 'MongoDB is away: nothing can be written, every route that needs it answers 503',
        why,
        command: 'start it, or look at its log (mongod.log in DATA_DIR/logs, or that of your own server)',
      }
    : {
        kind: 'redis_away',
        what: 'Redis is away: no job is done until it is back; nothing is lost',
        why,
        command: 'start it, or look at its log (redis.log in DATA_DIR/logs, or that of your own server)',
      }
}
