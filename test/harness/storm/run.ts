import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { measurePace, type Pace } from '../testbed/pace.ts'
import { PROBED_ENV } from '../bench/processes.ts'
import { TimeoutError } from '../../../scripts/embedded/wait.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { openQueues, type Queues } from '../../../shared/platform/queues.ts'
import { act, push } from '../world/actions.ts'
import type { LedgerEntry } from '../../../shared/crypto/receipt.ts'
import { idsByName, newAgent, register, registerWithPass, type Agent, type World } from '../world/agent.ts'
import { measureRecoveries, runCanary, type Recovery } from '../auditor/recoveries.ts'
import { checkBackups } from '../auditor/backups.ts'
import { checkChain, checkEntries, checkReceipts, readLedger } from '../auditor/ledger.ts'
import { checkPasses } from '../auditor/passes.ts'
import { checkCommitments, checkRecords, type Finding } from '../auditor/records.ts'
import {
  checkAgents,
  checkAnswers,
  checkLogs,
  checkMembers,
  checkQueues,
  listJobs,
} from '../auditor/service.ts'
import { checkMonero, describeMonero, listMoneroLeft } from '../auditor/monero.ts'
import { checkCoins, dumpMoney, listMoneyLeft, readMoney, takenBackIn } from '../auditor/money.ts'
import { createClient } from '../world/client.ts'
import { buyInMonero } from '../world/coin-actions.ts'
import { startCoins } from '../testbed/coins.ts'
import { checkEvents, followEvents } from '../world/events.ts'
import { inject, reasonNotCaused, type Injected } from '../faults/faults.ts'
import { startHistory, type Call, type History } from '../world/history.ts'
import { checkObjects } from '../auditor/objects.ts'
import { checkLevels, compareLevels, sampleLevels, type Level } from '../auditor/levels.ts'
import { startMonero } from '../testbed/monero.ts'
import { runBackups, runOperatorActs } from '../world/operator-acts.ts'
import { numbersFor, planFaults, usualKinds, type FaultKind, type PlannedFault } from '../faults/plan.ts'
import { startStack, type Stack } from '../testbed/testbed.ts'
import { evidenceIn, readBacklog, readStored, type Stored } from '../auditor/stored.ts'

export interface TortureOptions {
  seed: number
  seconds: number
  /** Agents at work at the same time. */
  agents?: number
  /** Members of the MongoDB set. */
  members?: number
  /** API processes, and workers of each kind. */
  each?: number
  kinds?: readonly FaultKind[]
  /** Twenty times the requests: the service may refuse, but keeps what it acknowledged. */
  isOverload?: boolean
  /** Agents, newcomers and the operator rest this many times as long between their requests; 1 if absent. */
  pace?: number
  /** Whether memory, handles, disk and queues are measured, and must not grow. */
  hasLevels?: boolean
  /** False: no coin is configured, and so no market. */
  coins?: boolean
  /** A real Monero chain beside the stand-in of Nano. */
  monero?: boolean
  /** Where the history is written if something is found. */
  historyFile?: string
  say: (line: string) => void
}

export interface TortureResult {
  seed: number
  seconds: number
  requests: number
  /** Requests by what came of them: a status, or `lost`. */
  outcomes: Record<string, number>
  recoveries: Recovery[]
  /** Kinds of faults that could not be caused, with the reason. */
  skipped: string[]
  findings: (Finding & { history: string })[]
  entries: number
  seals: number
  /** From the last fault's end until no work was left. */
  drainedMs: number
  /** What was measured with `hasLevels`. */
  levels: Level[]
  /** How much was done in Monero, in sentences. */
  monero: string[]
}

/**
 * If the work that is left does not become less for this long, it is stuck. There is no limit for all of it,
 * which depends on the machine.
 */
const STUCK_AFTER_MS = 120_000
/** Not more often, since each look reads all records of money and slows the workers. */
const LOOK_EVERY_MS = 2_000
const LOOKS_PER_LINE = 5
/** After a fault's end, writes are taken again within this time. */
const RECOVERY_LIMIT_MS = 20_000
/** How often the whole ledger is read until it is at rest; what the last reading lacks is a finding. */
const MAX_READINGS = 20
const READ_AGAIN_MS = 500
/** How many findings are reported with their history. */
const MAX_EXPLAINED = 20

/**
 * Starts a network, runs it under load and faults, waits until all work is done, and compares the answers
 * that agents got with what is stored. If something is found, writes the history and the processes' logs to
 * `historyFile` and files beside it.
 */
export async function runTorture(options: TortureOptions): Promise<TortureResult> {
  const { seed, seconds, agents: agentCount = 12, members = 3, each = 2, say } = options
  const history = startHistory()
  say(`starting ${members} mongod, redis and ${each} of each process`)
  const coins = options.coins === false ? undefined : await startCoins()
  const monero = options.monero === true ? await startMonero(history) : undefined
  const stack = await startStack({
    members,
    each,
    env: options.hasLevels === true ? PROBED_ENV : {},
    coins,
    monero,
    isFull: true,
    hasMongoClocks: options.kinds?.includes('mongo-clock') === true,
    report: (line) => (process.env['TORTURE_VERBOSE'] === '1' ? say(line) : undefined),
  }).catch(async (error: unknown) => {
    await Promise.all([coins?.close(), monero?.close()])
    throw error
  })
  const pace = measurePace()
  try {
    const world: World = {
      client: createClient(stack.urls, history),
      history,
      apis: each,
      agents: [],
      posts: [],
      claims: [],
      coins,
      monero,
      invoices: [],
      offers: [],
      orders: [],
      wrongAnswers: [],
    }
    const canary = newAgent('canary', numbersFor(seed, 'canary'))
    await registerWithPass(world, canary, undefined, 2)
    world.agents.push(canary)
    for (let index = 0; index < agentCount; index++) {
      const agent = newAgent(`a${index}`, numbersFor(seed, `agent/${index}`))
      await registerWithPass(world, agent, world.agents[index % 3]?.id, 1)
      world.agents.push(agent)
    }
    if (monero !== undefined) await buyInMonero(world, canary)
    say(`${agentCount} agents at work for ${seconds} s`)
    const findings: Finding[] = []
    const { skipped, levels } = await runWorkload(world, stack, canary, options)
    findings.push(...checkLevels(levels))
    say('the faults are over; waiting until everything is done')
    const healedMs = history.nowMs()
    findings.push(...(await waitUntilDone(stack, world, say)))
    const drainedMs = Math.round(history.nowMs() - healedMs)
    findings.push(...(await checkAll(world, stack, pace, options.isOverload === true)))
    // Not at the same time: the gates are in this process, and the checks compute.
    findings.push(...(await checkBackups(world, stack)))
    const done = monero === undefined ? [] : await describeMonero(world, await readMoney(stack.mongo.url))
    const recoveries = measureRecoveries(history.calls, history.faults, 'canary')
    for (const { fault, afterMs } of recoveries)
      if (afterMs > RECOVERY_LIMIT_MS && options.isOverload !== true)
        findings.push({
          what: `writes were taken again ${(afterMs / 1_000).toFixed(1)} s after the end of ${fault.kind} at ${(fault.fromMs / 1_000).toFixed(1)} s`,
          words: [],
        })
    findings.push(...(await stack.stopParts()).map((what) => ({ what, words: [] })))
    if (findings.length > 0 && options.historyFile !== undefined) {
      history.write(options.historyFile)
      fs.writeFileSync(`${options.historyFile}.money`, await dumpMoney(stack.mongo.url))
      for (const name of fs.readdirSync(stack.folder).filter((file) => file.endsWith('.log')))
        fs.copyFileSync(`${stack.folder}/${name}`, `${options.historyFile}.${name}`)
    }
    return summarize(options, history, findings, recoveries, skipped, {
      ...(await readCounts(stack)),
      drainedMs,
      levels,
      monero: done,
    })
  } finally {
    await stack.stop()
    await Promise.all([coins?.close(), monero?.close()])
  }
}

/**
 * Runs the workload and the faults until the time is over and all faults have ended.
 *
 * @returns `skipped`: kinds of faults that could not be caused, with the reason
 */
async function runWorkload(
  world: World,
  stack: Stack,
  canary: Agent,
  {
    seed,
    seconds,
    kinds = usualKinds(world.monero !== undefined),
    isOverload = false,
    pace = 1,
    hasLevels = false,
  }: TortureOptions,
): Promise<{ skipped: string[]; levels: Level[] }> {
  const startMs = world.history.nowMs()
  const endMs = startMs + seconds * 1_000
  const isOver = (): boolean => world.history.nowMs() >= endMs
  let isHealed = false
  const acting = world.agents
    .filter((agent) => agent !== canary)
    .flatMap((agent) => [
      keepActing(world, agent, pace, isOver),
      ...Array.from({ length: isOverload ? OVERLOAD_TIMES - 1 : 0 }, () => keepPushing(world, agent, isOver)),
    ])
  const newcomers = admitNewcomers(world, seed, pace, isOver)
  const watching = runCanary(world, canary, () => isHealed)
  const operating = runOperatorActs(world, stack, { numbers: numbersFor(seed, 'operator'), pace, isOver })
  const backingUp = runBackups(world, stack, { numbers: numbersFor(seed, 'backups'), pace, isOver })
  const sampling = hasLevels ? sampleLevels(stack, isOver) : []
  const skipped: string[] = []
  const underWay: Promise<void>[] = []
  for (const fault of planFaults(seed, seconds, kinds)) {
    const waitMs = startMs + fault.atMs - world.history.nowMs()
    if (waitMs > 0) await sleep(waitMs)
    const fromMs = world.history.nowMs()
    const injected = await inject(stack, fault)
    if (injected === undefined) skipped.push(`${fault.kind}: ${reasonNotCaused(fault.kind)}`)
    else underWay.push(healInTime(world, fault, injected, fromMs, endMs))
  }
  await Promise.all([...acting, newcomers, operating, backingUp, ...underWay])
  await stack.mongo.whenWritable()
  await stack.whenServing()
  isHealed = true
  await watching
  return { skipped, levels: compareLevels(await sampling) }
}

/**
 * Records a fault, lets it last as planned but not beyond `endMs`, and heals it; a failure to heal is a
 * finding.
 */
async function healInTime(
  world: World,
  fault: PlannedFault,
  { target, heal }: Injected,
  fromMs: number,
  endMs: number,
): Promise<void> {
  const record = { kind: fault.kind, target, fromMs, toMs: fromMs }
  world.history.faults.push(record)
  await sleep(Math.max(0, Math.min(fault.lastsMs, endMs - fromMs)))
  try {
    await heal()
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error
    world.wrongAnswers.push({ what: error.message, words: [] })
  }
  record.toMs = Math.max(fromMs, world.history.nowMs())
}

/** Lets an agent act again and again, with short pauses, while it follows its events. */
async function keepActing(world: World, agent: Agent, pace: number, isOver: () => boolean): Promise<void> {
  const following = followEvents(world, agent, isOver)
  while (!isOver()) {
    await act(world, agent)
    await sleep(pace * agent.numbers.below(60))
  }
  await following
}

/** Of the usual rate of requests. */
const OVERLOAD_TIMES = 20

/** Lets an agent do again and again what it may do many times at once. */
async function keepPushing(world: World, agent: Agent, isOver: () => boolean): Promise<void> {
  agent.posts = Number.POSITIVE_INFINITY // its card can't list all of them
  while (!isOver()) {
    await push(world, agent)
    await sleep(agent.numbers.below(60))
  }
}

/** Registers new agents all the time, even during faults; the first MOST_NEWCOMERS of them go on to act. */
async function admitNewcomers(
  world: World,
  seed: number,
  pace: number,
  isOver: () => boolean,
): Promise<void> {
  const numbers = numbersFor(seed, 'newcomers')
  const acting: Promise<void>[] = []
  for (let index = 0; !isOver(); index++) {
    await sleep(pace * numbers.between(300, 1_500))
    const agent = newAgent(`n${index}`, numbersFor(seed, `newcomer/${index}`))
    const ref = numbers.pick(world.agents).id
    await register(world, agent, numbers.below(2) === 0 ? ref : undefined, numbers.below(1_000))
    if (agent.id === undefined) continue
    world.agents.push(agent)
    if (acting.length < MOST_NEWCOMERS) acting.push(keepActing(world, agent, pace, isOver))
  }
  await Promise.all(acting)
}

const MOST_NEWCOMERS = 12

/**
 * Waits until nothing is left to do (entries numbered, sealed and signed, batches verified, queues empty,
 * money swept and paid), or until none of what is left was done for STUCK_AFTER_MS.
 *
 * @returns a finding if work is left, and one for each job that was given up
 */
async function waitUntilDone(stack: Stack, world: World, say: TortureOptions['say']): Promise<Finding[]> {
  const queues = openQueues(stack.redis.url, 'agent-network', createLog('torture', 'silent'))
  const beganMs = Date.now()
  let least = Number.POSITIVE_INFINITY
  let lessAtMs = beganMs
  try {
    for (let looks = 0; ; looks++) {
      const left = await listWorkLeft(stack, world, queues, beganMs)
      if (left.length === 0) return await checkQueues(queues)
      if (left.length < least) [least, lessAtMs] = [left.length, Date.now()]
      if (Date.now() - lessAtMs > STUCK_AFTER_MS) {
        const what = `work is left, and for ${STUCK_AFTER_MS / 1_000} s none of it was done: ${left.length} things, among them ${left.slice(0, 10).join('; ')}`
        return [{ what, words: [] }, ...(await checkQueues(queues))]
      }
      if (looks % LOOKS_PER_LINE === 0) say(`${left.length} things are left to do, the first: ${left[0]}`)
      await sleep(LOOK_EVERY_MS)
    }
  } finally {
    await queues.close()
  }
}

/** The work that is left, a phrase each; of jobs only those added before `beganMs`. */
async function listWorkLeft(stack: Stack, world: World, queues: Queues, beganMs: number): Promise<string[]> {
  const { pending, ...counts } = await readBacklog(stack.mongo.url)
  const money = world.coins === undefined ? undefined : await readMoney(stack.mongo.url)
  return [
    ...pending.map((source) => `entry ${source} has no number`),
    ...Object.entries(counts).flatMap(([name, count]) => Array.from({ length: count }, () => name)),
    ...(await listJobs(queues, beganMs)),
    ...(money === undefined
      ? []
      : [...listMoneyLeft(world, money, Date.now() / 1_000), ...(await listMoneroLeft(world, money))]),
  ]
}

/** Compares everything that was answered and stored; the network has to be at rest. */
async function checkAll(world: World, stack: Stack, pace: Pace, isOverload: boolean): Promise<Finding[]> {
  const { history, agents } = world
  const startedAtMs = performance.now() - history.nowMs()
  const slowdownOf = ({ atMs, tookMs }: Call): number =>
    pace.worstBetween(startedAtMs + atMs, startedAtMs + atMs + tookMs)
  const url = stack.urls[0] ?? ''
  const { stored, ledger } = await readAtRest(stack, url)
  const money = await readMoney(stack.mongo.url)
  return [
    ...world.wrongAnswers,
    ...checkRecords(history.calls, agents, stored),
    ...checkCommitments(stored),
    ...checkEntries(ledger, stored),
    ...checkPasses(history.calls, agents, stored, ledger),
    ...checkCoins(world, money, ledger),
    ...(await checkMonero(world, money)),
    ...(await checkChain(url, stored, stack.folder)),
    ...(await checkReceipts(url, stored, stack.folder)),
    ...checkAnswers(history.calls, history.faults, isOverload, slowdownOf),
    ...checkObjects(history.calls, idsByName(agents), takenBackIn(money), evidenceIn(stored)),
    ...(await checkAgents(world, stored, ledger)),
    ...(await checkEvents(
      world,
      stored,
      money.orders,
      async () => (await readMoney(stack.mongo.url)).orders,
    )),
    ...checkLogs(stack, history.faults),
    ...checkMembers(stack),
  ]
}

/**
 * Reads the database and the published ledger once all entries are numbered and sealed. They may not be at
 * first, since order deadlines still write entries. After MAX_READINGS it returns what it has.
 */
async function readAtRest(stack: Stack, url: string): Promise<{ stored: Stored; ledger: LedgerEntry[] }> {
  for (let tries = 1; ; tries++) {
    const stored = await readStored(stack.mongo.url)
    const ledger = await readLedger(url)
    const count = stored.entries.length
    const isSealed = stored.seals.at(-1)?.to_id === count && stored.seals.every(({ signed }) => signed)
    const isAtRest = stored.pending.length === 0 && isSealed && ledger.length === count
    if (isAtRest || tries === MAX_READINGS) return { stored, ledger }
    await sleep(READ_AGAIN_MS)
  }
}

/** How many entries and seals are stored. */
async function readCounts(stack: Stack): Promise<{ entries: number; seals: number }> {
  const { entries, seals } = await readStored(stack.mongo.url)
  return { entries: entries.length, seals: seals.length }
}

/** Puts a result together; the first MAX_EXPLAINED findings get their history. */
function summarize(
  { seed, seconds }: TortureOptions,
  history: History,
  findings: readonly Finding[],
  recoveries: Recovery[],
  skipped: string[],
  counts: Pick<TortureResult, 'entries' | 'seals' | 'drainedMs' | 'levels' | 'monero'>,
): TortureResult {
  const outcomes: Record<string, number> = {}
  for (const { status, error, lost } of history.calls) {
    const name = lost === undefined ? `${status}${error === undefined ? '' : ` ${error}`}` : 'lost'
    outcomes[name] = (outcomes[name] ?? 0) + 1
  }
  return {
    seed,
    seconds,
    requests: history.calls.length,
    outcomes,
    recoveries,
    skipped,
    ...counts,
    findings: findings.map((finding, index) => ({
      ...finding,
      history:
        index < MAX_EXPLAINED && finding.words.length > 0 ? history.describeCallsWith(finding.words) : '',
    })),
  }
}
