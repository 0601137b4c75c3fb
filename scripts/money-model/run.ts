import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { numbersOf } from '../torture/plan.ts'
import { account, findLeftOver, readBooks, type Books } from './account.ts'
import { startChain } from './chain.ts'
import { breakThings } from './faults.ts'
import { startNetwork } from './network.ts'
import { hireOperator, keepHouse, type Operator } from './operator.ts'
import { buyPass } from './pass.ts'
import { makeSale } from './sale.ts'
import { keepWatch, readTreasury } from './watch.ts'
import { check, count, openWorld, patienceMs, until, type Finding, type Mode, type World } from './world.ts'

const AGENTS = 10
/** Orders and passes under way at the same time: as many as two cores carry beside the network. */
const SALES_AT_ONCE = 14
const PASSES_AT_ONCE = 2
/** Seven seconds. */
const ACCEPT_HOURS = '0.002'
/** Rest: nothing is left over and nothing has changed for so long. */
const REST_MS = 5_000
/** Something is left over and nothing has changed for so long: it is stuck. */
const STUCK_MS = 45_000
const MOST_MS = 300_000
const LOOK_EVERY_MS = 2_000

export interface ModelOptions extends Mode {
  /** Where the records go when something is found. */
  historyFile?: string
  say: (line: string) => void
}

export interface ModelResult {
  seed: number
  seconds: number
  counts: Record<string, number>
  findings: (Finding & { history: string })[]
}

/** Plays a market on a network of its own, breaks things, and accounts for every raw. */
export async function runModel({ historyFile, say, ...mode }: ModelOptions): Promise<ModelResult> {
  const chain = await startChain()
  const minutes = (mode.payBySeconds / 60).toFixed(6)
  const settings = { ...chain.env, INVOICE_MINUTES: minutes, PAY_BY_MINUTES: minutes, ACCEPT_HOURS }
  const network = await startNetwork(settings).catch(async (error: unknown) => {
    await chain.close()
    throw error
  })
  try {
    const world = await openWorld(mode, network, chain, AGENTS)
    say(`seed ${mode.seed}: ${AGENTS} agents at work for ${mode.seconds} s`)
    await play(world, say)
    const findings = world.findings.map((finding) => ({
      ...finding,
      history: world.history.around(namesIn(finding.what)),
    }))
    if (findings.length > 0 && historyFile !== undefined) keepRecords(world, historyFile)
    return { seed: mode.seed, seconds: mode.seconds, counts: Object.fromEntries(world.counts), findings }
  } finally {
    await network.stop()
    await chain.close()
  }
}

/** Every request and fault, the chain, and what the processes logged. */
function keepRecords({ history, chain, network }: World, file: string): void {
  history.write(file)
  const blocks = chain.dump().map((block) => JSON.stringify({ ...block, amountRaw: String(block.amountRaw) }))
  fs.writeFileSync(`${file}.chain`, `${blocks.join('\n')}\n`, { mode: 0o600 })
  for (const name of ['api', 'workers'])
    fs.copyFileSync(path.join(network.folder, `${name}.log`), `${file}.${name}.log`)
}

/** Ids, addresses and hashes, by which records are found. */
const namesIn = (what: string): string[] =>
  what.match(/\b(?:[a-z]{2,4}_[0-9a-z]{26}|nano_[0-9a-z]{60}|[0-9a-f]{64})\b/g) ?? []

async function play(world: World, say: (line: string) => void): Promise<void> {
  const operator = hireOperator(world)
  const endMs = world.history.nowMs() + world.mode.seconds * 1_000
  const isOver = (): boolean => world.history.nowMs() >= endMs || world.ended.signal.aborted
  let hasEnded = false
  await until(world, 'the coin did not get ready', async () =>
    (await operator.isReady()) ? true : undefined,
  )
  world.treasury = await readTreasury(world)
  const watching = Promise.all([keepWatch(world, () => hasEnded), keepHouse(world, operator, () => hasEnded)])
  watching.catch(() => world.ended.abort())
  const busy = new Set<string>()
  let [sales, passes] = [0, 0]
  const keepSelling = async (): Promise<void> => {
    while (!isOver()) {
      const index = sales++
      await survive(world, makeSale(world, index, numbersOf(world.mode.seed, `sale/${index}`)))
    }
  }
  const keepBuying = async (): Promise<void> => {
    while (!isOver()) {
      await survive(world, buyPass(world, busy, numbersOf(world.mode.seed, `pass/${passes++}`)))
      await sleep(500)
    }
  }
  await Promise.all([
    ...Array.from({ length: SALES_AT_ONCE }, keepSelling),
    ...Array.from({ length: PASSES_AT_ONCE }, keepBuying),
    breakThings(world, isOver),
  ])
  say('the time is over; waiting until everything is done')
  const books = await settle(world, operator)
  hasEnded = true
  await watching
  if (world.ended.signal.aborted || books === undefined) return
  await account(world, books)
}

/** What goes wrong in the model itself, or is answered as it must not be, is a finding as well. */
async function survive(world: World, work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!world.ended.signal.aborted) check(world, false, `an agent could not go on: ${String(error)}`)
  })
}

/** Open orders are brought to their end, and nothing else is done but reconciling, until all is at rest. */
async function settle(world: World, operator: Operator): Promise<Books | undefined> {
  const startedMs = world.history.nowMs()
  let [before, changedMs] = ['', startedMs]
  while (!world.ended.signal.aborted) {
    await windUp(world)
    await operator.decide()
    await operator.tend()
    const books = await readBooks(world)
    const left = findLeftOver(world, books)
    const now = JSON.stringify([left, world.chain.dump().length])
    const nowMs = world.history.nowMs()
    if (now !== before) [before, changedMs] = [now, nowMs]
    const isStill = nowMs - changedMs > REST_MS
    if (isStill) await operator.settleFound(true)
    if (isStill && left.length === 0) return books
    if (nowMs - changedMs > patienceMs(STUCK_MS) || nowMs - startedMs > patienceMs(MOST_MS)) {
      check(
        world,
        nowMs - startedMs <= patienceMs(MOST_MS),
        `nothing came to rest within ${Math.round((nowMs - startedMs) / 1_000)} s`,
      )
      return books
    }
    count(world, 'looks after the end')
    await sleep(LOOK_EVERY_MS)
  }
  return undefined
}

/**
 * Sellers deliver what is paid and buyers accept what is delivered, as agents do that see it in their `/me`.
 */
async function windUp(world: World): Promise<void> {
  for (const agent of world.agents) {
    const { status, json } = await world.ask(agent, 'me', 'GET', '/me')
    if (status !== 200) continue
    for (const { order_id: id } of json['orders_to_deliver'] as { order_id: string }[])
      await world.ask(agent, 'deliver', 'POST', '/market/deliver', { order_id: id, delivery: `for ${id}` })
    for (const { order_id: id } of json['deliveries_to_accept'] as { order_id: string }[])
      await world.ask(agent, 'accept', 'POST', '/market/accept', { order_id: id })
  }
}
