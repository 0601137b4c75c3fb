import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Finding } from '../auditor/finding.ts'
import { numbersFor } from '../world/numbers.ts'
import { MARKET_CANARIES, tryCanaries, type Sung } from '../auditor/canaries.ts'
import { audit, type CheckName } from '../auditor/checks.ts'
import { readMoney } from '../auditor/money.ts'
import { readAtRest, type Seen } from '../auditor/seen.ts'
import { readLostDocuments } from '../auditor/service.ts'
import { DUST_RAW, flowOf, listLeftOver, MARKET_CHECKS, type SeenMarket } from '../auditor/outside.ts'
import { readMarket, readSums } from './account.ts'
import { startChain } from './chain.ts'
import { drawFault } from '../faults/plan.ts'
import type { FaultKind } from '../faults/table.ts'
import { injectFaults, injectUntilOver, wantedKinds } from './faults.ts'
import { QUEUE_NAMES } from '../../../shared/platform/queues.ts'
import { startTestbed } from '../testbed/testbed.ts'
import { createOperator, superviseNetwork, type Operator } from './operator.ts'
import { buyPass } from './pass.ts'
import { makeSale } from './sale.ts'
import { watchInvariants, readTreasury } from './watch.ts'
import {
  check,
  checkNone,
  count,
  isWanted,
  openWorld,
  patienceMs,
  until,
  type Mode,
  type World,
} from './world.ts'

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

export interface ModelResult {
  seed: number
  seconds: number
  counts: Record<string, number>
  recoveries: Record<string, number[]>
  findings: (Finding & { history: string })[]
  /** What became of the canaries of a run in order. */
  canaries: Sung[]
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
  const chain = await startChain()
  const minutes = (mode.payBySeconds / 60).toFixed(6)
  const testbed = await startTestbed({
    members: 1,
    each: 1,
    groups: { workers: QUEUE_NAMES },
    env: { INVOICE_MINUTES: minutes, PAY_BY_MINUTES: minutes, ACCEPT_HOURS, SWEEP_SECONDS: '2' },
    coins: chain.coins,
    isFull: true,
    report: () => undefined,
  }).catch(async (error: unknown) => {
    await chain.close()
    throw error
  })
  try {
    const world = await openWorld(mode, testbed, chain, agents, say)
    say(`seed ${mode.seed}: ${agents} agents at work for ${mode.seconds} s`)
    const telling = setInterval(() => say(describeProgress(world)), TELL_EVERY_MS)
    const seen = await play(world, salesAtOnce, leastDeliveries).finally(() => {
      clearInterval(telling)
      world.pace.close()
    })
    const findings = world.wrongAnswers.map((finding) => ({
      ...finding,
      history: world.history.describeCallsWith(finding.words),
    }))
    if (findings.length > 0 && historyFile !== undefined) writeRecords(world, historyFile)
    for (const { kind } of world.history.faults) count(world, `fault ${kind}`)
    for (const why of world.history.notCaused) count(world, `not caused: ${why}`)
    const [counts, recoveries] = [Object.fromEntries(world.counts), Object.fromEntries(world.recoveries)]
    const canaries = seen === undefined ? [] : tryCanaries(MARKET_CHECKS, MARKET_CANARIES, seen)
    return { seed: mode.seed, seconds: mode.seconds, counts, recoveries, findings, canaries }
  } finally {
    await testbed.stop()
    await chain.close()
  }
}

/** A line for whoever watches the run. */
function describeProgress({ history, counts, pace }: World): string {
  const slowdown = pace.slowdown().toFixed(1)
  return `at ${Math.round(history.nowMs() / 1_000)} s: ${counts.get('deliveries') ?? 0} deliveries, ${history.calls.length} requests; the machine takes ${slowdown} times as long as an idle one`
}

/** Writes every request and fault into `file`, and beside it the chain and the logs of the processes. */
function writeRecords({ history, chain, testbed }: World, file: string): void {
  history.write(file)
  const blocks = chain
    .allBlocks()
    .map((block) => JSON.stringify({ ...block, amountRaw: String(block.amountRaw) }))
  fs.writeFileSync(`${file}.chain`, `${blocks.join('\n')}\n`, { mode: 0o600 })
  for (const name of fs.readdirSync(testbed.folder).filter((one) => one.endsWith('.log')))
    fs.copyFileSync(path.join(testbed.folder, name), `${file}.${name}`)
}

/**
 * Lets the market trade under faults until the time is over, waits until everything is done, and checks the
 * market. Invariants are watched meanwhile.
 *
 * @returns what was seen in the end, if nothing was found
 */
async function play(
  world: World,
  salesAtOnce: number,
  leastDeliveries: number,
): Promise<SeenMarket | undefined> {
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
  const market = openMarket(world, salesAtOnce)
  if (world.mode.oneFaultAtATime) await injectEachAlone(world, operator, market, isOver)
  else await Promise.all([market(isOver), injectFaults(world, isOver)])
  world.say('the time is over; waiting until everything is done')
  const rest = await settle(world, operator)
  hasEnded = true
  await watching
  if (world.ended.signal.aborted || rest === undefined) return undefined
  const seen = auditMarket(world, await readSums(world, rest.market))
  const isRestored = world.history.faults.some(({ kind }) => kind === 'restore')
  const names = INSIDE.filter((name) => !isRestored || name !== NOT_AFTER_RESTORE)
  for (const { check: name, what } of audit(await readInside(world), names))
    check(world, false, `${name}: ${what}`)
  return world.wrongAnswers.length === 0 ? seen : undefined
}

/** After a restore the signer remembers seals that are gone, and signs none of their numbers again by itself. */
const NOT_AFTER_RESTORE: CheckName = 'seals are signed and cover all entries'
/** What must hold in the database and the processes too. */
const INSIDE: readonly CheckName[] = [
  'the books add up',
  'the stated solvency is what the ledger adds up to',
  'a pass lasts as long as the ledger credits it',
  'a record has one entry, which is published as it is stored',
  'an entry commits to its record',
  'seals are signed and cover all entries',
  'no coin is halted',
  'a member of MongoDB loses no document',
  'a process ends in time, without an error',
]

/** Reads what INSIDE judges, and ends the processes. */
async function readInside({ testbed, history }: World): Promise<Seen> {
  const { stored, entries } = await readAtRest(testbed.mongo.url, testbed.urls[0] ?? '')
  return {
    ...{ stored, money: await readMoney(testbed.mongo.url), faults: history.faults },
    ledger: { entries, receipts: [], objections: [], isIntact: true },
    ...{ members: readLostDocuments(testbed), stops: await testbed.stopParts() },
    now: { seconds: Date.now() / 1_000, ms: history.nowMs() },
    ...{ calls: [], agents: [], noticed: [], laterOrders: [], left: [], givenUp: [], logs: [] },
    ...{ monero: undefined, backup: undefined, recoveries: [], levels: [] },
    ...{ isOverload: true, slowdowns: new Map() },
  }
}

/** Runs the checks on what was seen from outside, and counts what it was. @returns what was seen */
function auditMarket(world: World, seen: SeenMarket): SeenMarket {
  for (const [name, find] of Object.entries(MARKET_CHECKS))
    checkNone(
      world,
      find(seen).map(({ what }) => `${name}: ${what}`),
    )
  const { came, went } = flowOf(seen)
  const inXno = (blocks: typeof came): number =>
    Number(blocks.reduce((all, { amountRaw }) => all + amountRaw, 0n) / DUST_RAW) / 1e6
  count(world, 'XNO in', inXno(came))
  count(world, 'XNO out', inXno(went))
  count(world, 'blocks', seen.blocks.length)
  count(world, 'ledger entries', seen.ledger.length)
  return seen
}

type Market = ReturnType<typeof openMarket>

/**
 * Makes a function that lets agents sell and buy until `isOver`, and resolves when they have finished what
 * they began. Called again, it goes on with the next numbers of the seed.
 */
function openMarket(world: World, salesAtOnce: number) {
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
  world: World,
  operator: Operator,
  market: Market,
  isTimeOver: () => boolean,
): Promise<void> {
  const numbers = numbersFor(world.mode.seed, 'faults')
  // Only the operator can say what a restore has taken away, so it comes last.
  const kinds = wantedKinds(world).filter((kind) => kind !== 'restore')
  while (!isTimeOver())
    for (const kind of numbers.shuffle(kinds)) await injectAlone(world, operator, market, kind)
  if (isWanted(world, 'restore')) await injectAlone(world, operator, market, 'restore')
}

/**
 * Lets agents work, causes one fault, and waits until everything is done. What is left over is a finding; the
 * time that it took is noted.
 */
async function injectAlone(world: World, operator: Operator, market: Market, kind: FaultKind): Promise<void> {
  if (world.ended.signal.aborted) return
  let isBroken = false
  const working = market(() => isBroken || world.ended.signal.aborted)
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
async function recordFailure(world: World, work: Promise<void>): Promise<void> {
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
  world: World,
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
async function finishOrders(world: World): Promise<void> {
  for (const agent of world.agents) {
    const { status, json } = await world.ask(agent, 'me', 'GET', '/me')
    if (status !== 200) continue
    for (const { order_id: id } of json['orders_to_deliver'] as { order_id: string }[])
      await world.ask(agent, 'deliver', 'POST', '/market/deliver', { order_id: id, delivery: `for ${id}` })
    for (const { order_id: id } of json['deliveries_to_accept'] as { order_id: string }[])
      await world.ask(agent, 'accept', 'POST', '/market/accept', { order_id: id })
  }
}
