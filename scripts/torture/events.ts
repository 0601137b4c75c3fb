import { setTimeout as sleep } from 'node:timers/promises'
import { ask, type Agent, type World } from './agent.ts'
import { askAtRest } from './at-rest.ts'
import type { StoredMarketOrder } from './check-coins.ts'
import { collectFindings, type Finding } from './check-records.ts'
import type { Stored } from './stored.ts'

/** What an agent was told, in the order in which it was. */
export interface Told {
  kind: string
  id: string
  state?: string
}

/** Less than every request is to be answered within. */
const WAIT_SECONDS = 2
const PAUSE_MS = 200

/** Follows an agent's events until the time is over, one answer after the other. */
export async function followEvents(world: World, agent: Agent, isOver: () => boolean): Promise<void> {
  // Not by the agent's dice: what it does beside this is the seed's.
  for (let turn = 0; !isOver(); turn++)
    if (agent.id === undefined || !(await readOn(world, agent, turn % 2 === 0 ? WAIT_SECONDS : 0, turn)))
      await sleep(PAUSE_MS)
}

/** @returns whether there were any */
async function readOn(world: World, agent: Agent, wait: number, turn: number): Promise<boolean> {
  const after = agent.told.length
  const { status, json } = await ask(world, agent, 'events', 'GET', `/events?after=${after}&wait=${wait}`, {
    api: turn,
  })
  // Of two questions at once the other may have been answered meanwhile.
  if (status !== 200 || agent.told.length !== after) return false
  const { events, next, truncated } = json as {
    events: (Told & { cursor: string })[]
    next: string
    truncated: boolean
  }
  const isInOrder = events.every(({ cursor }, index) => Number(cursor) === after + 1 + index)
  if (!isInOrder || truncated || Number(next) !== after + events.length)
    world.wrong.push({
      what: `after event ${after} ${agent.id} was given ${events.map(({ cursor }) => cursor).join()}, next ${next}, truncated ${truncated}`,
      words: [agent.name],
    })
  for (const { kind, id, state } of events) agent.told.push({ kind, id, ...(state && { state }) })
  return events.length > 0
}

/**
 * Each agent was told of all that is stored, once: its messages, the verdicts on its claims, the agents that it
 * referred, each step of its orders.
 */
export async function checkEvents(
  world: World,
  stored: Stored,
  orders: readonly StoredMarketOrder[],
): Promise<Finding[]> {
  const { findings, say } = collectFindings()
  const authors = new Map(stored.claims.map(({ _id, agent_id: author }) => [_id, author]))
  for (const agent of world.agents) {
    const { id } = agent
    if (id === undefined || stored.agents.find(({ _id }) => _id === id)?.banned_at !== undefined) continue
    const first = await askAtRest(() => ask(world, agent, 'last-events', 'GET', '/events?after=0&limit=1'))
    // Which of two tokens is good is another check's affair.
    if (first.status !== 200) continue
    while (await askAtRestUntilTold(world, agent));
    const expected = [
      ...stored.messages.filter(({ to }) => to === id).map(({ _id }) => `message ${_id}`),
      ...stored.verdicts
        .filter(({ claim_id: claim, by_author: own }) => authors.get(claim) === id && !own)
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
    const told = agent.told
      .filter(({ kind }) => COMPARED.has(kind))
      .map(
        ({ kind, id: about, state }) => `${wordOf(kind)} ${about}${kind === 'referral' ? ` ${state}` : ''}`,
      )
    const left = countEach(expected)
    for (const [what, count] of countEach(told)) left.set(what, (left.get(what) ?? 0) - count)
    for (const [what, count] of left)
      if (count !== 0)
        say(
          count > 0
            ? `${id} was not told of ${what} (${count} times)`
            : `${id} was told of ${what} ${-count} times too often`,
          what.split(' ')[1] ?? '',
        )
  }
  return findings
}

const wordOf = (kind: string): string => (kind === 'endorsement' ? 'verdict' : kind)
const COMPARED = new Set(['message', 'verdict', 'endorsement', 'referral', 'order'])

/** @returns whether there was anything more */
async function askAtRestUntilTold(world: World, agent: Agent): Promise<boolean> {
  for (let tries = 0; tries < 5; tries++) if (await readOn(world, agent, 0, tries)) return true
  return false
}

function countEach(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}
