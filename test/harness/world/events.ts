import { setTimeout as sleep } from 'node:timers/promises'
import { ask, type Agent, type World } from './agent.ts'
import { askAtRest } from './at-rest.ts'
import type { StoredMarketOrder } from '../auditor/money.ts'
import { collectFindings, type Finding } from '../auditor/records.ts'
import type { Stored } from '../auditor/stored.ts'

/** An event as an agent was told of it. */
export interface ToldEvent {
  kind: string
  id: string
  state?: string
}

/** Less than the limit for an answer. */
const WAIT_SECONDS = 2
const PAUSE_MS = 200

/**
 * Reads an agent's events one page after the other until the time is over, alternately with a wait and
 * without.
 */
export async function followEvents(world: World, agent: Agent, isOver: () => boolean): Promise<void> {
  // Doesn't use the agent's random numbers, so that its actions depend on the seed alone.
  for (let turn = 0; !isOver(); turn++)
    if (
      agent.id === undefined ||
      !(await readNextEvents(world, agent, turn % 2 === 0 ? WAIT_SECONDS : 0, turn))
    )
      await sleep(PAUSE_MS)
}

/**
 * Reads the events after those that the agent has, and adds them to these.
 *
 * @param wait how many seconds the service waits for one
 * @param turn chooses the API process
 * @returns whether there were any
 */
async function readNextEvents(world: World, agent: Agent, wait: number, turn: number): Promise<boolean> {
  const after = agent.events.length
  const { status, json } = await ask(world, agent, 'events', 'GET', `/events?after=${after}&wait=${wait}`, {
    api: turn,
  })
  // Another request of the agent may have been answered in the meantime.
  if (status !== 200 || agent.events.length !== after) return false
  const { events, next, truncated } = json as {
    events: (ToldEvent & { cursor: string })[]
    next: string
    truncated: boolean
  }
  const isInOrder = events.every(({ cursor }, index) => Number(cursor) === after + 1 + index)
  if (!isInOrder || truncated || Number(next) !== after + events.length)
    world.wrongAnswers.push({
      what: `after event ${after} ${agent.id} was given ${events.map(({ cursor }) => cursor).join()}, next ${next}, truncated ${truncated}`,
      words: [agent.name],
    })
  for (const { kind, id, state } of events) agent.events.push({ kind, id, ...(state && { state }) })
  return events.length > 0
}

/**
 * Reads each agent's events to their end, and finds those that are missing or too many: each agent should
 * have exactly one for each stored message to it, verdict on its claims, agent that it referred and step of
 * its orders.
 *
 * @param orders as they were read with `stored`
 * @param readOrders reads them again: a deadline may have moved one on since
 */
export async function checkEvents(
  world: World,
  stored: Stored,
  orders: readonly StoredMarketOrder[],
  readOrders: () => Promise<readonly StoredMarketOrder[]>,
): Promise<Finding[]> {
  const { findings, addFinding } = collectFindings()
  const canRead = ({ id }: Agent): boolean =>
    id !== undefined && stored.agents.find(({ _id }) => _id === id)?.banned_at === undefined
  const readers: Agent[] = []
  for (const agent of world.agents.filter(canRead)) {
    const first = await askAtRest(() => ask(world, agent, 'last-events', 'GET', '/events?after=0&limit=1'))
    // If the token is the wrong one of two, checkAgents() reports it.
    if (first.status !== 200) continue
    while (await tryNextEvents(world, agent));
    readers.push(agent)
  }
  const versions = new Map((await readOrders()).map(({ _id, version }) => [`order ${_id}`, version]))
  /** Events that an order may have beyond those of its stored version. */
  const laterSteps = new Map(
    orders.map(({ _id, version }) => [`order ${_id}`, (versions.get(`order ${_id}`) ?? 0) - version]),
  )
  const authors = new Map(stored.claims.map(({ _id, agent_id: author }) => [_id, author]))
  for (const agent of readers) {
    const { id } = agent
    const expected = [
      ...stored.messages.filter(({ to }) => to === id).map(({ _id }) => `message ${_id}`),
      ...stored.verdicts
        .filter(({ claim_id: claim, by_author: byAuthor }) => authors.get(claim) === id && !byAuthor)
        .map(({ _id }) => `verdict ${_id}`),
      ...stored.agents
        .filter(({ ref }) => ref === id)
        .flatMap(({ _id, first_paid_at: paid }) => [
          `referral ${_id} registered`,
          ...(paid === undefined ? [] : [`referral ${_id} paying`]),
        ]),
      ...orders
        .filter(({ buyer_id: buyer, seller_id: seller }) => buyer === id || seller === id)
        .flatMap(({ _id, version }) => Array.from({ length: version + 1 }, () => `order ${_id}`)),
    ]
    const told = agent.events
      .filter(({ kind }) => COMPARED.has(kind))
      .map(
        ({ kind, id: about, state }) =>
          `${comparedKind(kind)} ${about}${kind === 'referral' ? ` ${state}` : ''}`,
      )
    /** How many more were expected than told, of each. */
    const missing = countEach(expected)
    for (const [what, count] of countEach(told)) missing.set(what, (missing.get(what) ?? 0) - count)
    for (const [what, count] of missing)
      if (count > 0 || -count > (laterSteps.get(what) ?? 0))
        addFinding(
          count > 0
            ? `${id} was not told of ${what} (${count} times)`
            : `${id} was told of ${what} ${-count} times too often`,
          what.split(' ')[1] ?? '',
        )
  }
  return findings
}

/** A proposal's endorsement is stored as a verdict. */
const comparedKind = (kind: string): string => (kind === 'endorsement' ? 'verdict' : kind)
const COMPARED = new Set(['message', 'verdict', 'endorsement', 'referral', 'order'])

/**
 * Reads the next events, with up to 5 attempts, since an answer may be lost or refused.
 *
 * @returns whether there were any
 */
async function tryNextEvents(world: World, agent: Agent): Promise<boolean> {
  for (let tries = 0; tries < 5; tries++) if (await readNextEvents(world, agent, 0, tries)) return true
  return false
}

function countEach(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}
