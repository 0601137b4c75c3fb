import { setTimeout as sleep } from 'node:timers/promises'
import { ask, nextMarker, type Agent, type World } from '../world/agent.ts'
import type { Call, FaultRecord } from '../world/history.ts'

const PAUSE_MS = 150
/** A write that takes longer counts as an outage. */
const GOOD_WITHIN_MS = 2_500

/**
 * Lets an agent post through each API process again and again, so that the history shows when the service
 * took writes. Ends after `isOver`, with the next post that is acknowledged.
 */
export async function runCanary(world: World, agent: Agent, isOver: () => boolean): Promise<void> {
  await Promise.all(
    Array.from({ length: world.apis }, async (_, api) => {
      // Goes on until a write succeeds, so that the length of the last outage is known.
      for (let isServed = false; !isServed || !isOver();) {
        const marker = nextMarker(agent)
        const { status } = await ask(world, agent, 'post', 'POST', '/post', {
          body: { body: marker },
          marker,
          api,
        })
        isServed = status === 201
        await sleep(PAUSE_MS)
      }
    }),
  )
}

export interface Recovery {
  fault: FaultRecord
  /** From the fault's beginning until every API process took writes again; 0 if none was refused. */
  outageMs: number
  /** From the fault's end until then. */
  afterMs: number
}

/**
 * Measures how long the canary's posts failed after each fault. A failure counts as one of the last fault
 * that began before its answer.
 *
 * @param who the canary's name
 */
export function measureRecoveries(
  calls: readonly Call[],
  faults: readonly FaultRecord[],
  who: string,
): Recovery[] {
  const posts = calls.filter((call) => call.who === who && call.did === 'post')
  const isGood = (call: Call): boolean => call.status === 201 && call.tookMs <= GOOD_WITHIN_MS
  const endOf = ({ atMs, tookMs }: Call): number => atMs + tookMs
  return faults.map((fault, index) => {
    const nextMs = faults[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY
    let backMs = fault.fromMs
    for (const api of new Set(posts.map((call) => call.api))) {
      const bad = posts.findLast(
        (call) => call.api === api && !isGood(call) && endOf(call) >= fault.fromMs && endOf(call) < nextMs,
      )
      if (bad === undefined) continue
      const good = posts.find((call) => call.api === api && isGood(call) && call.atMs > bad.atMs)
      // From the next fault's beginning on, an outage counts as that fault's.
      backMs = Math.max(backMs, Math.min(nextMs, good === undefined ? Number.POSITIVE_INFINITY : endOf(good)))
    }
    return { fault, outageMs: backMs - fault.fromMs, afterMs: Math.max(0, backMs - fault.toMs) }
  })
}
