import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import { waitFor } from '../embedded/wait.ts'
import { numbersFor } from '../torture/plan.ts'
import type { Chain } from './chain.ts'
import { SEED } from './network.ts'
import { mistypePaid, mistypeSettle, operate } from './operator.ts'
import { sendsOf } from './watch.ts'
import { count, isWanted, type World } from './world.ts'

/**
 * How long it lasts, from and to in milliseconds, and what is done. It gives what was hit, or undefined if
 * there was nothing to hit.
 */
type Breaking = readonly [number, number, (world: World, lastsMs: number) => Promise<string | undefined>]

/** The node is as `breakIt` leaves it for a while. */
const node =
  (breakIt: (chain: Chain) => void | Promise<void>) =>
  async ({ chain }: World, lastsMs: number): Promise<string> => {
    await breakIt(chain)
    await sleep(lastsMs)
    await chain.heal()
    return 'the node'
  }

export const FAULTS = {
  'kill-api': [0, 0, (world) => kill(world, 'api')],
  'kill-workers': [0, 0, (world) => kill(world, 'workers')],
  'node-hung': [2_000, 10_000, node((chain) => chain.hang())],
  'node-killed': [2_000, 10_000, node((chain) => chain.goDown())],
  'lost-answers': [2_000, 6_000, node((chain) => chain.misbehave('loses-answers'))],
  /** A confirmed payout is gone from the node, and then back. */
  gone: [2_000, 8_000, async (world, lastsMs) => hideNewest(world, lastsMs, true)],
  /** Gone for good, unless its sender publishes it again. */
  lost: [1_000, 2_000, async (world, lastsMs) => hideNewest(world, lastsMs, false)],
  /** Another block is confirmed in the place of a payout; then the truth is back. */
  rival: [3_000, 8_000, replaceNewest],
  /**
   * The node refuses blocks for no reason of theirs, and the workers' clock says that it is doing so for
   * long.
   */
  refused: [4_000, 6_000, refuse],
  'coin-off': [3_000, 12_000, switchCoinOff],
  restore: [8_000, 16_000, restore],
  'wrong-settle': [0, 0, mistypeSettle],
  'wrong-paid': [0, 0, mistypePaid],
} as const satisfies Record<string, Breaking>
export type Fault = keyof typeof FAULTS
export const FAULT_NAMES = Object.keys(FAULTS) as Fault[]
/** What agents do that is left out by name as a fault is. */
export const TRICKS = ['own-addresses', 'crumbs'] as const

/** Before the first one agents are at work; between two of them the network comes to itself. */
const QUIET_START_MS = 12_000
const SHORTEST_PAUSE_MS = 6_000
const LONGEST_PAUSE_MS = 16_000
/** A short run has its first faults sooner. */
const LEAST_BEFORE_FIRST = 6
const UP_LIMIT_MS = 60_000
/** So long a moment is waited for in which a block is signed and not confirmed. */
const LIE_WAIT_MS = 15_000
/** A worker's clock jumps so far, which is longer than anything is tried again for. */
const CLOCK_JUMP_MS = 11 * 60_000

/** One fault after the other, until the time is over: every kind once before any comes again. */
export async function breakThings(world: World, isOver: () => boolean): Promise<void> {
  const numbers = numbersFor(world.mode.seed, 'faults')
  const wanted = FAULT_NAMES.filter((kind) => isWanted(world, kind))
  let deck: Fault[] = []
  let pauseMs = Math.min(QUIET_START_MS, (world.mode.seconds * 1_000) / LEAST_BEFORE_FIRST)
  while (wanted.length > 0) {
    const untilMs = world.history.nowMs() + pauseMs
    while (world.history.nowMs() < untilMs) {
      if (isOver() || world.ended.signal.aborted) return
      await sleep(200)
    }
    if (deck.length === 0) deck = numbers.shuffle(wanted)
    const kind = deck.pop() as Fault
    await breakOnce(world, kind, numbers)
    pauseMs = Math.min(numbers.between(SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS), pauseMs * 2)
  }
}

/** @returns whether there was anything to break */
export async function breakOnce(world: World, kind: Fault, numbers: SeededNumbers): Promise<boolean> {
  const fromMs = world.history.nowMs()
  world.faults++
  try {
    const [shortest, longest, inject]: Breaking = FAULTS[kind]
    const target = await inject(world, numbers.between(shortest, longest))
    count(world, target === undefined ? `nothing to break: ${kind}` : `fault ${kind}`)
    if (target !== undefined) world.history.faults.push({ kind, target, fromMs, toMs: world.history.nowMs() })
    return target !== undefined
  } finally {
    world.faults--
    world.disturbedMs = world.history.nowMs()
  }
}

/** The treasury's newest send, and what stands on it, is not in the ledger any more. */
async function hideNewest(world: World, lastsMs: number, comesBack: boolean): Promise<string | undefined> {
  const { chain, doubted } = world
  const block = sendsOf(world).at(-1)
  if (block === undefined) return undefined
  const hidden = chain.hide(block.hash)
  for (const hash of chain.hashesOf(hidden)) doubted.add(hash)
  await sleep(lastsMs)
  if (comesBack) chain.bringBack(hidden)
  return `${block.hash} and what stands on it: ${hidden.length} blocks`
}

async function replaceNewest(world: World, lastsMs: number): Promise<string | undefined> {
  const { chain, treasury, doubted } = world
  const hidden =
    treasury === undefined ? undefined : await chain.replaceUnconfirmed(SEED, treasury, LIE_WAIT_MS)
  if (hidden === undefined) return undefined
  for (const hash of chain.hashesOf(hidden)) doubted.add(hash)
  // The operator believes the node too, and accepts what it shows.
  await sleep(lastsMs / 2)
  await operate(world, 'reconcile', 'xno')
  await sleep(lastsMs / 2)
  chain.bringBack(hidden)
  return chain.hashesOf(hidden).join(', ')
}

async function switchCoinOff({ network }: World, lastsMs: number): Promise<string> {
  await network.setCoin(false)
  await sleep(lastsMs)
  await network.setCoin(true)
  return 'the workers'
}

async function kill(world: World, name: 'api' | 'workers'): Promise<string | undefined> {
  const part = world.network.part(name)
  const [pid, upAtMs] = [part.child.pid(), part.upAtMs()]
  if (pid === undefined) return undefined
  process.kill(pid, 'SIGKILL')
  await waitFor(`the next start of ${name}`, () => (part.upAtMs() === upAtMs ? undefined : true), {
    limitMs: UP_LIMIT_MS,
  })
  return name
}

async function refuse(world: World, lastsMs: number): Promise<string | undefined> {
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

/** A copy of the database, some time at work, and then the copy in its place. */
async function restore(world: World, lastsMs: number): Promise<string> {
  const { network } = world
  await network.backUp()
  await sleep(lastsMs)
  const opened = Promise.withResolvers<void>()
  world.whenOpen = opened.promise
  try {
    await network.restore(() => {
      for (const { hash } of sendsOf(world)) world.orphans.add(hash)
    })
  } finally {
    opened.resolve()
  }
  return `as of ${Math.round(lastsMs / 1_000)} s before`
}
