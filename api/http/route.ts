import { z } from 'zod'
import type { Caller } from '../../shared/agents/agent-store.ts'
import type { Context } from '../../shared/context.ts'
import type { ErrorCode } from '../../shared/errors.ts'

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

type CallerOf<A extends Access> = A extends 'open' ? undefined : A extends 'optional' ? Caller | undefined : Caller
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
  /** Of the given media types the one that the caller would rather have, by its `Accept`; undefined where it takes none of them. */
  prefers(types: readonly string[]): string | undefined
  /** Waits for workers without keeping the room of a request's work. @returns undefined, at once, where too many wait */
  aside<T>(wait: () => Promise<T>): Promise<T | undefined>
}

/** What a handler gives back: the view, without `ok`, and the status where it is not 200. */
export interface Answer<View> {
  status: 200 | 201 | 202
  view: View
  cache?: Caching
}

/** A view that was written out before, `ok` and all. */
export interface WrittenAnswer {
  status: 200
  json: Buffer
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
  document: { type: string; text: string }
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
  /** Answers at the root too: the contract writes some routes without the base path. */
  alsoAtRoot?: boolean
  /** Answers at the root alone: a well-known place, or a page beside the API. */
  onlyAtRoot?: boolean
  /** False where it goes on answering while MongoDB is away. */
  needsDatabase?: false
  access: A
  /** True if it serves a banned agent too; with the access `fresh` alone. */
  takesBanned?: true
  summary: string
  body?: Body
  query?: Query
  params?: Params
  /** The view of a good answer, without `ok`. */
  view: View
  /** What it may answer in place of the view: media types, each with a JSON Schema of its documents. */
  documents?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** Statuses of a good answer, the usual one first; 200 where absent. */
  statuses?: readonly (200 | 201 | 202)[]
  /** Refusals beyond those that access and parsing imply. */
  errors?: readonly ErrorCode[]
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
  'handle'
> & {
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
  return spec as unknown as Route
}

export const ok = <View>(view: View): Answer<View> => ({ status: 200, view })
export const created = <View>(view: View): Answer<View> => ({ status: 201, view })
export const accepted = <View>(view: View): Answer<View> => ({ status: 202, view })
/** For what can never change: a year is the longest that `max-age` is understood for. */
export const cacheForEver = (etag: string): Caching => ({ etag: `"${etag}"`, control: 'public, max-age=31536000, immutable' })
/** For what may change at any time: a cache asks each time, and is told by 304 where nothing did. */
export const cacheAndAsk = (etag: string): Caching => ({ etag: `"${etag}"`, control: 'public, no-cache' })
export const sendDocument = (type: string, text: string): DocumentAnswer => ({ status: 200, document: { type, text } })
