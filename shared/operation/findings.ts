import type { Context } from '../context.ts'
import { withDeadline } from '../foundation/deadline.ts'
import { messageOf } from '../foundation/errors.ts'
import { StartError } from '../foundation/process.ts'
import { coinFindings } from './coin-findings.ts'
import { keyOf, OPERATOR, severityOf, type Finding, type FindingReader } from './finding.ts'
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
 * Everything that isn't fine, the worst first. Changes nothing, and takes at most `limitMs` even if a server
 * is away.
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
    mongodb: inTime(pingMongo(ctx), 'MongoDB'),
    redis: inTime(pingRedis(ctx), 'Redis'),
  }
  const findServer = (server: 'mongodb' | 'redis'): Promise<Finding[]> =>
    servers[server].then(
      () => [],
      (error: unknown) => [describeOutage(server, error)],
    )
  const askReader = async ({ name, needs, read }: FindingReader): Promise<Finding[]> => {
    if (needs !== 'nothing' && (await findServer(needs)).length > 0) return []
    try {
      return (await inTime(read(ctx), `The part "${name}"`)).filter((finding) => finding !== undefined)
    } catch (error) {
      return [
        {
          kind: 'part_unreadable',
          about: name,
          what: `The part "${name}" cannot be read, so nothing is known of it`,
          why: messageOf(error),
          command: `${OPERATOR} status --wait 30`,
        },
      ]
    }
  }
  const readSince = servers.mongodb.then(() => ctx.watch.readSince())
  const [found, since] = await Promise.all([
    Promise.all([findServer('mongodb'), findServer('redis'), ...READERS.map(askReader)]),
    inTime(readSince, 'MongoDB').catch(() => new Map<string, number>()),
  ])
  return found
    .flat()
    .map((finding) => ({ ...finding, since: finding.since ?? since.get(keyOf(finding)) }))
    .toSorted((a, b) => Number(severityOf(a) === 'look') - Number(severityOf(b) === 'look'))
}

async function pingMongo({ database }: Context): Promise<void> {
  await database.whenReady()
  await database.connection.getClient().db('admin').command({ ping: 1 })
}

async function pingRedis({ queues }: Context): Promise<void> {
  await queues.whenReady()
  await queues.get('sweep').getMeta()
}

function describeOutage(server: 'mongodb' | 'redis', error: unknown): Finding {
  const why = messageOf(error)
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
