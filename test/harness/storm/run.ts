import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CANARIES, tryCanaries, type Sung } from '../auditor/canaries.ts'
import { audit, CHECKS, type Audited } from '../auditor/checks.ts'
import { compareLevels, sampleLevels, type Level } from '../auditor/levels.ts'
import { dumpMoney } from '../auditor/money.ts'
import { describeMonero } from '../auditor/monero.ts'
import { measureRecoveries, type Recovery } from '../auditor/recoveries.ts'
import { gather, type Seen } from '../auditor/seen.ts'
import { waitUntilDone } from '../auditor/rest.ts'
import { readLostDocuments } from '../auditor/service.ts'
import { PROBED_ENV } from '../bench/processes.ts'
import { injectFault } from '../faults/inject.ts'
import { planFaults } from '../faults/plan.ts'
import { usualKinds, type FaultKind } from '../faults/table.ts'
import { startCoins } from '../testbed/coins.ts'
import { startMonero } from '../testbed/monero.ts'
import { measurePace } from '../testbed/pace.ts'
import { startTestbed, type Testbed } from '../testbed/testbed.ts'
import { act, push } from '../world/actions.ts'
import { newAgent, register, registerWithPass, type Agent, type World } from '../world/agent.ts'
import { createClient } from '../world/client.ts'
import { buyDay } from '../world/coin-actions.ts'
import { followEvents } from '../world/events.ts'
import { startHistory, type History } from '../world/history.ts'
import { numbersFor } from '../world/numbers.ts'
import { runBackups, runOperatorActs } from '../world/operator-acts.ts'
import { runProber } from '../world/prober.ts'

export interface StormOptions {
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
  /** A real Monero chain beside the stand-in of Nano. */
  monero?: boolean
  /** Whether each check is tried with a fault in what it sees; the run has to be in order by itself. */
  hasCanaries?: boolean
  /** Where the history is written if something is found. */
  historyFile?: string
  say: (line: string) => void
}

export interface StormResult {
  seed: number
  seconds: number
  requests: number
  /** Requests by what came of them: a status, or `lost`. */
  outcomes: Record<string, number>
  recoveries: Recovery[]
  /** Kinds of faults that could not be caused, with the reason. */
  skipped: string[]
  findings: (Audited & { history: string })[]
  /** What became of the canaries, with `hasCanaries`. */
  canaries: Sung[]
  entries: number
  seals: number
  /** From the last fault's end until no work was left. */
  drainedMs: number
  /** What was measured with `hasLevels`. */
  levels: Level[]
  /** How much was done in Monero, in sentences. */
  monero: string[]
}

/** How many findings are reported with their history. */
const MAX_EXPLAINED = 20

/**
 * Starts a network, runs it under load and faults, waits until all work is done, and compares the answers
 * that agents got with what is stored. If something is found, writes the history and the processes' logs to
 * `historyFile` and files beside it.
 */
export async function runStorm(options: StormOptions): Promise<StormResult> {
  const { seed, seconds, agents: agentCount = 12, members = 3, each = 2, say } = options
  const history = startHistory()
  say(`starting ${members} mongod, redis and ${each} of each process`)
  const coins = await startCoins()
  const monero = options.monero === true ? await startMonero(history) : undefined
  const testbed = await startTestbed({
    members,
    each,
    env: options.hasLevels === true ? PROBED_ENV : {},
    coins,
    monero,
    isFull: true,
    hasMongoClocks: options.kinds?.includes('mongo-clock') === true,
    report: (line) => (process.env['TORTURE_VERBOSE'] === '1' ? say(line) : undefined),
  }).catch(async (error: unknown) => {
    await Promise.all([coins.close(), monero?.close()])
    throw error
  })
  const pace = measurePace()
  try {
    const world: World = {
      client: createClient(testbed.urls, history),
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
    const prober = newAgent('prober', numbersFor(seed, 'prober'))
    await registerWithPass(world, prober, undefined, 2)
    world.agents.push(prober)
    for (let index = 0; index < agentCount; index++) {
      const agent = newAgent(`a${index}`, numbersFor(seed, `agent/${index}`))
      await registerWithPass(world, agent, world.agents[index % 3]?.id, 1)
      world.agents.push(agent)
    }
    if (monero !== undefined) await buyDay(world, prober, 'xmr')
    say(`${agentCount} agents at work for ${seconds} s`)
    const levels = await runWorkload(world, testbed, prober, options)
    say('the faults are over; waiting until everything is done')
    const healedMs = history.nowMs()
    const place = {
      ...{
        url: testbed.urls[0] ?? '',
        mongoUrl: testbed.mongo.url,
        env: testbed.env,
        folder: testbed.folder,
      },
      ...{ coins, monero, pace },
    }
    const done = await waitUntilDone(world, { ...place, redisUrl: testbed.redis.url }, say)
    const drainedMs = Math.round(history.nowMs() - healedMs)
    const seen: Seen = {
      ...(await gather(world, place)),
      ...done,
      logs: [...testbed.apis, ...testbed.workers].map(({ name, errors }) => ({ name, errors: [...errors] })),
      members: readLostDocuments(testbed),
      recoveries: measureRecoveries(history.calls, history.faults, prober.name),
      levels,
      isOverload: options.isOverload === true,
      stops: await testbed.stopParts(),
    }
    const findings = audit(seen)
    const canaries =
      options.hasCanaries === true && findings.length === 0 ? tryCanaries(CHECKS, CANARIES, seen) : []
    if (findings.length > 0 && options.historyFile !== undefined) {
      history.write(options.historyFile)
      fs.writeFileSync(`${options.historyFile}.money`, await dumpMoney(testbed.mongo.url))
      for (const name of fs.readdirSync(testbed.folder).filter((file) => file.endsWith('.log')))
        fs.copyFileSync(`${testbed.folder}/${name}`, `${options.historyFile}.${name}`)
    }
    return summarize(options, seen, history, findings, {
      ...{ skipped: history.notCaused, drainedMs, canaries },
      monero: seen.monero === undefined ? [] : describeMonero(seen.monero, seen.money),
    })
  } finally {
    await testbed.stop()
    await Promise.all([coins.close(), monero?.close()])
  }
}

/** Runs the workload and the faults until the time is over and all faults have ended. @returns the levels meanwhile */
async function runWorkload(
  world: World,
  testbed: Testbed,
  prober: Agent,
  {
    seed,
    seconds,
    kinds = usualKinds(world.monero !== undefined),
    isOverload = false,
    pace = 1,
    hasLevels = false,
  }: StormOptions,
): Promise<Level[]> {
  const startMs = world.history.nowMs()
  const endMs = startMs + seconds * 1_000
  const isOver = (): boolean => world.history.nowMs() >= endMs
  let isHealed = false
  const acting = world.agents
    .filter((agent) => agent !== prober)
    .flatMap((agent) => [
      keepActing(world, agent, pace, isOver),
      ...Array.from({ length: isOverload ? OVERLOAD_TIMES - 1 : 0 }, () => keepPushing(world, agent, isOver)),
    ])
  const newcomers = admitNewcomers(world, seed, pace, isOver)
  const watching = runProber(world, prober, () => isHealed)
  const operating = runOperatorActs(world, testbed, { numbers: numbersFor(seed, 'operator'), pace, isOver })
  const backingUp = runBackups(world, testbed, { numbers: numbersFor(seed, 'backups'), pace, isOver })
  const sampling = hasLevels ? sampleLevels(testbed, isOver) : []
  const underWay: Promise<void>[] = []
  for (const fault of planFaults(seed, seconds, kinds)) {
    const waitMs = startMs + fault.atMs - world.history.nowMs()
    if (waitMs > 0) await sleep(waitMs)
    const injected = await injectFault({ testbed, ...world }, fault, endMs)
    if (injected !== undefined) underWay.push(injected.whenOver)
  }
  await Promise.all([...acting, newcomers, operating, backingUp, ...underWay])
  await testbed.mongo.whenWritable()
  await testbed.whenServing()
  isHealed = true
  await watching
  return compareLevels(await sampling)
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

/** Puts a result together; the first MAX_EXPLAINED findings get their history. */
function summarize(
  { seed, seconds }: StormOptions,
  { calls, recoveries, levels, stored: { entries, seals } }: Seen,
  history: History,
  findings: readonly Audited[],
  rest: Pick<StormResult, 'skipped' | 'drainedMs' | 'canaries' | 'monero'>,
): StormResult {
  const outcomes: Record<string, number> = {}
  for (const { status, error, lost } of calls) {
    const name = lost === undefined ? `${status}${error === undefined ? '' : ` ${error}`}` : 'lost'
    outcomes[name] = (outcomes[name] ?? 0) + 1
  }
  return {
    ...{ seed, seconds, outcomes, recoveries, levels },
    requests: calls.length,
    entries: entries.length,
    seals: seals.length,
    ...rest,
    findings: findings.map((finding, index) => ({
      ...finding,
      history:
        index < MAX_EXPLAINED && finding.words.length > 0 ? history.describeCallsWith(finding.words) : '',
    })),
  }
}
