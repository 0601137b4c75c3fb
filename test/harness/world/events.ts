import { setTimeout as sleep } from 'node:timers/promises'
import { ask, type Agent, type World } from './agent.ts'
import { askAtRest } from './at-rest.ts'

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
 * Reads an agent's events to their end. @returns false if its token is the wrong one of two, or it is banned
 */
export async function readAllEvents(world: World, agent: Agent): Promise<boolean> {
  const first = await askAtRest(() => ask(world, agent, 'last-events', 'GET', '/events?after=0&limit=1'))
  if (first.status !== 200) return false
  while (await tryNextEvents(world, agent));
  return true
}

/**
 * Reads the next events, with up to 5 attempts, since an answer may be lost or refused.
 *
 * @returns whether there were any
 */
async function tryNextEvents(world: World, agent: Agent): Promise<boolean> {
  for (let tries = 0; tries < 5; tries++) if (await readNextEvents(world, agent, 0, tries)) return true
  return false
}
