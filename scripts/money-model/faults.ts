import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import { waitFor } from '../embedded/wait.ts'
import { numbersOf } from '../torture/plan.ts'
import { SEED } from './network.ts'
import { mistypePaid, mistypeSettle, operate } from './operator.ts'
import { sendsOf } from './watch.ts'
import { count, isWanted, type World } from './world.ts'

/** What is broken, and how long it stays so: from and to, in milliseconds. */
export const FAULTS = {
  'kill-api': [0, 0],
  'kill-workers': [0, 0],
  'node-hung': [2_000, 10_000],
  'node-killed': [2_000, 10_000],
  'lost-answers': [2_000, 6_000],
  /** A confirmed payout is gone from the node, and then back. */
  gone: [2_000, 8_000],
  /** Gone for good, unless its sender publishes it again. */
  lost: [1_000, 2_000],
  /** Another block is confirmed in the place of a payout; then the truth is back. */
  rival: [3_000, 8_000],
  /** The node refuses blocks for no reason of theirs, and the workers' clock says that it is doing so for long. */
  refused: [4_000, 6_000],
  'coin-off': [3_000, 12_000],
  restore: [8_000, 16_000],
  'wrong-settle': [0, 0],
  'wrong-paid': [0, 0],
} as const satisfies Record<string, readonly [number, number]>
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
/** A worker's clock jumps so far, which is longer than anything is tried again for. */
const CLOCK_JUMP_MS = 11 * 60_000

/** One fault after the other, until the time is over: every kind once before any comes again. */
export async function breakThings(world: World, isOver: () => boolean): Promise<void> {
  const numbers = numbersOf(world.mode.seed, 'faults')
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

async function breakOnce(world: World, kind: Fault, numbers: SeededNumbers): Promise<void> {
  const fromMs = world.history.nowMs()
  world.faults++
  try {
    const [shortest, longest] = FAULTS[kind]
    const target = await inject(world, kind, numbers.between(shortest, longest))
    if (target === undefined) return count(world, `nothing to break: ${kind}`)
    count(world, `fault ${kind}`)
    world.history.faults.push({ kind, target, fromMs, toMs: world.history.nowMs() })
  } finally {
    world.faults--
    world.disturbedMs = world.history.nowMs()
  }
}

/** @returns what was hit; undefined where there was nothing to hit */
async function inject(world: World, kind: Fault, lastsMs: number): Promise<string | undefined> {
  const { chain, network } = world
  switch (kind) {
    case 'kill-api':
      return kill(world, 'api')
    case 'kill-workers':
      return kill(world, 'workers')
    case 'node-hung':
      chain.hang()
      await sleep(lastsMs)
      await chain.heal()
      return 'the node'
    case 'node-killed':
      await chain.goDown()
      await sleep(lastsMs)
      await chain.heal()
      return 'the node'
    case 'lost-answers':
      chain.misbehave('loses-answers')
      await sleep(lastsMs)
      await chain.heal()
      return 'the node'
    case 'gone':
    case 'lost': {
      const block = sendsOf(world).at(-1)
      if (block === undefined) return undefined
      const hidden = chain.hide(block.hash)
      for (const hash of chain.hashesOf(hidden)) world.doubted.add(hash)
      await sleep(lastsMs)
      if (kind === 'gone') chain.bringBack(hidden)
      return `${block.hash} and what stands on it: ${hidden.length} blocks`
    }
    case 'rival': {
      const hidden = world.treasury === undefined ? undefined : await chain.replaceUnconfirmed(SEED, world.treasury, 15_000)
      if (hidden === undefined) return undefined
      for (const hash of chain.hashesOf(hidden)) world.doubted.add(hash)
      // The operator believes the node too, and accepts what it shows.
      await sleep(lastsMs / 2)
      await operate(world, 'reconcile', 'xno')
      await sleep(lastsMs / 2)
      chain.bringBack(hidden)
      return 'the newest payout'
    }
    case 'refused':
      return refuse(world, lastsMs)
    case 'coin-off':
      await network.setCoin(false)
      await sleep(lastsMs)
      await network.setCoin(true)
      return 'the workers'
    case 'restore':
      return restore(world, lastsMs)
    case 'wrong-settle':
      return mistypeSettle(world)
    case 'wrong-paid':
      return mistypePaid(world)
  }
}

async function kill(world: World, name: 'api' | 'workers'): Promise<string | undefined> {
  const part = world.network.part(name)
  const [pid, upAtMs] = [part.child.pid(), part.upAtMs()]
  if (pid === undefined) return undefined
  process.kill(pid, 'SIGKILL')
  await waitFor(`the next start of ${name}`, () => (part.upAtMs() === upAtMs ? undefined : true), { limitMs: UP_LIMIT_MS })
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
