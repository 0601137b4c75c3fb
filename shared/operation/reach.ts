import os from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Context } from '../context.ts'
import { withDeadline } from '../platform/deadline.ts'
import { messageOf } from '../platform/errors.ts'
import { StartError } from '../platform/process.ts'
import { SECOND_MS } from '../platform/time.ts'
import { describeAway, listMemberErrors, tryPrimary } from '../platform/database-reason.ts'
import { tryRedis } from '../platform/redis-connection.ts'
import { OPERATOR, type Finding } from './finding.ts'

type ReachContext = Pick<Context, 'config' | 'database' | 'queues'>

/*
 * Whether MongoDB and Redis answer. One time-out proves nothing: on a busy host it is this process that is slow.
 * So a server that was silent is asked a second time and over a new connection, and only what refuses, has no
 * primary, or stays silent on a host that isn't busy while the API doesn't serve either, counts as away.
 */

export type Server = 'mongodb' | 'redis'

/** What came of asking a server. */
export type Reach =
  | { kind: 'answers' }
  /** It answered, but not the first time that it was asked. */
  | { kind: 'late' }
  /** This program can't work on what the database holds. */
  | { kind: 'wrong_program'; why: string }
  /** Nobody listens there, no member is primary, or the login is refused. */
  | { kind: 'refused'; why: string }
  /** No answer in time, twice, and no refusal either. */
  | { kind: 'silent'; why: string }

/** What else is known when a server was late or silent. */
export interface Evidence {
  /** Whether the API answered a request that needs MongoDB; undefined if nobody answered there. */
  apiServes: boolean | undefined
  host: HostLoad
}

/** How busy this host is. */
export interface HostLoad {
  /** Processes that ran or waited for a core, on average over the last minute. */
  load: number
  cores: number
  /** How much later than set a timer of this process went off. */
  timerLateMs: number
}

/** From so many processes for each core on, answers take seconds. */
const BUSY_LOAD = 3
const BUSY_LATE_MS = SECOND_MS / 2

/** Whether a host is so busy that its own processes answer late. */
export const isBusy = ({ load, cores, timerLateMs }: HostLoad): boolean =>
  load >= BUSY_LOAD * cores || timerLateMs >= BUSY_LATE_MS

/** What a server's silence or refusal means: pure. */
export function judgeReach(server: Server, reach: Reach, { apiServes, host }: Evidence): Finding[] {
  switch (reach.kind) {
    case 'answers':
      return []
    case 'wrong_program':
      return [
        {
          kind: 'wrong_program',
          what: 'This program and the database do not belong together',
          why: reach.why,
          command: 'run the command of the program that the network runs',
        },
      ]
    case 'refused':
      return [describeAwayServer(server, reach.why)]
    case 'late':
    case 'silent':
      if (reach.kind === 'silent' && server === 'mongodb' && apiServes === false)
        return [describeAwayServer(server, reach.why)]
      if (isBusy(host)) return [describeBusy(host)]
      if (reach.kind === 'late' || (server === 'mongodb' && apiServes === true))
        return [describeSlow(server, reach)]
      return [describeAwayServer(server, reach.why)]
  }
}

function describeAwayServer(server: Server, why: string): Finding {
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

function describeSlow(server: Server, reach: Reach & { kind: 'late' | 'silent' }): Finding {
  const name = server === 'mongodb' ? 'MongoDB' : 'Redis'
  return {
    kind: server === 'mongodb' ? 'mongodb_slow' : 'redis_slow',
    what:
      reach.kind === 'late'
        ? `${name} answered only when it was asked a second time`
        : `${name} does not answer this command, but the API serves`,
    why: reach.kind === 'late' ? undefined : reach.why,
    command: `${OPERATOR} status --wait 30   # if it stays so, look at the server and the network`,
  }
}

export function describeBusy({ load, cores, timerLateMs }: HostLoad): Finding {
  return {
    kind: 'host_busy',
    about: os.hostname(),
    what: `This host is busy, so answers come late here: load ${load.toFixed(1)} on ${cores} cores`,
    why: `a timer of this command went off ${Math.round(timerLateMs)} ms late; what was not answered in time may be fine`,
    command: 'top   # what takes the processors; or run this command on another host',
  }
}

/** Thrown if no answer came in time, in which case nothing is known. */
export class NoAnswer extends Error {
  override name = 'NoAnswer'
}

/** Waits for an answer. @throws NoAnswer after `limitMs` */
export const inTime = <T>(work: Promise<T>, limitMs: number, what: string): Promise<T> =>
  withDeadline(
    work,
    Math.max(1, limitMs),
    () => new NoAnswer(`${what} does not answer within ${(limitMs / SECOND_MS).toFixed(1)} s`),
  )

/**
 * Asks a server whether it answers; if it was silent, once more, and over a connection of its own, whose errors
 * say what a client that goes on trying does not.
 *
 * @param limitMs of each of the two times
 * @param onSilence is called before the second time
 */
export async function askServer(
  ctx: ReachContext,
  server: Server,
  limitMs: number,
  onSilence: () => void = () => undefined,
): Promise<Reach> {
  const { name, ping, connect } = SERVERS[server]
  const first = await tryTo(inTime(ping(ctx), limitMs, name))
  if (first.kind !== 'silent') return first
  onSilence()
  const [pinged, connected] = await Promise.all([
    tryTo(inTime(ping(ctx), limitMs, name)),
    tryTo(connect(ctx, limitMs)),
  ])
  if (pinged.kind === 'answers' || connected.kind === 'answers') return { kind: 'late' }
  return connected.kind === 'refused' ? connected : pinged
}

/** What an attempt to reach a server came to. */
async function tryTo(attempt: Promise<unknown>): Promise<Reach> {
  try {
    await attempt
    return { kind: 'answers' }
  } catch (error) {
    if (error instanceof StartError) return { kind: 'wrong_program', why: messageOf(error) }
    const why = describeAway(error) ?? messageOf(error)
    return { kind: isSilence(error) ? 'silent' : 'refused', why }
  }
}

/** The names of errors by which clients say that no answer came, and that nobody refused either. */
const SILENT_NAMES = new Set(['NoAnswer', 'MongoNetworkTimeoutError', 'MongoOperationTimeoutError'])

/** Whether an error says no more than that no answer came in time. */
function isSilence(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (SILENT_NAMES.has(error.name) || /\bETIMEDOUT\b|Command timed out/.test(error.message)) return true
  if (error.name !== 'MongoServerSelectionError') return false
  // Nobody has refused if no member was heard of, or each was silent.
  const members = listMemberErrors(error)
  return describeAway(error) === undefined || (members.length > 0 && members.every(isSilence))
}

const SERVERS = {
  mongodb: {
    name: 'MongoDB',
    /** @throws StartError if its data is of another program */
    async ping({ database }: ReachContext): Promise<void> {
      await database.whenReady()
      await database.connection.getClient().db('admin').command({ ping: 1 })
    },
    connect: ({ config }: ReachContext, limitMs: number): Promise<void> =>
      tryPrimary(config.mongodbUrl ?? '', limitMs),
  },
  redis: {
    name: 'Redis',
    /** Waits without a limit until it is first reached. */
    async ping({ queues }: ReachContext): Promise<void> {
      await queues.whenReady()
      await queues.get('sweep').getMeta()
    },
    connect: ({ config }: ReachContext, limitMs: number): Promise<void> =>
      tryRedis(config.redisUrl ?? '', limitMs),
  },
} as const

/** Asks the API for something that it has to read from MongoDB. @returns undefined if nobody answers there */
export async function askApi({ config }: ReachContext, limitMs: number): Promise<boolean | undefined> {
  try {
    const answer = await fetch(`${config.baseUrl}/api/v1/feed?limit=1`, {
      signal: AbortSignal.timeout(limitMs),
    })
    await answer.body?.cancel()
    return answer.ok
  } catch {
    return undefined // refused, untrusted or silent: it says nothing of MongoDB
  }
}

/** Begins to measure how busy this host is; the result says it at the moment of the call. */
export function watchHost(): () => HostLoad {
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()
  return () => {
    delay.disable()
    return {
      load: os.loadavg()[0] ?? 0,
      cores: os.availableParallelism(),
      timerLateMs: Math.max(0, delay.max / 1e6 - 20),
    }
  }
}
