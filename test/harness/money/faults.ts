import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'
import { killPart } from '../faults/faults.ts'
import { numbersFor } from '../faults/plan.ts'
import type { Chain } from './chain.ts'
import { TREASURY_SEED } from './network.ts'
import { mistypePaid, mistypeSettle, runOperator } from './operator.ts'
import { treasurySends } from './watch.ts'
import { count, isWanted, type World } from './world.ts'

/**
 * Causes a fault, and resolves when it is over.
 *
 * @returns what was hit; undefined if there was nothing to hit
 */
type Inject = (world: World, lastsMs: number) => Promise<string | undefined>

/** Makes a fault of the node, which is healed when its time is over. */
const nodeFault =
  (breakIt: (chain: Chain) => void | Promise<void>) =>
  async ({ chain }: World, lastsMs: number): Promise<string> => {
    await breakIt(chain)
    await sleep(lastsMs)
    await chain.heal()
    return 'the node'
  }

/** The faults, with their shortest and longest duration in milliseconds. */
export const FAULTS = {
  'kill-api': [0, 0, (world) => kill(world, 'api')],
  'kill-workers': [0, 0, (world) => kill(world, 'workers')],
  'node-hung': [2_000, 10_000, nodeFault((chain) => chain.hang())],
  'node-killed': [2_000, 10_000, nodeFault((chain) => chain.goDown())],
  'lost-answers': [2_000, 6_000, nodeFault((chain) => chain.misbehave('loses-answers'))],
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
export type Fault = keyof typeof FAULTS
export const FAULT_NAMES = Object.keys(FAULTS) as Fault[]
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
    const [shortest, longest, inject] = FAULTS[kind]
    const target = await inject(world, numbers.between(shortest, longest))
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
async function switchCoinOff({ network }: World, lastsMs: number): Promise<string> {
  await network.setCoin(false)
  await sleep(lastsMs)
  await network.setCoin(true)
  return 'the workers'
}

/** Kills a process and waits until its supervisor has restarted it. */
async function kill(world: World, name: 'api' | 'workers'): Promise<string | undefined> {
  const killed = killPart(world.network.part(name))
  await killed?.heal()
  return killed?.target
}

/**
 * Makes the node refuse all blocks; after the first refusal, or 10 s, shifts the workers' clock by
 * CLOCK_JUMP_MS.
 */
async function refuseBlocks(world: World, lastsMs: number): Promise<string | undefined> {
  const { chain, network } = world
  const before = chain.refusals()
  chain.misbehave('refuses')
  try {
    const untilMs = performance.now() + 10_000
    while (chain.refusals() === before && performance.now() < untilMs) await sleep(50)
    network.part('workers').shiftClock(CLOCK_JUMP_MS)
    await sleep(lastsMs)
  } finally {
    await chain.heal()
    network.part('workers').shiftClock(0)
  }
  return chain.refusals() === before ? undefined : `${chain.refusals() - before} blocks`
}

/** Copies the database, and after some time of work puts the copy in its place; agents wait meanwhile. */
async function restore(world: World, lastsMs: number): Promise<string> {
  const { network } = world
  await network.backUp()
  await sleep(lastsMs)
  const served = Promise.withResolvers<void>()
  world.whenServed = served.promise
  try {
    await network.restore(() => {
      for (const { hash } of treasurySends(world)) world.orphanedSends.add(hash)
    })
  } finally {
    served.resolve()
  }
  return `as of ${Math.round(lastsMs / 1_000)} s before`
}
