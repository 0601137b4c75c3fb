import { setTimeout as sleep } from 'node:timers/promises'
import { NETWORK_CHECK_NAMES } from '../auditor/checks.ts'
import { compareLevels, sampleLevels, type Level } from '../auditor/levels.ts'
import { describeMonero } from '../auditor/monero.ts'
import type { Recovery } from '../auditor/recoveries.ts'
import { waitUntilDone } from '../auditor/rest.ts'
import { gather } from '../auditor/seen.ts'
import { PROBED_ENV } from '../bench/processes.ts'
import { injectFault } from '../faults/inject.ts'
import { planFaults } from '../faults/plan.ts'
import { usualKinds, type FaultKind } from '../faults/table.ts'
import { run, type Network, type RunResult } from '../run.ts'
import { act, push } from '../world/actions.ts'
import { newAgent, newWorld, register, registerWithPass, type Agent, type World } from '../world/agent.ts'
import { buyDay } from '../world/coin-actions.ts'
import { followEvents } from '../world/events.ts'
import type { Call } from '../world/history.ts'
import { numbersFor } from '../world/numbers.ts'
import { runBackups, runOperatorActs } from '../world/operator-acts.ts'
import { PROBER, runProber } from '../world/prober.ts'

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

export interface StormResult extends Pick<RunResult, 'findings' | 'canaries'> {
  seed: number
  seconds: number
  requests: number
  /** Requests by what came of them: a status, or `lost`. */
  outcomes: Record<string, number>
  recoveries: Recovery[]
  /** Kinds of faults that could not be caused, with the reason. */
  skipped: string[]
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
 * Runs a network under load and faults, waits until all work is done, and compares the answers that agents got
 * with what is stored.
 */
export async function runStorm(options: StormOptions): Promise<StormResult> {
  const { members = 3, each = 2, kinds, monero: hasMonero = false, hasCanaries = false, say } = options
  say(`starting ${members} mongod, redis and ${each} of each process`)
  const { seed, seconds, historyFile } = options
  let drainedMs = 0
  const { history, seen, findings, canaries } = await run(
    {
      testbed: {
        ...{ members, each, isFull: true },
        env: options.hasLevels === true ? PROBED_ENV : {},
        hasMongoClocks: kinds?.includes('mongo-clock') === true,
      },
      ...{ hasMonero, checks: NETWORK_CHECK_NAMES, historyFile, say },
      canaries: hasCanaries ? NETWORK_CHECK_NAMES : [],
    },
    async (network) => {
      const { monero, place } = network
      const world = newWorld({ ...network, apis: each })
      const prober = await admitFirst(world, options)
      if (monero !== undefined) await buyDay(world, prober, 'xmr')
      const levels = await runWorkload(world, prober, options)
      say('the faults are over; waiting until everything is done')
      const healedMs = network.history.nowMs()
      const done = await waitUntilDone(world, place, say)
      drainedMs = Math.round(network.history.nowMs() - healedMs)
      const isOverload = options.isOverload === true
      return { ...(await gather(world, place)), ...done, levels, isOverload }
    },
  )
  if (seen === undefined) throw new Error('a storm is never ended before it has seen what there is')
  const { calls, recoveries, levels, monero, money, stored } = seen
  return {
    ...{ seed, seconds, recoveries, levels, drainedMs, findings, canaries },
    requests: calls.length,
    outcomes: countOutcomes(calls),
    skipped: history.notCaused,
    entries: stored.entries.length,
    seals: stored.seals.length,
    monero: monero === undefined ? [] : describeMonero(monero, money),
  }
}

/** Registers the prober and the first agents, before any fault. @returns the prober */
async function admitFirst(
  world: World & Network,
  { seed, seconds, agents = 12 }: StormOptions,
): Promise<Agent> {
  const prober = newAgent(PROBER, numbersFor(seed, 'prober'))
  await registerWithPass(world, prober, undefined, 2)
  world.agents.push(prober)
  for (let index = 0; index < agents; index++) {
    const agent = newAgent(`a${index}`, numbersFor(seed, `agent/${index}`))
    await registerWithPass(world, agent, world.agents[index % 3]?.id, 1)
    world.agents.push(agent)
  }
  world.say(`${agents} agents at work for ${seconds} s`)
  return prober
}

/** Runs the workload and the faults until the time is over and all faults have ended. @returns the levels meanwhile */
async function runWorkload(
  world: World & Network,
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
  const { testbed } = world
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
    const injected = await injectFault(world, fault, endMs)
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

/** Counts requests by what came of them. */
function countOutcomes(calls: readonly Call[]): Record<string, number> {
  const outcomes: Record<string, number> = {}
  for (const { status, error, lost } of calls) {
    const name = lost === undefined ? `${status}${error === undefined ? '' : ` ${error}`}` : 'lost'
    outcomes[name] = (outcomes[name] ?? 0) + 1
  }
  return outcomes
}
