import type { Context } from '../shared/context.ts'
import { isOutage, unavailable } from '../shared/platform/database.ts'
import { untilAborted, withDeadline } from '../shared/platform/deadline.ts'
import { Refusal } from '../shared/platform/errors.ts'
import { maxConnectionsFor, readDescriptorLimit } from '../shared/platform/limit-connections.ts'
import { MAX_WAITS, MAX_WAITS_OF_AGENT } from '../shared/platform/limits.ts'
import { SECOND_MS } from '../shared/platform/time.ts'
import { overloaded } from './gate/gate.ts'

/*
 * Callers that wait for events (`wait` of GET /events).
 *
 * As long as anybody waits, one read each BEAT_MS finds the agents for whom something new is in the database,
 * and those of them who wait look what it is. A mark has its time before others can see it: so each read goes
 * back a little behind the one before, and now and then one goes back far. Besides, each wait ends with a look.
 *
 * A waiting request takes no room from requests at work.
 */

/** What a waiter found when it looked. */
export interface Look {
  /** Whether there is something to answer with. */
  found: boolean
  /** The number of the agent's last event at that time. */
  seq: number
}

export interface Waits {
  /**
   * Waits for something to answer an agent with. Resolves when `look` finds something, the time is over, or
   * the wait is ended early: by end(), or by a newer wait of an agent that has MAX_WAITS_OF_AGENT already.
   *
   * @throws Refusal `unavailable` if too many wait; the reason of `signal` if that is aborted
   */
  wait(agentId: string, seconds: number, look: () => Promise<Look>, signal: AbortSignal): Promise<void>
  /** Ends all waits, and from then on each wait at once. */
  end(): void
  /** Returns how many requests wait. */
  count(): number
}

const BEAT_MS = 250
/** How far a read goes back behind the beginning of the last one: longer than most writes take. */
const BACK_MS = 2 * SECOND_MS
/** How far every FAR_EVERY-th read goes back: longer than a write may take. */
const FAR_BACK_MS = 15 * SECOND_MS
const FAR_EVERY = 20
const READ_LIMIT_MS = 5 * SECOND_MS
/** The part of a process's connections that may wait. */
const WAITING_SHARE = 3 / 4
/** The pause after a look that failed. */
const LOOK_AGAIN_MS = 500
/** A look may take at least this long, even at the end of its wait. */
const LEAST_LOOK_MS = 500
/** Agents whose waits are ended at a time, and the pause before the next ones. */
const ENDED_TOGETHER = 200
const ENDED_EVERY_MS = 20

/** A waiting request. */
interface Waiter {
  /** The agent's last event at the last look. */
  seq: number
  /** Set if a newer wait of the agent has ended this one. */
  isOver: boolean
  /** Makes it look again: at once, or as soon as the look that is under way has ended. */
  wake(): void
}

/** Creates the waits of this process. */
export function createWaits(ctx: Pick<Context, 'database' | 'events' | 'log'>): Waits {
  /** By agent. */
  const waiters = new Map<string, Set<Waiter>>()
  /** Each wait holds a connection, and other requests need some too. */
  const maxCount = Math.min(MAX_WAITS, Math.floor(maxConnectionsFor(readDescriptorLimit()) * WAITING_SHARE))
  let count = 0
  let ended = false
  /** Set while anybody waits. */
  let nextBeat: NodeJS.Timeout | undefined
  let beats = 0
  /** When the last read that succeeded began, by the database's clock. */
  let readAtMs = 0

  /** Makes all waiting requests of an agent look again. */
  function wake(agentId: string): void {
    for (const waiter of waiters.get(agentId) ?? []) waiter.wake()
  }

  /** Wakes those for whom there is something new, and comes again while anybody waits. */
  async function beat(): Promise<void> {
    try {
      await wakeForNews()
    } catch (error) {
      if (!isDatabaseAway(error))
        ctx.log.error({ err: error }, 'the events that callers wait for could not be read')
    }
    nextBeat = count === 0 || ended ? undefined : setTimeout(() => void beat(), BEAT_MS)
  }

  async function wakeForNews(): Promise<void> {
    const nowMs = ctx.database.now()
    const sinceMs = readAtMs - (beats++ % FAR_EVERY === 0 ? FAR_BACK_MS : BACK_MS)
    const { marked, numbered } = await withDeadline(ctx.events.listNews(sinceMs), READ_LIMIT_MS, unavailable)
    readAtMs = nowMs
    for (const agentId of marked) wake(agentId)
    for (const [agentId, last] of numbered)
      if ([...(waiters.get(agentId) ?? [])].some(({ seq }) => last > seq)) wake(agentId)
  }

  /**
   * Adds a waiting request of an agent; if the agent has MAX_WAITS_OF_AGENT already, its oldest is ended.
   *
   * @throws Refusal `unavailable` if too many wait
   */
  function addWaiter(agentId: string): Waiter {
    const ofAgent = waiters.get(agentId) ?? new Set()
    const staying = [...ofAgent].filter(({ isOver }) => !isOver)
    const [oldest] = staying
    if (oldest !== undefined && staying.length >= MAX_WAITS_OF_AGENT) {
      oldest.isOver = true
      oldest.wake()
    } else if (count >= maxCount) throw overloaded()
    const waiter: Waiter = { seq: 0, isOver: false, wake: () => undefined }
    ofAgent.add(waiter)
    waiters.set(agentId, ofAgent)
    count++
    if (nextBeat === undefined) {
      // What was there before is found by the first look of each wait.
      readAtMs = ctx.database.now()
      nextBeat = setTimeout(() => void beat(), BEAT_MS)
    }
    return waiter
  }

  function removeWaiter(agentId: string, waiter: Waiter): void {
    const ofAgent = waiters.get(agentId)
    if (ofAgent?.delete(waiter) !== true) return
    count--
    if (ofAgent.size === 0) waiters.delete(agentId)
  }

  /** Wakes the requests of these agents, some agents at a time, since each request is then answered. */
  function wakeInParts(agentIds: string[]): void {
    agentIds.splice(0, ENDED_TOGETHER).forEach(wake)
    if (agentIds.length > 0) setTimeout(wakeInParts, ENDED_EVERY_MS, agentIds)
  }

  return {
    async wait(agentId, seconds, look, signal) {
      if (ended) return
      const untilMs = performance.now() + seconds * SECOND_MS
      const waiter = addWaiter(agentId)
      try {
        for (;;) {
          signal.throwIfAborted()
          const woken = Promise.withResolvers<void>()
          waiter.wake = woken.resolve
          const looked = await lookInTime(look, untilMs)
          waiter.seq = looked?.seq ?? 0
          const leftMs = untilMs - performance.now()
          if (looked?.found === true || leftMs <= 0 || waiter.isOver || ended) return
          const again = looked === undefined ? LOOK_AGAIN_MS * (1 + Math.random()) : leftMs
          const timer = setTimeout(woken.resolve, Math.min(leftMs, again))
          await untilAborted(woken.promise, signal).finally(() => clearTimeout(timer))
        }
      } finally {
        removeWaiter(agentId, waiter)
      }
    },
    end() {
      if (ended) return
      ended = true
      clearTimeout(nextBeat)
      wakeInParts([...waiters.keys()])
    },
    count: () => count,
  }
}

/**
 * Looks, and returns what was found; undefined if the database was out of reach. A look may take the time that
 * is left of the wait, at least LEAST_LOOK_MS.
 */
async function lookInTime(look: () => Promise<Look>, untilMs: number): Promise<Look | undefined> {
  const limitMs = Math.max(untilMs - performance.now(), LEAST_LOOK_MS)
  try {
    return await withDeadline(look(), limitMs, unavailable)
  } catch (error) {
    if (isDatabaseAway(error)) return undefined
    throw error
  }
}

/** Whether an error says that the database is out of reach. */
const isDatabaseAway = (error: unknown): boolean =>
  isOutage(error) || (error instanceof Refusal && error.code === 'unavailable')
