import type { Context } from '../../shared/context.ts'
import { onHint } from '../../shared/events/mark.ts'
import { withDeadline } from '../../shared/platform/deadline.ts'
import { isOutage, unavailable } from '../../shared/platform/database.ts'
import { MAX_WAITS, MAX_WAITS_OF_AGENT } from '../../shared/platform/limits.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import { overloaded } from './gate.ts'
import { maxConnectionsFor, readDescriptorLimit } from './server.ts'

/*
 * Callers that wait for events (`wait` of GET /events).
 *
 * Only MongoDB says whether an agent has new events. A hint, from this process or over Redis from another,
 * says when to look: that something is being written for an agent. Hints come before the write is stored, so
 * each leads to a few looks; agents with hints are looked up together. Hints may be lost, so from time to
 * time all waiting agents are looked up.
 *
 * A waiting request takes no room from requests at work.
 */

/** What a waiter found when it looked. */
export interface Look {
  /** Whether there is something to answer with. */
  found: boolean
  /** The number of the agent's last event at that time. */
  seq: number
  /** Set if the database was out of reach. */
  failed?: true
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

/** Pauses after a hint and from one look to the next. */
const LOOKS_AFTER_MS = [20, 40, 150, 600, 2_000] as const
/** Agents whose looks are due within this time are looked up together. */
const LOOK_EVERY_MS = 20
/** How often all waiting agents are looked up, with a working channel for hints and without. */
const LOOK_FOR_ALL_MS = { hinted: 15 * SECOND_MS, unhinted: 2 * SECOND_MS } as const
/** The part of a process's connections that may wait. */
const WAITING_SHARE = 3 / 4
/** The pause after a look that failed. */
const LOOK_AGAIN_MS = 500
/** A look may take at least this long, even at the end of its wait. */
const LEAST_LOOK_MS = 500
/** Agents looked up by one command. */
const LOOKED_FOR_TOGETHER = 500
const LOOKS_AT_ONCE = 2
const LOOK_LIMIT_MS = 5 * SECOND_MS
/** Agents whose waits are ended at a time, and the pause before the next ones. */
const ENDED_TOGETHER = 200
const ENDED_EVERY_MS = 20

/** The next look for an agent with a hint: its index in LOOKS_AFTER_MS, and when. */
interface DueLook {
  nth: number
  atMs: number
}

/** A waiting request. */
interface Waiter {
  /** The agent's last event at the last look. */
  seq: number
  /** Set if a newer wait of the agent has ended this one. */
  isOver: boolean
  /** Set if it was woken since the last look began. */
  isWoken: boolean
  /** Makes it look again at once. */
  wake(): void
}

/** Creates the waits of this process. It listens for hints from the first wait on. */
export function createWaits(ctx: Context): Waits {
  /** By agent. */
  const waiters = new Map<string, Set<Waiter>>()
  /** By agent. */
  const dueLooks = new Map<string, DueLook>()
  /** Each wait holds a connection, and other requests need some too. */
  const maxCount = Math.min(MAX_WAITS, Math.floor(maxConnectionsFor(readDescriptorLimit()) * WAITING_SHARE))
  let count = 0
  let ended = false
  let hints: { stop(): void; isUp(): boolean } | undefined
  let lookedForAllMs = 0
  let nextLook: NodeJS.Timeout | undefined
  let looksUnderWay = 0

  /** Makes all waiting requests of an agent look again. */
  function wake(agentId: string): void {
    for (const waiter of waiters.get(agentId) ?? []) {
      waiter.isWoken = true
      waiter.wake()
    }
  }

  /** Schedules a few looks for an agent, if any of its requests waits. */
  function noteHint(agentId: string): void {
    if (waiters.has(agentId)) scheduleLook(agentId, 0, LOOKS_AFTER_MS[0])
  }

  /**
   * Schedules the next look for an agent, in place of one that is scheduled. @param nth index in
   * LOOKS_AFTER_MS
   */
  function scheduleLook(agentId: string, nth: number, afterMs: number): void {
    dueLooks.set(agentId, { nth, atMs: performance.now() + afterMs })
    nextLook ??= setTimeout(lookForDue, LOOK_EVERY_MS)
  }

  /** Looks for the agents whose look is due, and schedules itself again while there are looks to come. */
  function lookForDue(): void {
    nextLook = dueLooks.size === 0 ? undefined : setTimeout(lookForDue, LOOK_EVERY_MS)
    // A slow database gets larger looks, not more of them.
    if (looksUnderWay < LOOKS_AT_ONCE) void lookFor(takeDue())
  }

  /** Returns the agents whose look is due, and schedules the next look of each, if there is one. */
  function takeDue(): string[] {
    const nowMs = performance.now()
    const due: string[] = []
    for (const [agentId, look] of dueLooks) {
      if (look.atMs > nowMs) continue
      due.push(agentId)
      const afterMs = LOOKS_AFTER_MS[look.nth + 1]
      if (afterMs === undefined) dueLooks.delete(agentId)
      else scheduleLook(agentId, look.nth + 1, afterMs)
    }
    return due
  }

  /**
   * Listens for hints of this process and, over Redis, of others, and looks for all waiting agents from time
   * to time. Does nothing if it listens already.
   */
  function listen(): void {
    if (hints !== undefined) return
    const channel = ctx.queues.listenToHints((text) => text.split(' ').forEach(noteHint))
    const stopOwn = onHint(noteHint)
    const timer = setInterval(() => {
      const everyMs = LOOK_FOR_ALL_MS[channel.isUp() ? 'hinted' : 'unhinted']
      if (count === 0 || performance.now() - lookedForAllMs < everyMs) return
      lookedForAllMs = performance.now()
      void lookFor([...waiters.keys()])
    }, SECOND_MS).unref()
    hints = {
      isUp: channel.isUp,
      stop() {
        clearInterval(timer)
        clearTimeout(nextLook)
        stopOwn()
        channel.close()
      },
    }
  }

  /**
   * Reads how far these agents' events go, and wakes the requests of those for whom there is something new.
   */
  async function lookFor(agentIds: readonly string[]): Promise<void> {
    looksUnderWay++
    for (let from = 0; from < agentIds.length; from += LOOKED_FOR_TOGETHER) {
      const part = agentIds.slice(from, from + LOOKED_FOR_TOGETHER)
      try {
        const reading = Promise.all(part.map(ctx.events.readProgress))
        const found = await withDeadline(reading, LOOK_LIMIT_MS, unavailable)
        for (const { agentId, seq: last, marked } of found) {
          const isNew = [...(waiters.get(agentId) ?? [])].some(({ seq }) => last > seq)
          if (isNew || marked.size > 0) wake(agentId)
        }
      } catch (error) {
        // The look failed, so there may be new events unseen.
        for (const agentId of part) if (waiters.has(agentId)) scheduleLook(agentId, 0, LOOK_AGAIN_MS)
        if (!isDatabaseAway(error))
          ctx.log.error({ err: error }, 'the events that callers wait for could not be read')
      }
    }
    looksUnderWay--
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
    const waiter: Waiter = { seq: 0, isOver: false, isWoken: false, wake: () => undefined }
    ofAgent.add(waiter)
    waiters.set(agentId, ofAgent)
    count++
    return waiter
  }

  /** Removes a waiting request, and with an agent's last one its scheduled looks. */
  function removeWaiter(agentId: string, waiter: Waiter): void {
    const ofAgent = waiters.get(agentId)
    if (ofAgent?.delete(waiter) !== true) return
    count--
    if (ofAgent.size > 0) return
    waiters.delete(agentId)
    dueLooks.delete(agentId)
  }

  /** Wakes the requests of these agents, some agents at a time, since each request is then answered. */
  function wakeInParts(agentIds: string[]): void {
    agentIds.splice(0, ENDED_TOGETHER).forEach(wake)
    if (agentIds.length > 0) setTimeout(wakeInParts, ENDED_EVERY_MS, agentIds)
  }

  return {
    async wait(agentId, seconds, look, signal) {
      if (ended) return
      listen()
      const untilMs = performance.now() + seconds * SECOND_MS
      const waiter = addWaiter(agentId)
      try {
        for (;;) {
          signal.throwIfAborted()
          waiter.isWoken = false
          const { found, seq, failed = false } = await lookInTime(look, untilMs).catch(failedLook)
          waiter.seq = seq
          const leftMs = untilMs - performance.now()
          if (found || leftMs <= 0 || waiter.isOver || ended) return
          // The look failed, so there may be new events unseen.
          const restMs = failed ? Math.min(leftMs, LOOK_AGAIN_MS * (1 + Math.random())) : leftMs
          if (failed || !waiter.isWoken) await sleepUntilWoken(waiter, restMs, signal)
        }
      } finally {
        removeWaiter(agentId, waiter)
      }
    },
    end() {
      if (ended) return
      ended = true
      hints?.stop()
      wakeInParts([...waiters.keys()])
    },
    count: () => count,
  }
}

/**
 * Looks, and returns what was found. A look may take the time that is left of the wait, at least
 * LEAST_LOOK_MS.
 *
 * @throws Refusal `unavailable` if it takes longer
 */
function lookInTime(look: () => Promise<Look>, untilMs: number): Promise<Look> {
  return withDeadline(look(), Math.max(untilMs - performance.now(), LEAST_LOOK_MS), () => unavailable())
}

/**
 * Returns the result of a look that failed because the database was out of reach.
 *
 * @throws any other error
 */
function failedLook(error: unknown): Look {
  if (isDatabaseAway(error)) return { found: false, seq: 0, failed: true }
  throw error
}

/** Whether an error says that the database is out of reach. */
const isDatabaseAway = (error: unknown): boolean =>
  isOutage(error) || (error instanceof Refusal && error.code === 'unavailable')

/**
 * Resolves when the waiter is woken, at the latest after `ms`. @throws the reason of `signal` if it is
 * aborted
 */
function sleepUntilWoken(waiter: Waiter, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
      waiter.wake = () => undefined
      resolve()
    }
    const stop = (): void => {
      reject(signal.reason as Error)
      finish()
    }
    const timer = setTimeout(finish, ms)
    waiter.wake = finish
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}
