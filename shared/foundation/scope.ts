import { AsyncLocalStorage } from 'node:async_hooks'

/** What the present work belongs to. Ids alone: all of it stands in every log line that the work writes. */
export interface Scope {
  /** Made by the API for each request, and handed on to every job that the request enqueues. */
  request_id?: string
  queue?: string
  job_id?: string
}

/**
 * `wanted` ends when nobody waits for the work any more: its request's time is over, or its caller has left.
 */
const scopes = new AsyncLocalStorage<{ ids: Scope; wanted: AbortSignal | undefined }>()

/** The form of a request id: what a job carries is used only if it has it. */
export const REQUEST_ID_FORM = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * Runs `work` and everything that it starts as part of `scope`; without `wanted` it outlives the request that
 * began it.
 */
export function runInScope<T>(scope: Scope, work: () => T, wanted?: AbortSignal): T {
  return scopes.run({ ids: scope, wanted }, work)
}

export function currentScope(): Scope {
  return scopes.getStore()?.ids ?? {}
}

/** Ends with the request that the present work is for; undefined if it is for none. */
export function currentSignal(): AbortSignal | undefined {
  return scopes.getStore()?.wanted
}

/**
 * @throws the reason why the request that the present work is for is over: nobody waits for what comes now
 */
export function throwIfOver(): void {
  scopes.getStore()?.wanted?.throwIfAborted()
}
