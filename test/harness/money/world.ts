import { setTimeout as sleep } from 'node:timers/promises'
import { newAgent, register, type Agent } from '../world/agent.ts'
import type { Answered } from '../world/client.ts'
import { payOnRecord } from '../testbed/coins.ts'
import type { FaultKind } from '../faults/table.ts'
import { numbersFor } from '../world/numbers.ts'
import { openChain, type Chain } from '../testbed/chain.ts'
import { namesIn } from '../auditor/finding.ts'
import type { Network } from '../run.ts'
import type { SeenPayout } from './overtaken.ts'

/**
 * How long anything may take on an idle machine without faults: a round of payouts lasts up to 20 s and lists
 * what is due every 5 s, after a sweep of 2 s.
 */
const PATIENCE_MS = 30_000
/** How long something may take now that takes `idleMs` on an idle machine. */
export const patienceMs = ({ pace }: Market, idleMs: number): number => idleMs * pace.slowdown()
const LOOK_EVERY_MS = 2_000
/**
 * How long the network may take to work again after a fault: a killed worker's job is handed on after 8 s.
 */
const RECOVERY_MS = 10_000
/** When the network should work again after the last fault, in milliseconds of the history. */
export const recoveredAtMs = (world: Market): number =>
  world.history.lastFaultEndMs + patienceMs(world, RECOVERY_MS)
const MOST_TRIES = 30

/** An invoice that an agent was given. */
export interface KnownInvoice {
  readonly id: string
  readonly agent: Agent
  readonly address: string
  readonly amountRaw: bigint
  /** Absent if it pays an order. */
  readonly days?: number
  /** Whether the database was restored to a time before it. */
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
  /** Whether other orders name the same addresses. */
  readonly sharesAddresses: boolean
  isForgotten: boolean
}

/** What agents may try besides. */
export const TRICKS = ['own-addresses', 'crumbs'] as const
export type Trick = (typeof TRICKS)[number]

/** How long a run takes, and what happens in it. */
export interface Mode {
  readonly seed: number
  readonly seconds: number
  /** The time to pay an order or an invoice. */
  readonly payBySeconds: number
  readonly kinds: readonly FaultKind[]
  readonly tricks: readonly Trick[]
  /** No finding if the venue accepts its own addresses to pay to. */
  readonly allowsOwnAddresses: boolean
  /** Causes each fault only once all work is done after the one before. */
  readonly oneFaultAtATime: boolean
  /** Does not end with the first finding. */
  readonly keepsGoing: boolean
}

/** Everything that the parts of a run share. */
export interface Market extends Network {
  readonly mode: Mode
  readonly chain: Chain
  readonly agents: Agent[]
  readonly invoices: KnownInvoice[]
  readonly sales: Sale[]
  /** Aborted by the first finding, unless the run keeps going. */
  readonly ended: AbortController
  /** How many milliseconds after each fault that came alone all work was done, by the kind of fault. */
  readonly recoveries: Map<string, number[]>
  /** Figures of the run, by name. */
  readonly counts: Map<string, number>
  /** Sends that were in the chain before the last restore: the database may not know them. */
  readonly orphanedSends: Set<string>
  /** Sends that the node denied for a while: the service may take longer to find that they are there. */
  readonly doubtedSends: Set<string>
  readonly seenPayouts: Map<string, SeenPayout>
  readonly startedAtMs: number
  treasury: string | undefined
  /** Whether an order was seen as disputed since the operator last decided disputes. */
  isDisputed: boolean
  /** The invoice for which the operator has recorded a payment by mistake, until that is taken back. */
  mistakenInvoiceId: string | undefined
  /** Pending while the network is stopped for a restore; requests wait for it. */
  whenServed: Promise<void>
  /**
   * Sends a request, and again until it is answered with something other than a 5xx, up to MOST_TRIES times.
   *
   * @param agent undefined: without a token
   * @param did names the request in the history
   * @returns the last answer; its status is undefined if there was none
   */
  ask(
    agent: Agent | undefined,
    did: string,
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<Answered>
}

/** Adds to a figure of the run. */
export function count(world: Market, name: string, by = 1): void {
  world.counts.set(name, (world.counts.get(name) ?? 0) + by)
}

/** Counts one comparison. If it does not hold, `what` becomes a finding, once for the same text. */
export function check(world: Market, holds: boolean, what: string): void {
  count(world, 'checks')
  if (holds || world.wrongAnswers.some((finding) => finding.what === what)) return
  world.wrongAnswers.push({ what, words: namesIn(what), atMs: world.history.nowMs() })
  world.say(`found: ${what}`)
  if (!world.mode.keepsGoing) world.ended.abort()
}

/** Counts one comparison; what is wrong becomes findings. */
export function checkNone(world: Market, wrong: readonly string[]): void {
  if (wrong.length === 0) count(world, 'checks')
  for (const what of wrong) check(world, false, what)
}

/** Makes the world of a run, with `agentCount` registered agents. @throws Error if one cannot register */
export async function openWorld(network: Network, mode: Mode, agentCount: number): Promise<Market> {
  const world: Market = {
    ...network,
    mode,
    chain: openChain(network.coins),
    agents: [],
    invoices: [],
    sales: [],
    ended: new AbortController(),
    counts: new Map(),
    recoveries: new Map(),
    orphanedSends: new Set(),
    doubtedSends: new Set(),
    seenPayouts: new Map(),
    startedAtMs: Date.now(),
    treasury: undefined,
    isDisputed: false,
    mistakenInvoiceId: undefined,
    whenServed: Promise.resolve(),
    async ask(agent, did, method, path, body) {
      for (let tries = 1; ; tries++) {
        await world.whenServed
        const who = agent?.name ?? 'anyone'
        const answered = await world.client(method, path, {
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
  for (let index = 0; index < agentCount; index++) {
    const agent = newAgent(`a${index}`, numbersFor(mode.seed, `agent/${index}`))
    await register(world, agent, undefined, 1)
    if (agent.id === undefined) throw new Error(`agent ${agent.name} could not register`)
    world.agents.push(agent)
  }
  return world
}

/**
 * Notes an invoice that an agent was given, and checks that no other invoice has its address, even over a
 * restore.
 */
export function addInvoice(world: Market, agent: Agent, json: Record<string, unknown>): KnownInvoice {
  const [id, address] = [String(json['invoice_id']), String(json['address'])]
  const known = world.invoices.find((invoice) => invoice.id === id)
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

/** Makes a confirmed payment over the coin's network, and records it like a request. */
export const pay = ({ coins, history }: Market, agent: Agent, address: string, amountRaw: bigint): void =>
  payOnRecord(coins, history, { who: agent.name, address, amountRaw, invoiceId: undefined })

/**
 * Calls `look` every two seconds until it returns something. If it returns nothing although there was no
 * fault for long enough, `what` becomes a finding.
 *
 * @param what a sentence that says what did not happen
 * @returns what `look` gave; undefined after a finding or at the end of the run
 */
export async function until<T>(
  world: Market,
  what: string | (() => string),
  look: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const startedMs = world.history.nowMs()
  while (!world.ended.signal.aborted) {
    const result = await look()
    if (result !== undefined) {
      count(world, 'checks')
      return result
    }
    const calmMs = world.history.nowMs() - Math.max(startedMs, recoveredAtMs(world))
    if (world.history.faultsUnderWay === 0 && calmMs > patienceMs(world, PATIENCE_MS)) {
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
