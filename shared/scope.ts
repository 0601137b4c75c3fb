import { AsyncLocalStorage } from 'node:async_hooks'

/** What the present work belongs to. Ids alone: all of it stands in every log line that the work writes. */
export interface Scope {
  /** Made by the API for each request, and handed on to every job that the request enqueues. */
  request_id?: string
  queue?: string
  job_id?: string
}

const scopes = new AsyncLocalStorage<Scope>()

/** The form of a request id: what a job carries is used only if it has it. */
export const REQUEST_ID_FORM = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Runs `work` and everything that it starts as part of `scope`. */
export function runInScope<T>(scope: Scope, work: () => T): T {
  return scopes.run(scope, work)
}

export function currentScope(): Scope {
  return scopes.getStore() ?? {}
}
