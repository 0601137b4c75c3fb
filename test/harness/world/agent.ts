import { hash } from 'node:crypto'
import { solvePuzzle } from '../../../client/puzzle-solver.ts'
import { SECOND_MS } from '../../../shared/platform/time.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import type { SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'
import type { Finding } from '../auditor/finding.ts'
import type { Answered, Client } from './client.ts'
import type { KnownInvoice, KnownOrder } from './coin-actions.ts'
import type { Coins } from '../testbed/coins.ts'
import type { ToldEvent } from './events.ts'
import { fateOf, type History } from './history.ts'
import type { Monero } from '../testbed/monero.ts'

/** A work order, as its agent knows it. */
export interface Order {
  id: string
  prefix: string
  bits: number
  days: number
  /** Nonces that it has found and that are not known to count yet. */
  shares: string[]
}

/** A simulated agent and its state. */
export interface Agent {
  /** Such as `a7`; the markers of its writes begin with it. */
  readonly name: string
  readonly numbers: SeededNumbers
  id: string | undefined
  token: string
  /** A token that may have replaced the other, because the answer to a rotation was lost. */
  otherToken: string | undefined
  readonly orders: Order[]
  /** Contents of the messages that it has read, by id. */
  readonly received: Map<string, string>
  /** Its events so far, without gaps. */
  readonly events: ToldEvent[]
  /** How many markers it has used: see nextMarker(). */
  markers: number
  /** How many of its posts were acknowledged. */
  posts: number
}

/** What the agents share: the client, the history, and the records that they know of. */
export interface World {
  readonly client: Client
  readonly history: History
  /** How many API processes there are. */
  readonly apis: number
  readonly agents: Agent[]
  readonly posts: { id: string; by: string }[]
  readonly claims: { id: string; by: string; kind: string }[]
  /** The coin's network, if there is one. */
  readonly coins?: Coins | undefined
  /** The second coin's, if there is one. */
  readonly monero?: Monero | undefined
  readonly invoices: KnownInvoice[]
  readonly offers: { id: string; by: string }[]
  readonly orders: KnownOrder[]
  /** Findings of the workload itself, by what an agent was answered. */
  readonly wrongAnswers: Finding[]
}

/** Makes a world in which there is nobody yet, and nothing is known. */
export const newWorld = <Base extends Pick<World, 'client' | 'history' | 'apis'>>(base: Base) => ({
  ...base,
  ...{ agents: [] as Agent[], posts: [] as World['posts'], claims: [] as World['claims'] },
  ...{ invoices: [] as World['invoices'], offers: [] as World['offers'], orders: [] as World['orders'] },
  wrongAnswers: [] as Finding[],
})

/** Makes an agent that has done nothing yet, not even registered. */
export function newAgent(name: string, numbers: SeededNumbers): Agent {
  return {
    name,
    numbers,
    id: undefined,
    token: '',
    otherToken: undefined,
    orders: [],
    received: new Map(),
    events: [],
    markers: 0,
    posts: 0,
  }
}

/** The ids of the agents that are registered, by the agents' names. */
export const idsByName = (agents: readonly Pick<Agent, 'name' | 'id'>[]): Map<string, string> =>
  new Map(agents.flatMap(({ name, id }) => (id === undefined ? [] : [[name, id] as const])))

/**
 * A text that no other write of the run contains, such as `a7-12.`: by it the write is found in the database.
 */
export const nextMarker = (agent: Agent): string => `${agent.name}-${++agent.markers}.`

/**
 * Sends a request of an agent with its token, once, even if no answer comes.
 *
 * @param did a name for the history
 * @param options `api`: which API process, random if absent; the others are those of the client
 */
export async function ask(
  world: World,
  agent: Agent,
  did: string,
  method: 'GET' | 'POST',
  path: string,
  options: { body?: unknown; marker?: string; api?: number; keepsAnswer?: boolean } = {},
): Promise<Answered> {
  const { api = agent.numbers.below(world.apis), ...rest } = options
  const answered = await world.client(method, path, {
    who: agent.name,
    did,
    api,
    token: agent.token,
    ...rest,
  })
  // The rotation whose answer was lost has taken place after all (or not): use the other token from now on.
  if (answered.error === 'invalid_token' && agent.otherToken !== undefined)
    [agent.token, agent.otherToken] = [agent.otherToken, agent.token]
  return answered
}

interface ChallengeAnswer {
  challenge_id: string
  puzzle: { kind: string; question: string; answer_format: string }
  pow: { prefix: string; difficulty_bits: number }
}

/**
 * Sends a registration once. If it succeeds, the agent has its id and its token; else it is as before.
 *
 * @param ref the id of the agent that referred it
 * @param dice chooses the API process; a multiple of 4 registers twice at once, which must make one agent
 */
export async function register(
  { client, wrongAnswers }: Pick<World, 'client' | 'wrongAnswers'>,
  agent: Agent,
  ref: string | undefined,
  dice: number,
): Promise<void> {
  const given = await client('GET', '/challenge', { who: agent.name, did: 'challenge', api: dice })
  if (given.status !== 200) return
  const challenge = given.json as unknown as ChallengeAnswer
  const marker = nextMarker(agent)
  const body = {
    challenge_id: challenge.challenge_id,
    answer: solvePuzzle(challenge.puzzle),
    pow: findShares(challenge.pow.prefix, challenge.pow.difficulty_bits, 1)[0],
    handle: marker,
    ...(ref === undefined ? {} : { ref }),
  }
  const answers = await Promise.all(
    (dice % 4 === 0 ? [dice, dice + 1] : [dice]).map((api) =>
      client('POST', '/register', { who: agent.name, did: 'register', api, body, marker }),
    ),
  )
  const [registered, ...more] = answers.filter(({ status }) => status === 201)
  if (more.length > 0) wrongAnswers.push({ what: 'one challenge registered two agents', words: [marker] })
  if (registered === undefined) return
  agent.id = String(registered.json['agent_id'])
  agent.token = String(registered.json['token'])
}

/** Finds the first `count` shares without the code under test: decimal nonces. */
export function findShares(prefix: string, bits: number, count: number): string[] {
  const shares: string[] = []
  for (let nonce = 0; shares.length < count; nonce++)
    if (isShare(prefix, String(nonce), bits)) shares.push(String(nonce))
  return shares
}

/** Whether a nonce's hash with the prefix begins with `bits` zero bits, without the code under test. */
export function isShare(prefix: string, nonce: string, bits: number): boolean {
  return BigInt(`0x${hash('sha256', `${prefix}:${nonce}`, 'hex')}`) >> BigInt(256 - bits) === 0n
}

/** Asks for a work order of `days` days; if it is given, notes it with all its shares. */
export async function orderWork(world: World, agent: Agent, days: number): Promise<void> {
  const { status, json } = await ask(world, agent, 'order-work', 'POST', '/invoice', {
    body: { currency: 'pow', days },
  })
  if (status !== 201) return
  const order = json as unknown as {
    order_id: string
    prefix: string
    difficulty_bits: number
    shares_required: number
  }
  const { order_id: id, prefix, difficulty_bits: bits } = order
  agent.orders.push({ id, prefix, bits, days, shares: findShares(prefix, bits, order.shares_required) })
}

/**
 * Submits nonces.
 *
 * @param twice sends the same request twice at once, to two API processes
 * @returns true if one of the requests was accepted
 */
export async function submitWork(
  world: World,
  agent: Agent,
  order: Order,
  nonces: readonly string[],
  twice: boolean,
): Promise<boolean> {
  const api = agent.numbers.below(world.apis)
  const answers = await Promise.all(
    (twice ? [api, api + 1] : [api]).map((target) =>
      ask(world, agent, 'submit-work', 'POST', '/work/submit', {
        api: target,
        body: { order_id: order.id, nonces },
      }),
    ),
  )
  return answers.some((answer) => fateOf(answer) === 'yes')
}

/** Patient, since on a busy machine the service may refuse requests as unavailable. */
const REGISTERED = { limitMs: 20 * SECOND_MS, everyMs: SECOND_MS }

/**
 * Registers an agent and buys its first pass with work, before any fault.
 *
 * @param ref the id of the agent that referred it
 * @throws TimeoutError if that does not succeed in time
 */
export async function registerWithPass(
  world: World,
  agent: Agent,
  ref: string | undefined,
  days: number,
): Promise<void> {
  const tryRegister = async (): Promise<string | undefined> => {
    await register(world, agent, ref, 1)
    return agent.id
  }
  await waitFor(`the registration of ${agent.name} before any fault`, tryRegister, REGISTERED)
  const tryWork = async (): Promise<true | undefined> => {
    if (agent.orders.length === 0) await orderWork(world, agent, days)
    const [order] = agent.orders
    const isPaid = order !== undefined && (await submitWork(world, agent, order, order.shares, false))
    return isPaid ? true : undefined
  }
  await waitFor(`the work of ${agent.name} for a pass before any fault`, tryWork, REGISTERED)
}
