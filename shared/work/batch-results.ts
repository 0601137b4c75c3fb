import { isOutage } from '../servers/database.ts'
import { runInScope } from '../foundation/scope.ts'
import type { BatchRecord } from './work.ts'
import type { WorkStore } from './work-store.ts'

/** How often the results that somebody waits for are asked after. */
const POLL_MS = 10

export interface BatchResults {
  /** The verified batch, or undefined if the workers have not verified it in time. */
  wait(batchId: string, limitMs: number): Promise<BatchRecord | undefined>
}

interface Waiter {
  resolve(batch: BatchRecord | undefined): void
  reject(error: unknown): void
  deadlineMs: number
}

/**
 * Polls MongoDB for results, so it needs nothing of Redis. One query at a time serves all who wait.
 */
export function createBatchResults(store: Pick<WorkStore, 'findVerified'>): BatchResults {
  /** By the batch: several submissions may be in one. */
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
        // The batches are stored whatever the database does now, so the wait goes on to its deadline.
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

  function settle(batchId: string, how: (waiter: Waiter) => void): void {
    const waiting = waiters.get(batchId)
    waiters.delete(batchId)
    waiting?.forEach(how)
  }

  return {
    wait(batchId, limitMs) {
      return new Promise((resolve, reject) => {
        const waiting = waiters.get(batchId) ?? new Set()
        waiters.set(batchId, waiting.add({ resolve, reject, deadlineMs: performance.now() + limitMs }))
        // It outlives the request that began it.
        if (!polling) void runInScope({}, poll)
      })
    },
  }
}
