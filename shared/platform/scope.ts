import { AsyncLocalStorage } from 'node:async_hooks'
import { leaveTrace } from './tracing.ts'

/** The ids of the request or job that the present work is done for; each of its log lines has them. */
export interface Scope {
  /** Made by the API for each request, and passed on to every job that the request enqueues. */
  request_id?: string
  queue?: string
  job_id?: string
}

/** `wanted` is aborted when nobody waits for the work any more: the request timed out, or its client left. */
const scopes = new AsyncLocalStorage<{ ids: Scope; wanted: AbortSignal | undefined }>()

/** The form of a request id. A job's request id is used only if it matches. */
export const REQUEST_ID_FORM = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * Runs `work`, and everything that it starts, in a scope of its own, and returns its result.
 * With no ids the work belongs to no request, and so to no trace.
 *
 * @param wanted aborts the work, at its next step, when the request is over; without it the work goes on then
 */
export function runInScope<T>(scope: Scope, work: () => T, wanted?: AbortSignal): T {
  const run = () => scopes.run({ ids: scope, wanted }, work)
  return Object.keys(scope).length === 0 ? leaveTrace(run) : run()
}

/** The ids of the request or job that the present work is done for; none outside of any. */
export function currentScope(): Scope {
  return scopes.getStore()?.ids ?? {}
}

/** The signal that is aborted with the present work's request; undefined if it is not done for one. */
export function currentSignal(): AbortSignal | undefined {
  return scopes.getStore()?.wanted
}

/** Throws if the request that the present work is done for is over. @throws the reason why it is over */
export function throwIfOver(): void {
  scopes.getStore()?.wanted?.throwIfAborted()
}
