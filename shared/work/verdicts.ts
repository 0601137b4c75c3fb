import { isOutage } from '../database.ts'
import type { BatchRecord } from './work.ts'
import type { WorkStore } from './work-store.ts'

/** How often the verdicts that somebody waits for are asked after. */
const POLL_MS = 10

export interface Verdicts {
  /** The judged batch, or undefined where the workers have not judged it in time. */
  wait(batchId: string, limitMs: number): Promise<BatchRecord | undefined>
}

interface Waiter {
  resolve(batch: BatchRecord | undefined): void
  reject(error: unknown): void
  deadlineMs: number
}

/**
 * Waits for verdicts where they are stored, in MongoDB, so that it needs nothing of Redis. All who wait are served by
 * one query at a time.
 */
export function createVerdicts(store: Pick<WorkStore, 'findJudged'>): Verdicts {
  const waiters = new Map<string, Waiter>()
  let polling = false

  async function poll(): Promise<void> {
    polling = true
    while (waiters.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
      try {
        for (const batch of await store.findJudged([...waiters.keys()])) settle(batch._id, (waiter) => waiter.resolve(batch))
      } catch (error) {
        // The batches are stored whatever the database does now: whoever waits goes on to the deadline.
        if (!isOutage(error)) for (const batchId of [...waiters.keys()]) settle(batchId, (waiter) => waiter.reject(error))
      }
      for (const [batchId, { deadlineMs }] of waiters)
        if (performance.now() >= deadlineMs) settle(batchId, (waiter) => waiter.resolve(undefined))
    }
    polling = false
  }

  function settle(batchId: string, how: (waiter: Waiter) => void): void {
    const waiter = waiters.get(batchId)
    waiters.delete(batchId)
    if (waiter !== undefined) how(waiter)
  }

  return {
    wait(batchId, limitMs) {
      return new Promise((resolve, reject) => {
        waiters.set(batchId, { resolve, reject, deadlineMs: performance.now() + limitMs })
        if (!polling) void poll()
      })
    },
  }
}
