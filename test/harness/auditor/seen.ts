import { setTimeout as sleep } from 'node:timers/promises'
import type { Coins } from '../testbed/coins.ts'
import type { Monero } from '../testbed/monero.ts'
import type { Pace } from '../testbed/pace.ts'
import type { Stopped } from '../testbed/testbed.ts'
import type { Agent, World } from '../world/agent.ts'
import { readAllEvents } from '../world/events.ts'
import type { Call, FaultRecord } from '../world/history.ts'
import { readSelf, type SeenSelf } from './agents.ts'
import { readBackup, type SeenBackup } from './backups.ts'
import type { Finding } from './finding.ts'
import type { Level } from './levels.ts'
import { readLedger, readProofs, type SeenLedger } from './ledger.ts'
import { readMoney, type Moment, type StoredMoney } from './money.ts'
import type { SeenMarket } from './outside.ts'
import { readMonero, type SeenMonero } from './monero.ts'
import type { Recovery } from './recoveries.ts'
import { ANSWER_LIMIT_MS, type SeenJob, type SeenLog } from './service.ts'
import { readStored, type Stored } from './stored.ts'

/** An agent's address in a coin, undefined if it never named one, and the sum that arrived there. */
export interface Paid {
  address: string | undefined
  arrivedRaw: bigint
}

/** An agent, with what it knows and what it is told in the end. */
export interface SeenAgent extends Pick<Agent, 'name' | 'id' | 'orders' | 'received'> {
  /** Undefined if they could not be read. */
  events: Agent['events'] | undefined
  /** Undefined of one that never registered. */
  self?: SeenSelf | undefined
  paid?: Paid | undefined
  paidInMonero?: Paid | undefined
}

/** Everything that the checks judge: data alone, read once a network is at rest. */
export interface Seen {
  calls: Call[]
  faults: FaultRecord[]
  /** When all this was read. */
  now: Moment
  agents: SeenAgent[]
  /** What agents noticed by themselves. */
  noticed: Finding[]
  stored: Stored
  money: StoredMoney
  /** Market orders as they were read after the agents' events. */
  laterOrders: StoredMoney['orders']
  ledger: SeenLedger
  monero: SeenMonero | undefined
  /** Undefined of a run whose agents keep no account of a market. */
  market: SeenMarket | undefined
  /** Work that was left when nothing more of it was done, a phrase each. */
  left: string[]
  givenUp: SeenJob[]
  /** Errors that the service's processes logged, and documents that MongoDB's members did not have. */
  logs: SeenLog[]
  members: SeenLog[]
  stops: Stopped[]
  /** The reason as a string if no backup could be read; undefined if the run made no backups. */
  backup: SeenBackup | string | undefined
  recoveries: Recovery[]
  levels: Level[]
  /** Whether the service was asked for more than it can do: then answers may be late. */
  isOverload: boolean
  /** How many times as slow as an idle machine this one was during a late call, by its number. */
  slowdowns: Map<number, number>
}

/** Where to read. */
export interface Place {
  url: string
  mongoUrl: string
  redisUrl: string
  /** Settings of the operator's commands. */
  env: Readonly<Record<string, string>>
  /** For files of the verifiers. */
  folder: string
  coins?: Coins | undefined
  monero?: Monero | undefined
  pace?: Pace | undefined
}

/** How often the whole ledger is read until it is at rest; what the last reading lacks is a finding. */
const MAX_READINGS = 20
const READ_AGAIN_MS = 500

/** What is seen while the processes still run; what they logged is read after it. */
export type Gathered = Omit<Seen, 'logs' | 'members' | 'stops' | 'recoveries'>
/** The part of it that only whoever ran the network knows. */
type Told = 'left' | 'givenUp' | 'levels' | 'isOverload'

/** Reads everything that agents, the operator and anyone can read; nothing may be at work any more. */
export async function gather(world: World, place: Place): Promise<Omit<Gathered, Told>> {
  const { url, mongoUrl, env, folder, monero, pace } = place
  const { history } = world
  // What is asked from here on reads again what was read before.
  const calls = [...history.calls]
  const { stored, entries } = await readAtRest(mongoUrl, url)
  const { money, paid } = await readPaid(world, place)
  const ledger = { entries, ...(await readProofs(url, stored, folder)) }
  const agents: SeenAgent[] = []
  for (const agent of world.agents) {
    const { name, id, orders, received } = agent
    const self = id === undefined ? undefined : await readSelf(world, agent)
    const isRead = self !== undefined && (await readAllEvents(world, agent))
    agents.push({
      ...{ name, id, orders, received, self, events: isRead ? agent.events : undefined },
      ...paid.get(name),
    })
  }
  const startedAtMs = performance.now() - history.nowMs()
  const late = calls.filter(({ tookMs }) => tookMs > ANSWER_LIMIT_MS)
  const slowdowns = late.map(({ n, atMs, tookMs }) => {
    const fromMs = startedAtMs + atMs
    return [n, pace?.worstBetween(fromMs, fromMs + tookMs) ?? 1] as const
  })
  return {
    calls,
    faults: history.faults,
    now: { seconds: Date.now() / 1_000, ms: history.nowMs() },
    agents,
    noticed: world.wrongAnswers,
    stored,
    money,
    laterOrders: (await readMoney(mongoUrl)).orders,
    ledger,
    monero: monero && (await readMonero(monero, money)),
    market: undefined,
    // Not at the same time: the gates are in this process, and this computes.
    backup: await readBackup(calls, env, mongoUrl),
    slowdowns: new Map(slowdowns),
  }
}

/** Reads what INSIDE judges, which is the same for every run. */
export async function gatherRecords(
  { history, wrongAnswers }: Pick<World, 'history' | 'wrongAnswers'>,
  { mongoUrl, url }: Place,
): Promise<Gathered> {
  const { stored, entries } = await readAtRest(mongoUrl, url)
  return {
    ...{ stored, money: await readMoney(mongoUrl), faults: history.faults, noticed: wrongAnswers },
    ledger: { entries, receipts: [], objections: [], isIntact: true },
    now: { seconds: Date.now() / 1_000, ms: history.nowMs() },
    ...{ calls: [], agents: [], laterOrders: [], left: [], givenUp: [], levels: [], slowdowns: new Map() },
    ...{ monero: undefined, market: undefined, backup: undefined, isOverload: true },
  }
}

/** Reads the records of money, and what arrived at the agents' addresses, with no payout between the two. */
async function readPaid(
  { agents }: World,
  { mongoUrl, coins, monero }: Place,
): Promise<{ money: StoredMoney; paid: Map<string, Pick<SeenAgent, 'paid' | 'paidInMonero'>> }> {
  const statesOf = ({ transfers }: StoredMoney): string =>
    transfers.map(({ _id, state }) => `${_id} ${state}`).join()
  for (let money = await readMoney(mongoUrl), tries = 1; ; tries++) {
    const paid = new Map<string, Pick<SeenAgent, 'paid' | 'paidInMonero'>>()
    for (const { name } of agents)
      paid.set(name, {
        paid: coins && { address: coins.addressOf(name), arrivedRaw: coins.arrivedAt(name) },
        paidInMonero: monero && {
          address: monero.knownAddress(name),
          arrivedRaw: await monero.arrivedAt(name),
        },
      })
    const before = statesOf(money)
    money = await readMoney(mongoUrl)
    if (statesOf(money) === before || tries === MAX_READINGS) return { money, paid }
  }
}

/**
 * Reads the database and the published ledger once all entries are numbered and sealed. They may not be at
 * first, since order deadlines still write entries. After MAX_READINGS it returns what it has.
 */
async function readAtRest(
  mongoUrl: string,
  url: string,
): Promise<{ stored: Stored; entries: SeenLedger['entries'] }> {
  for (let tries = 1; ; tries++) {
    const stored = await readStored(mongoUrl)
    const entries = await readLedger(url)
    const count = stored.entries.length
    const isSealed = stored.seals.at(-1)?.to_id === count && stored.seals.every(({ signed }) => signed)
    const isAtRest = stored.pending.length === 0 && isSealed && entries.length === count
    if (isAtRest || tries === MAX_READINGS) return { stored, entries }
    await sleep(READ_AGAIN_MS)
  }
}
