import fs from 'node:fs'
import path from 'node:path'
import { ERRORS, statusOf, type ErrorCode } from '../../../shared/platform/errors.ts'
import { QUEUE_NAMES, type Queues } from '../../../shared/platform/queues.ts'
import { isOutageText } from './outage-text.ts'
import { ask, type World } from '../world/agent.ts'
import { askAtRest } from '../world/at-rest.ts'
import { readAccounts } from './passes.ts'
import { collectFindings, type Finding } from './records.ts'
import type { Answered } from '../world/client.ts'
import type { Call, FaultRecord } from '../world/history.ts'
import type { Part, Stack } from '../testbed/testbed.ts'
import type { Stored } from './stored.ts'
import type { LedgerEntry } from '../../../shared/crypto/receipt.ts'

/** Within this time every request is answered but those of PATIENT_LIMIT_MS. */
const ANSWER_LIMIT_MS = 5_000
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
 * @param slowdownOf how many times as slow as an idle machine this one was during a call
 */
export function checkAnswers(
  calls: readonly Call[],
  faults: readonly FaultRecord[],
  isOverload = false,
  slowdownOf: (call: Call) => number = () => 1,
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
    if (!isOverload && call.tookMs > limitMs && call.tookMs > limitMs * slowdownOf(call))
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
type LoggedPart = Pick<Part, 'name' | 'errors'>

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
export function checkLogs(
  stack: { readonly apis: readonly LoggedPart[]; readonly workers: readonly LoggedPart[] },
  faults: readonly FaultRecord[],
): Finding[] {
  const expected = OF_COINS.filter((one) => faults.some(({ kind }) => kind === one.kind))
  const isOfCoin = (line: string): boolean => expected.some(({ text }) => line.includes(text))
  return [...stack.apis, ...stack.workers].flatMap(({ name, errors }) => {
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

/** Logged by a mongod that has lost a document, when it replicates an update of it. */
const LOST_DOCUMENT = 'update needed to be converted to upsert'

/** Finds members of the MongoDB set that lost documents; records missing then are not the service's fault. */
export function checkMembers({ folder, mongo }: Stack): Finding[] {
  return mongo.members.flatMap(({ child: { name } }) => {
    const lines = fs.readFileSync(path.join(folder, `${name}.log`), 'utf8').split('\n')
    const lost = lines.filter((line) => line.includes(LOST_DOCUMENT))
    return lost.slice(0, 1).map((line) => ({
      what: `${name} lost documents, ${lost.length} in all: ${line.slice(0, 600)}`,
      words: [],
    }))
  })
}

/** Finds failed jobs, except those that failed by an outage, whose work the sweep does again. */
export async function checkQueues(queues: Queues): Promise<Finding[]> {
  await queues.whenReady()
  const { findings, addFinding } = collectFindings()
  for (const name of QUEUE_NAMES) {
    const queue = queues.get(name)
    for (const job of await queue.getFailed(0, 1_000))
      if (!isOutageText(`${job.failedReason} ${(job.stacktrace ?? []).join(' ')}`))
        addFinding(`a job of ${name} was given up: ${job.failedReason}`)
  }
  return findings
}

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

/**
 * Checks that one token of each agent works, that `/me` agrees with the ledger, and that its mailbox has all
 * its messages. An agent's `token` is the one that works from then on.
 */
export async function checkAgents(
  world: World,
  stored: Stored,
  ledger: readonly LedgerEntry[],
): Promise<Finding[]> {
  const { accounts } = readAccounts(ledger)
  const { findings, addFinding } = collectFindings()
  for (const agent of world.agents) {
    if (agent.id === undefined) continue
    const { id } = agent
    const words = [id, agent.name]
    const isBanned = stored.agents.find(({ _id }) => _id === id)?.banned_at !== undefined
    // After a rotation whose answer was lost, one of two tokens must work. Both are tried here, without
    // ask()'s switch to the other one.
    const tokens = agent.otherToken === undefined ? [agent.token] : [agent.token, agent.otherToken]
    const answers: Answered[] = []
    for (const token of tokens)
      answers.push(
        await askAtRest(() =>
          ask(world, { ...agent, token, otherToken: undefined }, 'last-me', 'GET', '/me'),
        ),
      )
    const good = answers.filter(({ status, error }) => status === 200 || (isBanned && error === 'banned'))
    if (good.length !== 1) {
      const said = answers.map(({ status, error }) => `${status} ${error ?? ''}`.trim()).join(' and ')
      addFinding(
        `${good.length} of ${answers.length} possible tokens of ${id} work, and one should: ${said}`,
        ...words,
      )
      continue
    }
    if (isBanned) continue
    const me = good[0]?.json as {
      pass_until: string | null
      referrals: { registered: number; paying: number }
    }
    const account = accounts.get(id)
    if ((me.pass_until === null ? 0 : Date.parse(me.pass_until)) !== (account?.untilMs ?? 0))
      addFinding(`/me of ${id} says ${me.pass_until}, and the ledger ${account?.untilMs}`, ...words)
    if (me.referrals.paying !== account?.paying || me.referrals.registered !== account.registered)
      addFinding(
        `/me of ${id} says ${JSON.stringify(me.referrals)}, and the ledger ${account?.registered} registered and ${account?.paying} paying`,
        ...words,
      )
    agent.token = tokens[answers.indexOf(good[0] as Answered)] ?? ''
    agent.otherToken = undefined
    if (account?.untilMs === undefined) continue
    findings.push(...(await checkMailbox(world, agent, stored)))
  }
  return findings
}

/** Reads an agent's whole mailbox, and checks that it holds what is stored for the agent and nothing else. */
async function checkMailbox(
  world: World,
  agent: World['agents'][number],
  stored: Stored,
): Promise<Finding[]> {
  const { findings, addFinding } = collectFindings()
  const expected = new Map(
    stored.messages.filter(({ to }) => to === agent.id).map(({ _id, box }) => [_id, box]),
  )
  const given = new Map<string, string>()
  for (let after = '0'; ;) {
    const { status, json } = await askAtRest(() =>
      ask(world, agent, 'last-read-dm', 'GET', `/dm?after=${after}`),
    )
    if (status !== 200)
      return [{ what: `the mailbox of ${agent.id} cannot be read: ${status}`, words: [agent.name] }]
    const messages = json['messages'] as { id: string; box: string }[]
    for (const { id, box } of messages) given.set(id, box)
    const last = messages.at(-1)?.id
    if (json['more'] !== true || last === undefined) break
    after = last
  }
  for (const [id, box] of expected)
    if (given.get(id) !== box)
      addFinding(`message ${id} to ${agent.id} is stored and not handed out as it was sent`, id)
  for (const id of [...given.keys(), ...agent.received.keys()])
    if (!expected.has(id)) addFinding(`message ${id} was handed to ${agent.id} and is not stored`, id)
  return findings
}
