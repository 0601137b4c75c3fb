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
 * Asks every reader for what isn't fine, and changes nothing. Takes at most `limitMs` even if a server is
 * away: then the outage is a finding, and the readers that need the server aren't asked.
 *
 * @returns the findings, those to act on first
 */
export async function readFindings(ctx: Context, limitMs: number): Promise<Finding[]> {
  const endsAt = performance.now() + limitMs
  const inTime = <T>(work: Promise<T>, what: string): Promise<T> =>
    withDeadline(
      work,
      Math.max(1, endsAt - performance.now()),
      () => new Error(`${what} does not answer within ${(limitMs / 1_000).toFixed(1)} s`),
    )
  const pings = {
    mongodb: inTime(pingMongo(ctx), 'MongoDB'),
    redis: inTime(pingRedis(ctx), 'Redis'),
  }
  const findOutage = (server: 'mongodb' | 'redis'): Promise<Finding[]> =>
    pings[server].then(
      () => [],
      (error: unknown) => [describeOutage(server, error)],
    )
  const askReader = async ({ name, needs, read }: FindingReader): Promise<Finding[]> => {
    if (needs !== 'nothing' && (await findOutage(needs)).length > 0) return []
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
  const readSince = pings.mongodb.then(() => ctx.watch.readSince())
  const [findings, sinceByKey] = await Promise.all([
    Promise.all([findOutage('mongodb'), findOutage('redis'), ...READERS.map(askReader)]),
    inTime(readSince, 'MongoDB').catch(() => new Map<string, number>()),
  ])
  return findings
    .flat()
    .map((finding) => ({ ...finding, since: finding.since ?? sinceByKey.get(keyOf(finding)) }))
    .toSorted((a, b) => Number(severityOf(a) === 'look') - Number(severityOf(b) === 'look'))
}

/** @throws Error if MongoDB does not answer; StartError if its data is of another program */
async function pingMongo({ database }: Context): Promise<void> {
  await database.whenReady()
  await database.connection.getClient().db('admin').command({ ping: 1 })
}

/** @throws Error if Redis does not answer. Waits without a limit until it is first reached. */
async function pingRedis({ queues }: Context): Promise<void> {
  await queues.whenReady()
  await queues.get('sweep').getMeta()
}

/** Makes the finding for a server whose ping failed. */
function describeOutage(server: 'mongodb' | 'redis', error: unknown): Finding {
  const why = messageOf(error)
  // MongoDB answers, but this program can't work on what it holds.
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
