import { MAX_WAITING } from '../platform/limits.ts'
import { isOutage } from '../platform/database.ts'
import { runInScope } from '../platform/scope.ts'
import type { BatchRecord } from './work.ts'
import type { WorkStore } from './work-store.ts'

/** How often the database is polled while a request waits for a result. */
const POLL_MS = 10

export interface BatchResults {
  /**
   * Waits until a batch is verified, for up to `limitMs`. Resolves with the verified batch, or with undefined
   * if it isn't verified by then, and at once if MAX_WAITING wait already. Rejects with an error of the database that isn't an outage.
   */
  wait(batchId: string, limitMs: number): Promise<BatchRecord | undefined>
}

interface Waiter {
  resolve(batch: BatchRecord | undefined): void
  reject(error: unknown): void
  deadlineMs: number
}

/**
 * Creates what waits for the results of batches. It polls MongoDB, so it doesn't depend on Redis; one query
 * at a time serves all waiters.
 */
export function createBatchResults(store: Pick<WorkStore, 'findVerified'>): BatchResults {
  /** By batch id: several submissions may be in one batch. */
  const waiters = new Map<string, Set<Waiter>>()
  let isPolling = false
  let count = 0

  /** Polls until nobody waits any more. */
  async function poll(): Promise<void> {
    isPolling = true
    while (waiters.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
      try {
        for (const batch of await store.findVerified([...waiters.keys()]))
          endWaits(batch._id, (waiter) => waiter.resolve(batch))
      } catch (error) {
        // In an outage the batches are still stored, so the wait goes on to its deadline.
        if (!isOutage(error))
          for (const batchId of [...waiters.keys()]) endWaits(batchId, (waiter) => waiter.reject(error))
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
    isPolling = false
  }

  /** Removes all waiters of a batch, and resolves or rejects each by `settle`. */
  function endWaits(batchId: string, settle: (waiter: Waiter) => void): void {
    const waiting = waiters.get(batchId)
    waiters.delete(batchId)
    waiting?.forEach(settle)
  }

  return {
    async wait(batchId, limitMs) {
      if (count >= MAX_WAITING) return undefined
      count++
      return new Promise<BatchRecord | undefined>((resolve, reject) => {
        const waiting = waiters.get(batchId) ?? new Set()
        waiters.set(batchId, waiting.add({ resolve, reject, deadlineMs: performance.now() + limitMs }))
        // Outside the request's scope: the polling outlives the request that starts it.
        if (!isPolling) void runInScope({}, poll)
      }).finally(() => count--)
    },
  }
}
