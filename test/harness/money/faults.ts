import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'
import { inject, reasonNotCaused } from '../faults/faults.ts'
import { DICE, FAULT_KINDS, FAULTS as COMMON, numbersFor, type FaultKind } from '../faults/plan.ts'
import { TREASURY_SEED } from '../testbed/coins.ts'
import { mistypePaid, mistypeSettle, runOperator } from './operator.ts'
import { treasurySends } from './watch.ts'
import { count, isWanted, type World } from './world.ts'

/**
 * Causes a fault, and resolves when it is over.
 *
 * @returns what was hit; undefined if there was nothing to hit
 */
type Inject = (world: World, lastsMs: number, numbers: SeededNumbers) => Promise<string | undefined>

/** Causes a fault that any profile can have, and heals it when its time is over. */
const common =
  (kind: FaultKind): Inject =>
  async ({ testbed, say }, lastsMs, numbers) => {
    const injected = await inject(testbed, { kind, dice: numbers.below(DICE) })
    if (injected === undefined) return void say(`${kind}: ${reasonNotCaused(kind)}`)
    await sleep(lastsMs)
    await injected.heal()
    return injected.target
  }

/** The faults that only a run which knows the market can judge, with their shortest and longest duration. */
const OF_MARKET = {
  /** The treasury's newest send, though confirmed, is gone from the node, and then back. */
  gone: [2_000, 8_000, (world, lastsMs) => hideNewestSend(world, lastsMs, true)],
  /** Gone for good, unless its sender publishes it again. */
  lost: [1_000, 2_000, (world, lastsMs) => hideNewestSend(world, lastsMs, false)],
  /** Another block is confirmed in the place of a payout, and later the payout again. */
  rival: [3_000, 8_000, replaceNewestSend],
  /** The node refuses valid blocks, and by the workers' clock it does so for a long time. */
  refused: [4_000, 6_000, refuseBlocks],
  'coin-off': [3_000, 12_000, switchCoinOff],
  restore: [8_000, 16_000, restore],
  'wrong-settle': [0, 0, mistypeSettle],
  'wrong-paid': [0, 0, mistypePaid],
} as const satisfies Record<string, readonly [number, number, Inject]>
export type Fault = keyof typeof OF_MARKET | FaultKind
export const FAULT_NAMES = [...Object.keys(OF_MARKET), ...FAULT_KINDS] as Fault[]
/** Those of a run that is told no others. */
export const USUAL: readonly Fault[] = [
  ...(Object.keys(OF_MARKET) as Fault[]),
  ...(['kill-api', 'kill-worker', 'coin-hang', 'coin-down', 'coin-lost-answers'] as const),
]
const isOfMarket = (kind: Fault): kind is keyof typeof OF_MARKET => Object.hasOwn(OF_MARKET, kind)
/** What agents try that can be left out by name like a fault. */
export const TRICKS = ['own-addresses', 'crumbs'] as const

/** The time before the first fault, and the pauses between two, in which the network recovers. */
const QUIET_START_MS = 12_000
const SHORTEST_PAUSE_MS = 6_000
const LONGEST_PAUSE_MS = 16_000
/** A short run has its first fault after this part of its time. */
const QUIET_PART = 1 / 6
/** How long to wait for a block of the service that is not confirmed yet. */
const UNCONFIRMED_WAIT_MS = 15_000
/**
 * How far a worker's clock jumps: longer than the service goes on with a refused block before it tells the
 * operator.
 */
const CLOCK_JUMP_MS = 11 * 60_000

/** Causes one fault after the other until the time is over, every kind once before any comes again. */
export async function injectFaults(world: World, isOver: () => boolean): Promise<void> {
  const numbers = numbersFor(world.mode.seed, 'faults')
  const wanted = FAULT_NAMES.filter((kind) => isWanted(world, kind))
  let deck: Fault[] = []
  let pauseMs = Math.min(QUIET_START_MS, world.mode.seconds * 1_000 * QUIET_PART)
  while (wanted.length > 0) {
    const untilMs = world.history.nowMs() + pauseMs
    while (world.history.nowMs() < untilMs) {
      if (isOver() || world.ended.signal.aborted) return
      await sleep(200)
    }
    if (deck.length === 0) deck = numbers.shuffle(wanted)
    const kind = deck.pop() as Fault
    await injectFault(world, kind, numbers)
    pauseMs = Math.min(numbers.between(SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS), pauseMs * 2)
  }
}

/** Causes one fault, waits until it is over, and records it. @returns whether there was anything to hit */
export async function injectFault(world: World, kind: Fault, numbers: SeededNumbers): Promise<boolean> {
  const fromMs = world.history.nowMs()
  world.faultsUnderWay++
  try {
    const [shortest, longest, cause] = isOfMarket(kind)
      ? OF_MARKET[kind]
      : ([...COMMON[kind], common(kind)] as const)
    const target = await cause(world, numbers.between(shortest, longest), numbers)
    count(world, target === undefined ? `nothing to hit: ${kind}` : `fault ${kind}`)
    if (target !== undefined) world.history.faults.push({ kind, target, fromMs, toMs: world.history.nowMs() })
    return target !== undefined
  } finally {
    world.faultsUnderWay--
    world.lastFaultEndMs = world.history.nowMs()
  }
}

/**
 * Takes the treasury's newest send, and what stands on it, out of the ledger; puts it back at the end if
 * `comesBack`.
 */
async function hideNewestSend(
  world: World,
  lastsMs: number,
  comesBack: boolean,
): Promise<string | undefined> {
  const { chain, doubtedSends } = world
  const block = treasurySends(world).at(-1)
  if (block === undefined) return undefined
  const hidden = chain.hide(block.hash)
  for (const hash of chain.hashesOf(hidden)) doubtedSends.add(hash)
  await sleep(lastsMs)
  if (comesBack) chain.bringBack(hidden)
  return `${block.hash} and what stands on it: ${hidden.length} blocks`
}

/**
 * Confirms another block in the place of the treasury's next unconfirmed send, lets the operator reconcile,
 * and puts the send back at the end.
 */
async function replaceNewestSend(world: World, lastsMs: number): Promise<string | undefined> {
  const { chain, treasury, doubtedSends } = world
  const hidden =
    treasury === undefined
      ? undefined
      : await chain.replaceUnconfirmed(TREASURY_SEED, treasury, UNCONFIRMED_WAIT_MS)
  if (hidden === undefined) return undefined
  for (const hash of chain.hashesOf(hidden)) doubtedSends.add(hash)
  // The operator accepts what the node shows, which is wrong.
  await sleep(lastsMs / 2)
  await runOperator(world, 'reconcile', 'xno')
  await sleep(lastsMs / 2)
  chain.bringBack(hidden)
  return chain.hashesOf(hidden).join(', ')
}

/** Runs the workers without the coin for a while. */
async function switchCoinOff({ testbed: { workers, env } }: World, lastsMs: number): Promise<string> {
  const restartWith = async (settings: Record<string, string | undefined>): Promise<void> => {
    for (const part of workers) {
      part.useSettings(settings)
      await part.restart()
    }
  }
  await restartWith(Object.fromEntries(COIN_SETTINGS.map((name) => [name, undefined])))
  await sleep(lastsMs)
  await restartWith(Object.fromEntries(COIN_SETTINGS.map((name) => [name, env[name]])))
  return 'the workers'
}
const COIN_SETTINGS = ['NANO_RPC_URL', 'NANO_WS_URL', 'NANO_SEED_FILE']

/**
 * Makes the node refuse all blocks; after the first refusal, or 10 s, shifts the workers' clock by
 * CLOCK_JUMP_MS.
 */
async function refuseBlocks(world: World, lastsMs: number): Promise<string | undefined> {
  const { chain, testbed } = world
  const before = chain.refusals()
  const shiftClocks = (shiftMs: number): void => {
    for (const part of testbed.workers) part.shiftClock(shiftMs)
  }
  chain.refuseBlocks(true)
  try {
    const untilMs = performance.now() + 10_000
    while (chain.refusals() === before && performance.now() < untilMs) await sleep(50)
    shiftClocks(CLOCK_JUMP_MS)
    await sleep(lastsMs)
  } finally {
    chain.refuseBlocks(false)
    shiftClocks(0)
  }
  return chain.refusals() === before ? undefined : `${chain.refusals() - before} blocks`
}

/** Copies the database, and after some time of work puts the copy in its place; agents wait meanwhile. */
async function restore(world: World, lastsMs: number): Promise<string> {
  const { testbed } = world
  await testbed.backUp()
  await sleep(lastsMs)
  const served = Promise.withResolvers<void>()
  world.whenServed = served.promise
  try {
    await testbed.restore(() => {
      for (const { hash } of treasurySends(world)) world.orphanedSends.add(hash)
    })
  } finally {
    served.resolve()
  }
  return `as of ${Math.round(lastsMs / 1_000)} s before`
}
