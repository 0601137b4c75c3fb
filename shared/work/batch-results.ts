import { isOutage } from '../servers/database.ts'
import { runInScope } from '../foundation/scope.ts'
import type { BatchRecord } from './work.ts'
import type { WorkStore } from './work-store.ts'

/** How often the database is polled while a request waits for a result. */
const POLL_MS = 10

export interface BatchResults {
  /**
   * Resolves with the verified batch, or with undefined if it isn't verified within `limitMs`. Rejects with
   * an error of the database that isn't an outage.
   */
  wait(batchId: string, limitMs: number): Promise<BatchRecord | undefined>
}

interface Waiter {
  resolve(batch: BatchRecord | undefined): void
  reject(error: unknown): void
  deadlineMs: number
}

/** Polls MongoDB for results, so it doesn't depend on Redis. One query at a time serves all waiters. */
export function createBatchResults(store: Pick<WorkStore, 'findVerified'>): BatchResults {
  /** By batch id: several submissions may be in one batch. */
  const waiters = new Map<string, Set<Waiter>>()
  let polling = false

  async function poll(): Promise<void> {
    polling = true
    while (waiters.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
      try {
        for (const batch of await store.findVerified([...waiters.keys()]))
          settle(batch._id, (waiter) => waiter.resolve(batch))
      } catch (error) {
        // In an outage the batches are still stored, so the wait goes on to its deadline.
        if (!isOutage(error))
          for (const batchId of [...waiters.keys()]) settle(batchId, (waiter) => waiter.reject(error))
      }
      const nowMs = performance.now()
      for (const [batchId, waiting] of waiters) {
        for (const waiter of waiting) {
          if (nowMs < waiter.deadlineMs) continue
          waiting.delete(waiter)
          waiter.resolve(undefined)
        }
        if (waiting.size === 0) waiters.delete(batchId)
      }
    }
    polling = false
  }

  function settle(batchId: string, settleWaiter: (waiter: Waiter) => void): void {
    const waiting = waiters.get(batchId)
    waiters.delete(batchId)
    waiting?.forEach(settleWaiter)
  }

  return {
    wait(batchId, limitMs) {
      return new Promise((resolve, reject) => {
        const waiting = waiters.get(batchId) ?? new Set()
        waiters.set(batchId, waiting.add({ resolve, reject, deadlineMs: performance.now() + limitMs }))
        // Outside the request's scope: the polling outlives the request that starts it.
        if (!polling) void runInScope({}, poll)
      })
    },
  }
}
