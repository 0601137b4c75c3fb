import { setTimeout as sleep } from 'node:timers/promises'
import { INSIDE, MARKET_CHECK_NAMES } from '../auditor/checks.ts'
import { DUST_RAW, flowOf, listLeftOver, type SeenMarket } from '../auditor/outside.ts'
import { gatherRecords, type Gathered } from '../auditor/seen.ts'
import { drawFault } from '../faults/plan.ts'
import type { FaultKind } from '../faults/table.ts'
import { run, type RunResult } from '../run.ts'
import { QUEUES_TOGETHER } from '../../../shared/platform/queue-table.ts'
import { numbersFor } from '../world/numbers.ts'
import { readMarket, readSums } from './account.ts'
import { injectFaults, injectUntilOver } from './faults.ts'
import { createOperator, superviseNetwork, type Operator } from './operator.ts'
import { buyPass } from './pass.ts'
import { makeSale } from './sale.ts'
import { readTreasury, watchInvariants } from './watch.ts'
import { check, count, openWorld, patienceMs, until, type Mode, type Market } from './world.ts'

const AGENTS = 16
/** Orders and passes under way at the same time: as many as make some 25 deliveries a minute. */
const SALES_AT_ONCE = 16
const PASSES_AT_ONCE = 2
/** Seven seconds. */
const ACCEPT_HOURS = '0.002'
/** All is at rest once nothing is left over and nothing has changed for this long. */
const REST_MS = 5_000
/** What is left over after nothing has changed for this long is stuck. */
const STUCK_MS = 45_000
/** How long the end of a run may take altogether. */
const MOST_MS = 300_000
const LOOK_EVERY_MS = 2_000
const TELL_EVERY_MS = 60_000
/** How long agents work before a fault that comes alone; after it they finish what they have begun. */
const BEFORE_SINGLE_MS = 12_000
/** How often a fault that comes alone is tried if it has nothing to hit. */
const SINGLE_TRIES = 3

export interface ModelOptions extends Mode {
  agents?: number
  /** Orders under way at the same time. */
  salesAtOnce?: number
  /** The run goes on after its time until there were this many deliveries. */
  leastDeliveries?: number
  /** Where requests, faults, chain and logs are written if something is found. */
  historyFile?: string
  say: (line: string) => void
}

export interface ModelResult extends Pick<RunResult, 'findings' | 'canaries'> {
  seed: number
  seconds: number
  counts: Record<string, number>
  recoveries: Record<string, number[]>
}

/**
 * Starts a network, lets agents trade on it while faults are injected, and checks that every raw is accounted
 * for. Stops the network at the end.
 */
export async function runModel({
  historyFile,
  say,
  agents = AGENTS,
  salesAtOnce = SALES_AT_ONCE,
  leastDeliveries = 0,
  ...mode
}: ModelOptions): Promise<ModelResult> {
  const minutes = (mode.payBySeconds / 60).toFixed(6)
  let [counts, recoveries] = [new Map<string, number>(), new Map<string, number[]>()]
  const { findings, canaries } = await run(
    {
      testbed: {
        members: 1,
        each: 1,
        groups: { workers: QUEUES_TOGETHER },
        env: { INVOICE_MINUTES: minutes, PAY_BY_MINUTES: minutes, ACCEPT_HOURS, SWEEP_SECONDS: '2' },
        isFull: true,
      },
      checks: [...INSIDE, ...MARKET_CHECK_NAMES],
      ...{ canaries: MARKET_CHECK_NAMES, historyFile, say },
    },
    async (network) => {
      const world = await openWorld(network, mode, agents)
      ;({ counts, recoveries } = world)
      say(`seed ${mode.seed}: ${agents} agents at work for ${mode.seconds} s`)
      const telling = setInterval(() => say(describeProgress(world)), TELL_EVERY_MS)
      try {
        return await play(world, salesAtOnce, leastDeliveries)
      } finally {
        clearInterval(telling)
        for (const { kind } of world.history.faults) count(world, `fault ${kind}`)
        for (const why of world.history.notCaused) count(world, `not caused: ${why}`)
      }
    },
  )
  return {
    ...{ seed: mode.seed, seconds: mode.seconds, findings, canaries },
    ...{ counts: Object.fromEntries(counts), recoveries: Object.fromEntries(recoveries) },
  }
}

/** A line for whoever watches the run. */
function describeProgress({ history, counts, pace }: Market): string {
  const slowdown = pace.slowdown().toFixed(1)
  return `at ${Math.round(history.nowMs() / 1_000)} s: ${counts.get('deliveries') ?? 0} deliveries, ${history.calls.length} requests; the machine takes ${slowdown} times as long as an idle one`
}

/**
 * Lets the market trade under faults until the time is over, and waits until everything is done. Invariants
 * are watched meanwhile.
 *
 * @returns what was seen in the end; undefined if a finding ended the run
 */
async function play(
  world: Market,
  salesAtOnce: number,
  leastDeliveries: number,
): Promise<Gathered | undefined> {
  const operator = createOperator(world)
  const endMs = world.history.nowMs() + world.mode.seconds * 1_000
  const isOver = (): boolean =>
    world.ended.signal.aborted ||
    (world.history.nowMs() >= endMs && (world.counts.get('deliveries') ?? 0) >= leastDeliveries)
  let hasEnded = false
  await until(world, 'the coin did not get ready', async () =>
    (await operator.isReady()) ? true : undefined,
  )
  world.treasury = await readTreasury(world)
  const watching = Promise.all([
    watchInvariants(world, () => hasEnded),
    superviseNetwork(world, operator, () => hasEnded),
  ])
  watching.catch(() => world.ended.abort())
  const trade = openTrade(world, salesAtOnce)
  if (world.mode.oneFaultAtATime) await injectEachAlone(world, operator, trade, isOver)
  else await Promise.all([trade(isOver), injectFaults(world, isOver)])
  world.say('the time is over; waiting until everything is done')
  const rest = await settle(world, operator)
  hasEnded = true
  await watching
  if (world.ended.signal.aborted || rest === undefined) return undefined
  const seen = await readSums(world, rest.market)
  countMoney(world, seen)
  return { ...(await gatherRecords(world, world.place)), market: seen }
}

/** Counts what was seen from outside. */
function countMoney(world: Market, seen: SeenMarket): void {
  const { came, went } = flowOf(seen)
  const inXno = (blocks: typeof came): number =>
    Number(blocks.reduce((all, { amountRaw }) => all + amountRaw, 0n) / DUST_RAW) / 1e6
  count(world, 'XNO in', inXno(came))
  count(world, 'XNO out', inXno(went))
  count(world, 'blocks', seen.blocks.length)
  count(world, 'ledger entries', seen.ledger.length)
}

type Trade = ReturnType<typeof openTrade>

/**
 * Makes a function that lets agents sell and buy until `isOver`, and resolves when they have finished what
 * they began. Called again, it goes on with the next numbers of the seed.
 */
function openTrade(world: Market, salesAtOnce: number) {
  const busy = new Set<string>()
  let [sales, passes] = [0, 0]
  return async (isOver: () => boolean): Promise<void> => {
    const keepSelling = async (): Promise<void> => {
      while (!isOver()) {
        const index = sales++
        await recordFailure(world, makeSale(world, index, numbersFor(world.mode.seed, `sale/${index}`)))
      }
    }
    const keepBuying = async (): Promise<void> => {
      while (!isOver()) {
        await recordFailure(world, buyPass(world, busy, numbersFor(world.mode.seed, `pass/${passes++}`)))
        await sleep(500)
      }
    }
    await Promise.all([
      ...Array.from({ length: salesAtOnce }, keepSelling),
      ...Array.from({ length: PASSES_AT_ONCE }, keepBuying),
    ])
  }
}

/**
 * Causes each kind of fault alone, again and again until the time is over, and `restore` once at the end.
 * After each, everything has to come to rest with no help but `reconcile`.
 */
async function injectEachAlone(
  world: Market,
  operator: Operator,
  trade: Trade,
  isTimeOver: () => boolean,
): Promise<void> {
  const numbers = numbersFor(world.mode.seed, 'faults')
  // Only the operator can say what a restore has taken away, so it comes last.
  const { kinds } = world.mode
  const others = kinds.filter((kind) => kind !== 'restore')
  while (!isTimeOver())
    for (const kind of numbers.shuffle(others)) await injectAlone(world, operator, trade, kind)
  if (kinds.includes('restore')) await injectAlone(world, operator, trade, 'restore')
}

/**
 * Lets agents work, causes one fault, and waits until everything is done. What is left over is a finding; the
 * time that it took is noted.
 */
async function injectAlone(world: Market, operator: Operator, trade: Trade, kind: FaultKind): Promise<void> {
  if (world.ended.signal.aborted) return
  let isBroken = false
  const working = trade(() => isBroken || world.ended.signal.aborted)
  for (let tries = 0; !isBroken && tries < SINGLE_TRIES; tries++) {
    await sleep(BEFORE_SINGLE_MS)
    const numbers = numbersFor(world.mode.seed, `alone/${world.history.faults.length}`)
    isBroken = await injectUntilOver(world, drawFault(numbers, kind))
  }
  const [hadTarget, healthyMs] = [isBroken, world.history.lastFaultEndMs]
  isBroken = true
  await working
  const rest = await settle(world, operator)
  if (rest === undefined || !hadTarget) return
  const tookMs = Math.max(0, rest.sinceMs - healthyMs)
  for (const what of listLeftOver(rest.market)) check(world, false, `after ${kind} ${what}`)
  world.recoveries.set(kind, [...(world.recoveries.get(kind) ?? []), tookMs])
  world.say(`after ${kind} all was done within ${Math.round(tookMs / 1_000)} s`)
}

/** Waits for an agent's work; if it fails, that becomes a finding, unless the run has been ended. */
async function recordFailure(world: Market, work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!world.ended.signal.aborted) check(world, false, `an agent could not go on: ${String(error)}`)
  })
}

/**
 * Brings open orders to their end, decides disputes and reconciles, until all is at rest or it is clear that
 * something is stuck.
 *
 * @returns the market, and when the last thing changed, in milliseconds of the history; undefined if the run
 *   was ended
 */
async function settle(
  world: Market,
  operator: Operator,
): Promise<{ market: SeenMarket; sinceMs: number } | undefined> {
  const startedMs = world.history.nowMs()
  let [before, changedMs] = ['', startedMs]
  while (!world.ended.signal.aborted) {
    await finishOrders(world)
    await operator.decideDisputes()
    await operator.reconcileIfHalted()
    const market = await readMarket(world)
    const left = listLeftOver(market)
    const now = JSON.stringify([left, world.chain.allBlocks().length])
    const nowMs = world.history.nowMs()
    if (now !== before) [before, changedMs] = [now, nowMs]
    const isStill = nowMs - changedMs > REST_MS
    if (isStill) await operator.explainFoundSends(true)
    if (isStill && left.length === 0) return { market, sinceMs: changedMs }
    if (nowMs - changedMs > patienceMs(world, STUCK_MS) || nowMs - startedMs > patienceMs(world, MOST_MS)) {
      check(
        world,
        nowMs - startedMs <= patienceMs(world, MOST_MS),
        `nothing came to rest within ${Math.round((nowMs - startedMs) / 1_000)} s`,
      )
      return { market, sinceMs: changedMs }
    }
    count(world, 'looks after the end')
    if (left.length > 0) world.say(`${left.length} left: ${left[0]}`)
    await sleep(LOOK_EVERY_MS)
  }
  return undefined
}

/** Lets sellers deliver what is paid and buyers accept what is delivered, as each sees it in its `/me`. */
async function finishOrders(world: Market): Promise<void> {
  for (const agent of world.agents) {
    const { status, json } = await world.ask(agent, 'me', 'GET', '/me')
    if (status !== 200) continue
    for (const { order_id: id } of json['orders_to_deliver'] as { order_id: string }[])
      await world.ask(agent, 'deliver', 'POST', '/market/deliver', { order_id: id, delivery: `for ${id}` })
    for (const { order_id: id } of json['deliveries_to_accept'] as { order_id: string }[])
      await world.ask(agent, 'accept', 'POST', '/market/accept', { order_id: id })
  }
}
