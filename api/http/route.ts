import { z } from 'zod'
import type { Caller } from '../../shared/agents/agent-store.ts'
import type { Context } from '../../shared/context.ts'
import type { ErrorCode } from '../../shared/platform/errors.ts'
import type { Look } from '../waits.ts'

/**
 * Who may call a route.
 *
 * - `open`: anyone; `Authorization` is ignored
 * - `optional`: anyone; a token, if sent, must be valid
 * - `token`: an agent
 * - `fresh`: an agent, looked up anew each time, so that a ban or a rotation has effect at once
 * - `pass`: an agent with an active pass
 */
export type Access = 'open' | 'optional' | 'token' | 'fresh' | 'pass'

type CallerOf<A extends Access> = A extends 'open'
  ? undefined
  : A extends 'optional'
    ? Caller | undefined
    : Caller
/** The schema of a body, a query or path parameters; undefined for a route that has none. */
type Fields = z.ZodObject | undefined
type Parsed<S extends Fields> = S extends z.ZodObject ? z.output<S> : undefined
type ViewSchema = z.ZodObject | z.ZodUnion<readonly z.ZodObject[]>

/** What a handler is called with. */
export interface Call<A extends Access, Body extends Fields, Query extends Fields, Params extends Fields> {
  ctx: Context
  caller: CallerOf<A>
  body: Parsed<Body>
  query: Parsed<Query>
  params: Parsed<Params>
  /** True for HEAD, which must have no effect. */
  peek: boolean
  /** The one of these media types that the caller's `Accept` prefers; undefined if it accepts none of them. */
  prefers(types: readonly string[]): string | undefined
}

/** How a request waits until there is something to answer with. */
export interface Wait<Query> {
  seconds: number
  /** The query to answer after the wait; the one that was sent if absent. */
  query?: Query
  look(): Promise<Look>
}

/** What a handler gives back: the view, without `ok`, and the status if it is not 200. */
export interface Answer<View> {
  status: 200 | 201 | 202
  view: View
  cache?: Caching
}

/** An answer that is written already: JSON with `ok`, or a document, which is sent as it is. */
export interface WrittenBody {
  status: 200
  /** In one piece that is the same each time, or in pieces that may be shared with other answers. */
  body: Buffer | Iterable<string | Buffer>
  /** The media type of a document, such as a page or a checkpoint; absent for JSON with `ok`. */
  document?: string
  cache?: Caching
}

/** What a cache may do with an answer. A request that names the etag in `If-None-Match` gets 304. */
export interface Caching {
  /** With its quotes. */
  etag: string
  /** `Cache-Control`. */
  control: string
}

export type GivenAnswer<View> = Answer<View> | WrittenBody

/** The view of a route that answers only with documents. */
export const noView = z.object({})

/**
 * A route: it is mounted, listed and documented from this one value. defineRoute() makes one whose functions
 * get what its schemas parse; without parameters, it is any route.
 */
export interface Route<
  A extends Access = Access,
  View extends ViewSchema = ViewSchema,
  Body extends Fields = Fields,
  Query extends Fields = Fields,
  Params extends Fields = Fields,
> {
  method: 'GET' | 'POST' | 'DELETE'
  /** Below `/api/v1`, a parameter as `{name}`. */
  path: string
  /** The operation's id in the OpenAPI document; absent from documents at the root, which aren't in it. */
  operation?: string
  /** True if the last parameter may contain slashes. */
  endsOpen?: true
  /** Answers at the root too: clients may call some routes without the base path. */
  alsoAtRoot?: boolean
  /** Answers only at the root: a well-known path, or a page. */
  onlyAtRoot?: boolean
  /** False if it answers even while MongoDB is out of reach. */
  needsDatabase?: false
  access: A
  /** True if it serves banned agents too; only with the access `fresh`. */
  servesBanned?: true
  summary: string
  /** More than the summary says, for the OpenAPI document; sentences in Markdown. */
  description?: string
  body?: Body
  query?: Query
  params?: Params
  /** The view of a good answer, without `ok`. */
  view: View
  /** Documents that it may answer with in place of the view: a JSON Schema for each media type. */
  documents?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** True if the answer is different each time, such as a challenge: then it gets no etag. */
  changesEachTime?: true
  /**
   * Statuses of a good answer, the usual one first; 200 if absent. For routes whose answers have an etag, 304
   * is added.
   */
  statuses?: readonly (200 | 201 | 202 | 304)[]
  /** Refusals beyond those that access and parsing imply. */
  errors?: readonly ErrorCode[]
  /** How to wait for a query that asks for it; undefined for one that doesn't. */
  wait?(
    call: Pick<Call<A, Body, Query, Params>, 'ctx' | 'caller' | 'query'>,
  ): Promise<Wait<Parsed<Query>> | undefined>
  /** How much longer than others this route may take, because it waits for a worker. */
  patienceMs?: number
  /**
   * What the longest answer to a query weighs, in the unit of MAX_WEIGHT_AT_ONCE; absent if that is next to
   * nothing, and 0 if it asks the database nothing. If the route is public, equal questions are answered together.
   */
  weight?(query: Parsed<Query>): number
  /**
   * Checks work that the body of an open route shows, at the cost of a refusal.
   *
   * @throws Refusal if it shows none
   */
  proof?(body: Parsed<Body>): void
  handle(call: Call<A, Body, Query, Params>): Promise<GivenAnswer<z.input<View>>> | GivenAnswer<z.input<View>>
}

/**
 * Declares a route, and adds what holds for any: the refusal `invalid_field`, since each refuses a query
 * parameter that it doesn't have, and the status 304 if its answers have an etag.
 */
export function defineRoute<
  A extends Access,
  View extends ViewSchema,
  Body extends Fields = undefined,
  Query extends Fields = undefined,
  Params extends Fields = undefined,
>(route: Route<A, View, Body, Query, Params>): Route {
  const statuses = route.statuses ?? [200]
  return {
    ...route,
    errors: [...(route.errors ?? []), 'invalid_field'],
    statuses: isCached(route) ? [...statuses, 304] : statuses,
  }
}

/** Whether all callers get the same answer, without secrets, so that it may be cached and compressed. */
export const isPublic = ({ method, access }: Pick<Route, 'method' | 'access'>): boolean =>
  method === 'GET' && access === 'open'

/** Whether its answers have an etag, and may be kept by a cache. */
export const isCached = (route: Pick<Route, 'method' | 'access' | 'changesEachTime'>): boolean =>
  isPublic(route) && route.changesEachTime !== true

/** Returns an answer with status 200. */
export const ok = <View>(view: View): Answer<View> => ({ status: 200, view })
/** Returns an answer with status 201: a record was created. */
export const created = <View>(view: View): Answer<View> => ({ status: 201, view })
/** Returns an answer with status 202: stored, and the workers have not answered yet. */
export const accepted = <View>(view: View): Answer<View> => ({ status: 202, view })
/** Returns the caching of an answer that never changes: a year is the longest usual `max-age`. */
export const cacheForEver = (etag: string): Caching => ({
  etag: `"${etag}"`,
  control: 'public, max-age=31536000, immutable',
})
/** Returns the caching of an answer that may change at any time: a cache asks each time. */
export const cacheAndRevalidate = (etag: string): Caching => ({
  etag: `"${etag}"`,
  control: 'public, no-cache',
})
/** Returns an answer that is written once, for a view that stays the same. */
export const fixedAnswer = <View extends object>(view: View): WrittenBody => ({
  status: 200,
  body: Buffer.from(JSON.stringify({ ok: true, ...view })),
})
/** Returns an answer with a document of this media type. */
export const documentAnswer = (document: string, text: string | Buffer): WrittenBody => ({
  status: 200,
  document,
  body: typeof text === 'string' ? [text] : text,
})
