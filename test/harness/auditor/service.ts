import fs from 'node:fs'
import path from 'node:path'
import { ERRORS, statusOf, type ErrorCode } from '../../../shared/platform/errors.ts'
import { QUEUE_NAMES } from '../../../shared/platform/queue-table.ts'
import { type Queues } from '../../../shared/platform/queues.ts'
import { isOutageText } from './outage-text.ts'
import { collectFindings, type Finding } from './finding.ts'
import type { Call, FaultRecord } from '../world/history.ts'
import type { Stopped, Testbed } from '../testbed/testbed.ts'

/** Within this time every request is answered but those of PATIENT_LIMIT_MS. */
export const ANSWER_LIMIT_MS = 5_000
/** For submitted work, which waits up to 5 s for the workers, and for waits for events. */
const PATIENT_LIMIT_MS = 8_000
/** Connections of a killed process may break a little before or after the recorded times. */
const KILL_MARGIN_MS = 1_500
/** Logged by the sealer and the signer if their clock was changed, or MongoDB's. */
const CLOCK_IS_OFF = "this machine's clock is "

/** Written by Node itself, whose timers take a time that has passed for 1 ms, in two lines. */
const TIMER_IN_THE_PAST = ['TimeoutNegativeWarning', 'Timeout duration was set to 1.']
/** Written by a process whose jobs under way did not end within the time that a stop has. */
const STOPPED_LATE = 'did not stop within'
/** Logged as errors when a coin's network does what an operator has to look at. */
const OF_COINS = [
  { kind: 'monero-reorganise', text: 'the chain took back a settled payment' },
  { kind: 'coin-lies-once', text: 'the Nano node lists a send that its blocks do not prove' },
]

/** Ends or replaces a process, so that its requests may be lost. */
const ENDS_A_PROCESS = ['kill-api', 'other-version']
/** Stops a process in order, and lasts until the next start. */
const STOPS_A_PROCESS = 'other-version'

/**
 * Finds requests answered late, with an unknown error, or not at all although their API process lived.
 *
 * @param isOverload the service is asked for more than it can do: then answers may be late
 * @param slowdowns how many times as slow as an idle machine this one was during a slow call, by its number
 */
export function checkAnswers(
  calls: readonly Call[],
  faults: readonly FaultRecord[],
  isOverload: boolean,
  slowdowns: ReadonlyMap<number, number>,
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const kills = faults.filter(({ kind }) => ENDS_A_PROCESS.includes(kind))
  for (const call of calls) {
    if (call.api === undefined) continue
    const endMs = call.atMs + call.tookMs
    const isHit = kills.some(
      ({ target, fromMs, toMs }) =>
        target === `api-${call.api}` &&
        fromMs - KILL_MARGIN_MS <= endMs &&
        call.atMs <= toMs + KILL_MARGIN_MS,
    )
    const what = `${call.method} ${call.path} at ${(call.atMs / 1_000).toFixed(1)} s`
    const words = [call.marker ?? `${call.who} api-${call.api} ${call.did}: ${call.method} ${call.path}`]
    if (call.lost !== undefined) {
      if (!isHit && !isOverload)
        addFinding(`${what} got no answer (${call.lost}), though api-${call.api} was not killed`, ...words)
      continue
    }
    const limitMs =
      call.path === '/work/submit' || call.path.includes('wait=') ? PATIENT_LIMIT_MS : ANSWER_LIMIT_MS
    if (!isOverload && call.tookMs > limitMs && call.tookMs > limitMs * (slowdowns.get(call.n) ?? 1))
      addFinding(`${what} was answered after ${(call.tookMs / 1_000).toFixed(1)} s`, ...words)
    if (call.status === undefined || call.status < 300) continue
    if (
      call.error === undefined ||
      !(call.error in ERRORS) ||
      statusOf(call.error as ErrorCode) !== call.status
    )
      addFinding(`${what} was answered ${call.status} ${call.error}, which is not in the table`, ...words)
    else if (call.error === 'internal') addFinding(`${what} was answered 500: a defect`, ...words)
  }
  return findings
}

/** A process of the service, and what it logged as errors. */
export interface SeenLog {
  name: string
  errors: readonly string[]
}

/** Whether a process was told to stop while another fault lasted, which may hold up its jobs. */
const wasStoppedInFault = (name: string, faults: readonly FaultRecord[]): boolean =>
  faults.some(
    (stop) =>
      stop.kind === STOPS_A_PROCESS &&
      stop.target === name &&
      faults.some((other) => other !== stop && other.fromMs <= stop.toMs && other.toMs >= stop.fromMs),
  )

/**
 * Finds errors in the processes' logs, except those caused by an outage of a server, by a clock that was
 * changed, or by a stop during another fault.
 */
export function checkLogs(logs: readonly SeenLog[], faults: readonly FaultRecord[]): Finding[] {
  const expected = OF_COINS.filter((one) => faults.some(({ kind }) => kind === one.kind))
  const isOfCoin = (line: string): boolean => expected.some(({ text }) => line.includes(text))
  return logs.flatMap(({ name, errors }) => {
    const hasJumped = faults.some(
      ({ kind, target }) =>
        kind === 'mongo-clock' || (kind === 'jump-clock' && target.startsWith(`${name} by `)),
    )
    const isOfClock = (line: string): boolean =>
      hasJumped && [CLOCK_IS_OFF, ...TIMER_IN_THE_PAST].some((text) => line.includes(text))
    const isOfStop = (line: string): boolean => line.includes(STOPPED_LATE) && wasStoppedInFault(name, faults)
    return errors
      .filter((line) => !isOutageText(line) && !isOfClock(line) && !isOfCoin(line) && !isOfStop(line))
      .map((line) => ({ what: `${name} logged: ${line.slice(0, 600)}`, words: [] }))
  })
}

/** A process in order ends within this time, unless it is told to while the machine is very busy. */
const STOP_IN_TIME_MS = 30_000

/** Finds processes that took too long to stop, or logged an error meanwhile. */
export const checkStops = (stops: readonly Stopped[]): Finding[] =>
  stops
    .flatMap(({ name, tookMs, errors }) => [
      ...(tookMs > STOP_IN_TIME_MS ? [`${name} took more than ${STOP_IN_TIME_MS / 1_000} s to stop`] : []),
      ...errors.filter((line) => !isOutageText(line)).map((line) => `${name} logged as it stopped: ${line}`),
    ])
    .map((what) => ({ what, words: [] }))

/** Logged by a mongod that has lost a document, when it replicates an update of it. */
const LOST_DOCUMENT = 'update needed to be converted to upsert'

/** Reads what the members of a set logged of documents that they lost. */
export const readLostDocuments = ({ folder, mongo }: Testbed): SeenLog[] =>
  mongo.members.map(({ child: { name } }) => ({
    name,
    errors: fs
      .readFileSync(path.join(folder, `${name}.log`), 'utf8')
      .split('\n')
      .filter((line) => line.includes(LOST_DOCUMENT)),
  }))

/** Finds members of the MongoDB set that lost documents; records missing then are not the service's fault. */
export const checkMembers = (members: readonly SeenLog[]): Finding[] =>
  members.flatMap(({ name, errors: [first, ...more] }) =>
    first === undefined
      ? []
      : [{ what: `${name} lost documents, ${more.length + 1} in all: ${first.slice(0, 600)}`, words: [] }],
  )

/** A job that was given up. */
export interface SeenJob {
  queue: string
  reason: string
  /** Where the error came from. */
  stack: string
}

/** Reads the jobs that were given up. */
export async function readGivenUp(queues: Queues): Promise<SeenJob[]> {
  await queues.whenReady()
  const jobs: SeenJob[] = []
  for (const name of QUEUE_NAMES)
    for (const { failedReason, stacktrace } of await queues.get(name).getFailed(0, 1_000))
      jobs.push({ queue: name, reason: failedReason, stack: (stacktrace ?? []).join(' ') })
  return jobs
}

/** Finds jobs that were given up, except those that failed by an outage, whose work the sweep does again. */
export const checkGivenUp = (jobs: readonly SeenJob[]): Finding[] =>
  jobs
    .filter(({ reason, stack }) => !isOutageText(`${reason} ${stack}`))
    .map(({ queue, reason }) => ({ what: `a job of ${queue} was given up: ${reason}`, words: [] }))

/**
 * Lists jobs that wait or run and were added before `beforeMs` (Date.now()), one line each. Later ones are
 * regular work that never ends.
 */
export async function listJobs(queues: Queues, beforeMs: number): Promise<string[]> {
  await queues.whenReady()
  const since = (at: number | undefined): string =>
    at === undefined ? 'never' : `${((Date.now() - at) / 1_000).toFixed(1)} s ago`
  const listed = await Promise.all(
    QUEUE_NAMES.map(async (name) =>
      (await queues.get(name).getJobs(['waiting', 'active', 'prioritized']))
        .filter((job) => job !== undefined && job.timestamp < beforeMs)
        .map(
          ({ id, timestamp, processedOn }) =>
            `job ${id} of ${name}, added ${since(timestamp)}, begun ${since(processedOn)}`,
        ),
    ),
  )
  return listed.flat()
}
