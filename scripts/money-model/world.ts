import { setTimeout as sleep } from 'node:timers/promises'
import { newAgent, register, type Agent, type World as TortureWorld } from '../torture/agent.ts'
import { createClient, type Answered } from '../torture/client.ts'
import { startHistory, type History } from '../torture/history.ts'
import { numbersFor } from '../torture/plan.ts'
import type { Chain } from './chain.ts'
import type { Network } from './network.ts'
import { measurePace, type Pace } from './pace.ts'
import type { SeenPayout } from './overtaken.ts'

/** A sum below this is not money (`/limits`). */
export const DUST_RAW = 10n ** 24n
/**
 * What should happen may take so long on an idle machine with a network that nobody disturbs: a round of
 * payouts lasts up to 20 s and lists what is due every 5 s, after a sweep of 2 s; and so it is with what comes
 * before it.
 */
const PATIENCE_MS = 30_000
/** And so long on this machine as it is now. */
export const patienceMs = ({ pace }: World, idleMs: number): number => idleMs * pace.stretch()
const LOOK_EVERY_MS = 2_000
/** After a fault the network has so long to find itself again: a killed worker's job is handed on after 8 s. */
const RECOVERY_MS = 10_000
/** When it should have. */
export const recoveredMs = (world: World): number => world.disturbedMs + patienceMs(world, RECOVERY_MS)
const MOST_TRIES = 30

/** An invoice that an agent was given, at an address that nobody else was ever given. */
export interface KnownInvoice {
  readonly id: string
  readonly agent: Agent
  readonly address: string
  readonly amountRaw: bigint
  /** Absent if it pays an order. */
  readonly days?: number
  /** The database was restored to a time before it. */
  isForgotten: boolean
}

/** An order as its two sides know it. */
export interface Sale {
  readonly id: string
  readonly seller: Agent
  readonly buyer: Agent
  readonly invoice: KnownInvoice
  readonly payoutAddress: string
  refundAddress: string | undefined
  /** Other orders name the same addresses. */
  readonly sharesAddresses: boolean
  isForgotten: boolean
}

export interface Finding {
  readonly what: string
  /** Milliseconds from the beginning. */
  readonly atMs: number
}

/** How long a run takes, and what it is not to do or not to ask for. */
export interface Mode {
  readonly seed: number
  readonly seconds: number
  /** The time to pay an order or an invoice. */
  readonly payBySeconds: number
  /** Kinds of faults that are left out. */
  readonly without: readonly string[]
  /** The venue may take its own addresses. */
  readonly allowsOwnAddresses: boolean
  /** One fault after the other, each once everything is at rest after the one before. */
  readonly isSingly: boolean
  /** Does not end with the first finding. */
  readonly keepsGoing: boolean
}

export interface World {
  readonly mode: Mode
  readonly network: Network
  readonly chain: Chain
  readonly history: History
  readonly agents: Agent[]
  readonly invoices: KnownInvoice[]
  readonly sales: Sale[]
  readonly findings: Finding[]
  /** Aborted by the first finding. */
  readonly ended: AbortController
  /** After each fault that came alone: how many milliseconds later everything was done. */
  readonly recoveries: Map<string, number[]>
  /** Figures of the run. */
  readonly counts: Map<string, number>
  /** Sends that were in the chain before the last restore: the database may not know them. */
  readonly orphans: Set<string>
  /**
   * Sends that the node did not stand by for a while: the service may take its time to find out that they are
   * there.
   */
  readonly doubted: Set<string>
  readonly seenPayouts: Map<string, SeenPayout>
  readonly startedAtMs: number
  readonly pace: Pace
  say(line: string): void
  treasury: string | undefined
  /** An agent has told the operator that its order is disputed. */
  isDisputed: boolean
  /** The invoice that the operator has recorded a payment of by mistake, until that is taken back. */
  mistaken: string | undefined
  /** Faults under way. */
  faults: number
  /** When the last one ended, in milliseconds of the history. */
  disturbedMs: number
  /** Resolves when nobody holds the agents back. */
  whenOpen: Promise<void>
  /** A request of an agent, sent again until it is answered by something other than a 5xx. */
  ask(
    agent: Agent | undefined,
    did: string,
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<Answered>
}

export const isWanted = ({ mode }: World, kind: string): boolean => !mode.without.includes(kind)

export function count(world: World, name: string, by = 1): void {
  world.counts.set(name, (world.counts.get(name) ?? 0) + by)
}

/** One comparison; what does not hold is a finding, told once, with the records of whatever it names. */
export function check(world: World, holds: boolean, what: string): void {
  count(world, 'checks')
  if (holds || world.findings.some((finding) => finding.what === what)) return
  world.findings.push({ what, atMs: world.history.nowMs() })
  world.say(`found: ${what}`)
  if (!world.mode.keepsGoing) world.ended.abort()
}

export async function openWorld(
  mode: Mode,
  network: Network,
  chain: Chain,
  agentCount: number,
  say: (line: string) => void,
): Promise<World> {
  const history = startHistory()
  const client = createClient([network.url], history)
  const world: World = {
    ...{
      mode,
      network,
      chain,
      history,
      agents: [],
      invoices: [],
      sales: [],
      findings: [],
      ended: new AbortController(),
    },
    ...{
      counts: new Map(),
      recoveries: new Map(),
      orphans: new Set(),
      doubted: new Set(),
      seenPayouts: new Map(),
      startedAtMs: Date.now(),
      pace: measurePace(),
      say,
      treasury: undefined,
      isDisputed: false,
      mistaken: undefined,
    },
    ...{ faults: 0, disturbedMs: 0, whenOpen: Promise.resolve() },
    async ask(agent, did, method, path, body) {
      for (let tries = 1; ; tries++) {
        await world.whenOpen
        const who = agent?.name ?? 'anyone'
        const answered = await client(method, path, {
          who,
          did,
          api: 0,
          token: agent?.token,
          ...(body && { body }),
        })
        check(world, answered.status !== 500, `${method} ${path} was answered 500`)
        const isAnswered = answered.status !== undefined && answered.status < 500
        if (isAnswered || tries >= MOST_TRIES || world.ended.signal.aborted) return answered
        await sleep(Math.min(200 * tries, 2_000))
      }
    },
  }
  const registry: TortureWorld = {
    ...{
      client,
      history,
      apis: 1,
      agents: [],
      posts: [],
      claims: [],
      coins: undefined,
      invoices: [],
      offers: [],
      orders: [],
      wrong: [],
    },
  }
  for (let index = 0; index < agentCount; index++) {
    const agent = newAgent(`a${index}`, numbersFor(mode.seed, `agent/${index}`))
    await register(registry, agent, undefined, 1)
    if (agent.id === undefined) throw new Error(`agent ${agent.name} could not register`)
    world.agents.push(agent)
  }
  return world
}

/** Notes an invoice; its address is nobody else's, whatever was restored in between. */
export function noteInvoice(world: World, agent: Agent, json: Record<string, unknown>): KnownInvoice {
  const [id, address] = [String(json['invoice_id']), String(json['address'])]
  const known = world.invoices.find((one) => one.id === id)
  if (known !== undefined) return known
  const days = json['days'] === undefined ? {} : { days: Number(json['days']) }
  const invoice = {
    id,
    agent,
    address,
    amountRaw: BigInt(String(json['amount_raw'])),
    ...days,
    isForgotten: false,
  }
  const other = world.invoices.find((one) => one.address === address)
  check(world, other === undefined, `the invoices ${id} and ${other?.id} have one address`)
  world.invoices.push(invoice)
  count(world, 'invoices')
  return invoice
}

/** A payment over the coin's network, on record as every request is. */
export function pay({ chain, history }: World, agent: Agent, address: string, amountRaw: bigint): void {
  const call = {
    atMs: history.nowMs(),
    tookMs: 0,
    who: agent.name,
    did: 'pay',
    method: 'nano',
    path: address,
    status: 200,
  }
  history.record({ ...call, marker: chain.pay(address, amountRaw), body: { amount_raw: String(amountRaw) } })
}

/**
 * Looks until `look` gives something. What does not come although nothing has disturbed the network for long
 * enough is a finding; what faults hold up is left to the end of the run.
 */
export async function until<T>(
  world: World,
  what: string | (() => string),
  look: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const startedMs = world.history.nowMs()
  while (!world.ended.signal.aborted) {
    const found = await look()
    if (found !== undefined) {
      count(world, 'checks')
      return found
    }
    const calmMs = world.history.nowMs() - Math.max(startedMs, recoveredMs(world))
    if (world.faults === 0 && calmMs > patienceMs(world, PATIENCE_MS)) {
      check(
        world,
        false,
        `${typeof what === 'string' ? what : what()}, after ${Math.round(calmMs / 1_000)} s without a fault`,
      )
      return undefined
    }
    await sleep(LOOK_EVERY_MS)
  }
  return undefined
}
