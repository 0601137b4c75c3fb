import { z } from 'zod'
import type { Caller } from '../../shared/agents/agent-store.ts'
import type { Context } from '../../shared/context.ts'
import type { ErrorCode } from '../../shared/foundation/errors.ts'
import { MAX_LIST_PAGES } from '../../shared/foundation/limits.ts'
import type { Look } from './waits.ts'

/**
 * Who may call a route.
 *
 * - `open`: anyone; `Authorization` is not looked at
 * - `optional`: anyone; a token that is sent must be good
 * - `token`: an agent
 * - `fresh`: an agent, looked up anew each time, so that a ban or a rotation is felt at once
 * - `pass`: an agent with an active pass
 */
export type Access = 'open' | 'optional' | 'token' | 'fresh' | 'pass'

type CallerOf<A extends Access> = A extends 'open'
  ? undefined
  : A extends 'optional'
    ? Caller | undefined
    : Caller
type Parsed<S extends z.ZodObject | undefined> = S extends z.ZodObject ? z.output<S> : undefined

export interface Call<
  A extends Access,
  Body extends z.ZodObject | undefined,
  Query extends z.ZodObject | undefined,
  Params extends z.ZodObject | undefined,
> {
  ctx: Context
  caller: CallerOf<A>
  body: Parsed<Body>
  query: Parsed<Query>
  params: Parsed<Params>
  /** True for HEAD: the answer is wanted and no effect. */
  peek: boolean
  /**
   * Of the given media types the one that the caller would rather have, by its `Accept`; undefined if it
   * takes none of them.
   */
  prefers(types: readonly string[]): string | undefined
  /**
   * Waits for workers without keeping the room of a request's work.
   *
   * @returns undefined, at once, if too many wait
   */
  aside<T>(wait: () => Promise<T>): Promise<T | undefined>
  /**
   * Does what turns out to cost this much: at once if it is light, else in turn with other callers' heavy
   * requests.
   */
  inTurn<T>(cost: number, work: () => Promise<T>): Promise<T>
}

/** A request that waits until there is something to answer with. */
export interface Wait<Query> {
  seconds: number
  /** What it is answered with once the wait is over; as it was asked if absent. */
  query?: Query
  look(): Promise<Look>
}

/** What a handler gives back: the view, without `ok`, and the status if it is not 200. */
export interface Answer<View> {
  status: 200 | 201 | 202
  view: View
  cache?: Caching
}

/** A view that was written out before, `ok` and all; parts of it may be shared with other answers. */
export interface WrittenAnswer {
  status: 200
  json: Buffer | readonly Buffer[]
  cache?: Caching
}

/** What a cache may do with an answer. A request that names the etag in `If-None-Match` gets 304. */
export interface Caching {
  /** With its quotes. */
  etag: string
  /** `Cache-Control`. */
  control: string
}

/** A text of a standard that is not ours, or a page: sent as it is, without `ok`. */
export interface DocumentAnswer {
  status: 200
  document: { type: string; text: string | Buffer }
  cache?: Caching
}

export type GivenAnswer<View> = Answer<View> | DocumentAnswer | WrittenAnswer

/** The view of a route that answers with documents alone. */
export const noView = z.object({})

export interface RouteSpec<
  A extends Access,
  Body extends z.ZodObject | undefined,
  Query extends z.ZodObject | undefined,
  Params extends z.ZodObject | undefined,
  View extends z.ZodObject | z.ZodUnion<readonly z.ZodObject[]>,
> {
  method: 'GET' | 'POST'
  /** Below `/api/v1`, a parameter as `{name}`. */
  path: string
  /** True if its last parameter may have slashes. */
  endsOpen?: true
  /** Answers at the root too: the contract writes some routes without the base path. */
  alsoAtRoot?: boolean
  /** Answers at the root alone: a well-known place, or a page beside the API. */
  onlyAtRoot?: boolean
  /** False if it goes on answering while MongoDB is away. */
  needsDatabase?: false
  access: A
  /** True if it serves a banned agent too; with the access `fresh` alone. */
  takesBanned?: true
  summary: string
  /** More than the summary says, for the OpenAPI document; sentences in Markdown. */
  description?: string
  body?: Body
  query?: Query
  params?: Params
  /** The view of a good answer, without `ok`. */
  view: View
  /** What it may answer in place of the view: media types, each with a JSON Schema of its documents. */
  documents?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** True if an answer is another each time: it gets no etag of its content. */
  isUnique?: true
  /**
   * Statuses of a good answer, the usual one first; 200 if absent. What anyone may read has an etag, and 304
   * is added.
   */
  statuses?: readonly (200 | 201 | 202 | 304)[]
  /** Refusals beyond those that access and parsing imply. */
  errors?: readonly ErrorCode[]
  /** What a request may cost at most: see MAX_LIGHT_COST in shared/foundation/limits.ts. Light if absent. */
  cost?: (query: Parsed<Query>) => number
  /** Given a query that asks to wait, how; undefined for one that doesn't. */
  wait?: (call: {
    ctx: Context
    caller: CallerOf<A>
    query: Parsed<Query>
  }) => Promise<Wait<Parsed<Query>> | undefined>
  /** How much longer than others this route may take, because it waits for a worker. */
  patienceMs?: number
  handle(call: Call<A, Body, Query, Params>): Promise<GivenAnswer<z.input<View>>> | GivenAnswer<z.input<View>>
}

/** A route with its types folded away, as the frame, the route table and the OpenAPI document see it. */
export type Route = Omit<
  RouteSpec<
    Access,
    z.ZodObject | undefined,
    z.ZodObject | undefined,
    z.ZodObject | undefined,
    z.ZodObject | z.ZodUnion<readonly z.ZodObject[]>
  >,
  'handle' | 'cost' | 'wait'
> & {
  wait?: (call: {
    ctx: Context
    caller: Caller | undefined
    query: object | undefined
  }) => Promise<Wait<object> | undefined>
  cost?: (query: object | undefined) => number
  handle(
    call: Call<Access, z.ZodObject | undefined, z.ZodObject | undefined, z.ZodObject | undefined>,
  ): Promise<GivenAnswer<unknown>> | GivenAnswer<unknown>
}

/** Declares a route: everything about it in one value, from which it is mounted, listed and documented. */
export function defineRoute<
  A extends Access,
  View extends z.ZodObject | z.ZodUnion<readonly z.ZodObject[]>,
  Body extends z.ZodObject | undefined = undefined,
  Query extends z.ZodObject | undefined = undefined,
  Params extends z.ZodObject | undefined = undefined,
>(spec: RouteSpec<A, Body, Query, Params, View>): Route {
  const statuses = spec.statuses ?? [200]
  return {
    ...spec,
    // A query parameter that the route doesn't have.
    errors: [...(spec.errors ?? []), 'invalid_field'],
    statuses: isPublic(spec) && spec.isUnique !== true ? [...statuses, 304] : statuses,
  } as unknown as Route
}

/** Whether everyone is given the same, with nothing secret in it: it may be cached, and compressed. */
export const isPublic = ({ method, access }: Pick<Route, 'method' | 'access'>): boolean =>
  method === 'GET' && access === 'open'

export const ok = <View>(view: View): Answer<View> => ({ status: 200, view })
export const created = <View>(view: View): Answer<View> => ({ status: 201, view })
export const accepted = <View>(view: View): Answer<View> => ({ status: 202, view })
/** For what can never change: a year is the longest that `max-age` is understood for. */
export const cacheForEver = (etag: string): Caching => ({
  etag: `"${etag}"`,
  control: 'public, max-age=31536000, immutable',
})
/** For what may change at any time: a cache asks each time, and is told by 304 if nothing did. */
export const cacheAndAsk = (etag: string): Caching => ({ etag: `"${etag}"`, control: 'public, no-cache' })
export const sendDocument = (type: string, text: string | Buffer): DocumentAnswer => ({
  status: 200,
  document: { type, text },
})

/** What one of each may cost in a list: the document, and its longest text in KiB of UTF-8. */
export const POST_COST = 1 + 8
export const CLAIM_COST = 1 + 8
export const PROFILE_COST = 1 + 12
export const OFFER_COST = 1 + 16
/** How many pages a list may read to leave out what is more than `per_agent`. */
export const pagesOf = (perAgent: number | undefined): number => (perAgent === undefined ? 1 : MAX_LIST_PAGES)
