import { hash, randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { ErrorRequestHandler, Request, RequestHandler, Response, Router } from 'express'
import type { Caller } from '../../shared/agents/agent-store.ts'
import type { Context } from '../../shared/context.ts'
import { tookTooLong, unavailable } from '../../shared/servers/database.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'
import type { Waits } from './waits.ts'
import { Refusal } from '../../shared/foundation/errors.ts'
import {
  API_BASE,
  CLOSE_LIMIT_MS,
  MAX_LIGHT_BODY_BYTES,
  MAX_LIGHT_COST,
} from '../../shared/foundation/limits.ts'
import { currentSignal, runInScope } from '../../shared/foundation/scope.ts'
import { createAdmission, untilAborted, type Admission } from './admission.ts'
import { sendDocument, sendJson, sendJsonText, sendRefusal, toRefusal, writeJson } from './answer.ts'
import type { Authenticator } from './authenticate.ts'
import { createDiskGuard } from './disk.ts'
import { discardRest, LateRequest, parseBody, readBody } from './body.ts'
import { measureRequests } from './measure.ts'
import { parseFields, parseQuery } from './parse.ts'
import type { NoteRefusal } from './refusals.ts'
import { cacheAndRevalidate, isPublic, type GivenAnswer, type Route } from './route.ts'
import type { RouteTree } from './route-tree.ts'

const gzip = promisify(zlib.gzip)
/** How long a connection may be silent after a wait. */
const WAIT_SLACK_MS = 30 * SECOND_MS
/** Compressing shorter answers saves little. */
const MIN_COMPRESSED_BYTES = 1_024

/** How long a browser may remember which methods and headers a path accepts. */
const PREFLIGHT_SECONDS = 86_400

/**
 * Returns a path in Express's form: `{name}` becomes `:name`. With `endsOpen` the last one becomes `*name`,
 * whose value may have slashes.
 */
const expressPath = (path: string, endsOpen = false): string =>
  (endsOpen ? path.replace(/\{(\w+)\}$/, '*$1') : path).replace(/\{(\w+)\}/g, ':$1')

/** Returns path parameters as texts: one with slashes, which Express gives in parts, is joined again. */
const joinParts = (params: Request['params']): Record<string, string> =>
  Object.fromEntries(Object.entries(params).map(([name, value]) => [name, [value].flat().join('/')]))

/** Returns the one or two paths of a route, the one below the API base first. */
export function pathsOf(route: Route): string[] {
  if (route.onlyAtRoot) return [route.path]
  const below = route.path === '/' ? API_BASE : `${API_BASE}${route.path}`
  return route.alsoAtRoot ? [below, route.path] : [below]
}

/**
 * Mounts the routes, and for each path an answer to all other methods. Paths without parameters come first,
 * so that `/claim/resolve` isn't taken for the claim with the id `resolve`.
 *
 * @param tree gets every route as well, except those whose path is open-ended
 */
export function mountRoutes(
  router: Router,
  tree: RouteTree,
  ctx: Context,
  authenticator: Authenticator,
  routes: readonly Route[],
  waits: Waits,
): void {
  const admission = createAdmission()
  const requireDisk = createDiskGuard(ctx)
  const frame = { ctx, authenticator, admission, requireDisk, waits }
  const byPath = new Map<string, Route[]>()
  for (const route of routes)
    for (const path of pathsOf(route)) byPath.set(path, [...(byPath.get(path) ?? []), route])
  for (const [path, routesOfPath] of [...byPath].sort(
    ([pathA], [pathB]) => Number(pathA.includes('{')) - Number(pathB.includes('{')),
  )) {
    const allowed = routesOfPath.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : ['POST']))
    for (const route of routesOfPath) {
      const handler = serve(frame, route)
      if (route.endsOpen === undefined) tree.add(route.method, path, handler)
      if (route.method === 'GET') router.get(expressPath(path, route.endsOpen), handler)
      else router.post(expressPath(path), handler)
    }
    router.all(expressPath(path, routesOfPath[0]?.endsOpen), answerOtherMethods([...allowed, 'OPTIONS']))
  }
}

/** What all routes are served with. */
interface Frame {
  ctx: Context
  authenticator: Authenticator
  admission: Admission
  requireDisk: () => void
  waits: Waits
}

/**
 * Returns the handler that serves requests of a route: authenticate → parse the query → wait, if the query
 * asks for it → read and parse the body → handle → send. It throws refusals, which answerErrors() sends.
 * Routes that need the database are refused until its indexes exist, because uniqueness depends on them.
 * Costly steps wait for their turn, including parsing and writing.
 */
function serve({ ctx, authenticator, admission, requireDisk, waits }: Frame, route: Route): RequestHandler {
  const kind = route.method === 'POST' ? 'writes' : 'reads'
  return async (req, res) => {
    if (route.needsDatabase !== false && !ctx.database.isReady()) throw unavailable()
    if (kind === 'writes') requireDisk()
    const life = res.locals['life'] as AbortController
    let leftMs = ctx.config.requestMs
    /**
     * Runs a part within what is left of the request's time and `moreMs`; after that the request is aborted.
     */
    const timed = async <T>(part: () => Promise<T>, moreMs = 0): Promise<T> => {
      const startedAt = performance.now()
      const timer = setTimeout(() => life.abort(tookTooLong()), leftMs + moreMs)
      try {
        return await untilAborted(part(), life.signal)
      } finally {
        clearTimeout(timer)
        leftMs = Math.max(0, leftMs - (performance.now() - startedAt))
      }
    }
    const authenticate = () =>
      authenticator.authenticate(route.access, req.headers.authorization, route.servesBanned)
    /** Calls the route's handler, in turn if the query is costly, and sends its answer. */
    const respond = async (
      caller: Caller | undefined,
      query: object | undefined,
      params: object | undefined,
      body: object | undefined,
    ): Promise<void> => {
      const call = {
        ctx,
        caller,
        body,
        query,
        params,
        peek: req.method === 'HEAD',
        prefers: (types: readonly string[]) => req.accepts([...types]) || undefined,
        releaseRoomWhile: <T>(wait: () => Promise<T>) => admission.releaseRoomWhile(kind, wait),
        inTurn: <T>(cost: number, work: () => Promise<T>) => inTurn(caller, cost > MAX_LIGHT_COST, work),
      }
      const answer = async (): Promise<void> => {
        const result = await route.handle(call as Parameters<Route['handle']>[0])
        // If aborted, a refusal has been sent already.
        life.signal.throwIfAborted()
        await send(req, res, route, result)
      }
      await inTurn(caller, (route.cost?.(query) ?? 0) > MAX_LIGHT_COST, answer)
    }
    /** Runs a part at once, or if it is heavy, in turn with other callers' heavy parts. */
    const inTurn = <T>(caller: Caller | undefined, isHeavy: boolean, part: () => Promise<T>): Promise<T> =>
      isHeavy ? admission.runHeavy(caller?._id ?? req.socket, part, currentSignal()) : part()
    const parse = () => ({
      query: parseQuery(route.query, req.query),
      params: route.params === undefined ? undefined : parseFields(route.params, joinParts(req.params)),
    })
    // Most requests are reads that don't wait, and are served in one part.
    if (kind === 'reads' && (route.wait === undefined || !req.url.includes('?'))) {
      await timed(async () => {
        const caller = route.access === 'open' ? undefined : await admission.run(kind, authenticate)
        const { query, params } = parse()
        await admission.run(kind, () => respond(caller, query, params, undefined), caller?._id)
      }, route.patienceMs)
      return
    }
    // The caller as it was before the body came, or before the wait.
    let early = await timed(async () => {
      if (kind === 'writes')
        await admission.waitForTurn(
          authenticator.guessAgentId(route.access, req.headers.authorization) ?? req.socket,
          life.signal,
        )
      return admission.run(kind, authenticate)
    })
    const isWhole = route.body === undefined || req.complete
    const { params, ...parsed } = parse()
    let { query } = parsed
    const wait =
      route.wait === undefined || req.method === 'HEAD'
        ? undefined
        : await timed(async () => route.wait?.({ ctx, caller: early, query }))
    if (wait !== undefined && early !== undefined) {
      const caller = early
      await allowSilence(req, res, wait.seconds, () =>
        waits.wait(caller._id, wait.seconds, wait.look, life.signal),
      )
      query = (wait.query as typeof query) ?? query
      leftMs = ctx.config.requestMs
      // During the wait the token may have been replaced or the agent banned.
      early = await timed(authenticate)
    }
    // Not timed: the server limits how long a client may take to send its body.
    const held =
      route.body === undefined
        ? undefined
        : await readBody(req, res, route.access === 'open' ? undefined : early?._id)
    /** Parses the body, and handles and answers the request. */
    const perform = async (): Promise<void> => {
      const { body: schema } = route
      const maxLightBytes = MAX_LIGHT_BODY_BYTES[route.access === 'open' ? 'open' : 'token']
      const body =
        schema === undefined || held === undefined
          ? undefined
          : await inTurn(early, held.bytes.length > maxLightBytes, () =>
              Promise.resolve(parseFields(schema, parseBody(req, held.bytes))),
            )
      held?.release()
      // While the body arrived, the token may have been replaced or the agent banned.
      await respond(isWhole ? early : await authenticate(), query, params, body)
    }
    try {
      await timed(() => admission.run(kind, perform, early?._id), route.patienceMs)
    } finally {
      held?.release()
    }
  }
}

/** Waits for `wait` with a longer time-out of the connection, and notes its duration for the metrics. */
async function allowSilence(
  req: Request,
  res: Response,
  seconds: number,
  wait: () => Promise<void>,
): Promise<void> {
  const { timeout } = req.socket
  const startedAt = performance.now()
  req.socket.setTimeout(seconds * SECOND_MS + WAIT_SLACK_MS)
  try {
    await wait()
  } finally {
    req.socket.setTimeout(timeout ?? 0)
    res.locals['waitedMs'] = performance.now() - startedAt
  }
}

/**
 * Sends an answer. If all callers of the route get the same one, it has an etag, is compressed if the client
 * takes gzip, and 304 takes its place if the client names the etag.
 */
async function send(req: Request, res: Response, route: Route, given: GivenAnswer<unknown>): Promise<void> {
  const parts = bytesOf(given)
  const vary = variesBy(route)
  if (vary !== '') res.setHeader('Vary', vary)
  if (!isPublic(route)) return sendParts(res, given, parts)
  const cache = given.cache ?? (route.changesEachTime ? undefined : cacheAndRevalidate(tagOf(parts)))
  if (cache !== undefined) {
    res.setHeader('ETag', cache.etag)
    res.setHeader('Cache-Control', cache.control)
    if (namesTag(req.headers['if-none-match'], cache.etag)) return void res.status(304).end()
  }
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  if (length < MIN_COMPRESSED_BYTES || !takesGzip(req)) return sendParts(res, given, parts)
  const compressed = await compress(parts)
  res.setHeader('Content-Encoding', 'gzip')
  // Weak, since the strong tag belongs to the uncompressed bytes (RFC 9110 section 8.8.3.3).
  if (cache !== undefined) res.setHeader('ETag', `W/${cache.etag}`)
  sendParts(res, given, [compressed])
}

/** The headers of the request that decide about an answer's form; empty if none does. */
function variesBy(route: Route): string {
  if (route.documents === undefined) return isPublic(route) ? 'Accept-Encoding' : ''
  return isPublic(route) ? 'Accept, Accept-Encoding' : 'Accept'
}

/** Whether the client names gzip in Accept-Encoding; one without that header gets the answer uncompressed. */
const takesGzip = (req: Request): boolean =>
  req.headers['accept-encoding'] !== undefined && req.acceptsEncodings('gzip') !== false

/** Returns the body of an answer, in parts. */
function bytesOf(given: GivenAnswer<unknown>): readonly Buffer[] {
  if ('document' in given) {
    const { text } = given.document
    return [typeof text === 'string' ? Buffer.from(text) : text]
  }
  return 'json' in given ? [given.json].flat() : [writeJson(given.view as object)]
}

/** Sends the body of an answer, with the headers of a document or of JSON. */
function sendParts(res: Response, given: GivenAnswer<unknown>, parts: readonly Buffer[]): void {
  if ('document' in given) sendDocument(res, given.document.type, parts)
  else sendJsonText(res, given.status, ...parts)
}

/**
 * Returns a function that calls `compute` with the parts as one buffer. For an answer in one part it
 * remembers the result by that buffer, which may be shared by many answers.
 */
function memoizeByBuffer<Result>(compute: (bytes: Buffer) => Result): (parts: readonly Buffer[]) => Result {
  const results = new WeakMap<Buffer, Result>()
  return ([first = EMPTY, ...more]) => {
    if (more.length > 0) return compute(Buffer.concat([first, ...more]))
    const known = results.get(first)
    if (known !== undefined) return known
    const result = compute(first)
    results.set(first, result)
    return result
  }
}

const EMPTY = Buffer.alloc(0)
const tagOf = memoizeByBuffer((bytes) => hash('sha256', bytes, 'hex').slice(0, 32))
const compress = memoizeByBuffer((bytes) => gzip(bytes, { level: zlib.constants.Z_BEST_SPEED }))

/**
 * Whether `If-None-Match` names the etag (RFC 9110 section 13.1.2, compared weakly). Express's `req.fresh`
 * can't be used: it is false with `Cache-Control: no-cache`, which fetch adds by itself to each such request.
 */
function namesTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}

/**
 * Returns a handler that answers OPTIONS with the methods of a path, and refuses methods that it doesn't
 * take.
 */
function answerOtherMethods(allowed: readonly string[]): RequestHandler {
  return (req, res) => {
    res.setHeader('Allow', allowed.join(', '))
    if (req.method === 'OPTIONS') {
      res.setHeader('Access-Control-Allow-Methods', allowed.join(', '))
      res.setHeader('Access-Control-Allow-Headers', 'Authorization, Content-Type, If-None-Match')
      res.setHeader('Access-Control-Max-Age', PREFLIGHT_SECONDS)
      sendJson(res, 200, { ok: true, methods: allowed })
      return
    }
    sendRefusal(
      res,
      new Refusal(
        'method_not_allowed',
        `This path does not take ${req.method}; it takes ${allowed.join(', ')}.`,
      ),
    )
  }
}

/**
 * Gives each request an id, for `X-Request-Id`, the log and the jobs that it enqueues; the headers for calls
 * from web pages; and an AbortController, `res.locals.life`, which stops its work when its caller has left.
 */
export const beginRequest: RequestHandler = (_req, res, next) => {
  const id = randomUUID()
  res.locals['requestId'] = id
  res.setHeader('X-Request-Id', id)
  // Any page may call: unlike a cookie, a token is never sent by a browser on its own.
  res.setHeader('Access-Control-Allow-Origin', '*')
  res.setHeader('Access-Control-Expose-Headers', 'Allow, ETag, Retry-After, WWW-Authenticate, X-Request-Id')
  const life = new AbortController()
  res.locals['life'] = life
  // An answer closes once, and a listener that is not taken off again costs less.
  res.on('close', () => {
    if (!res.writableFinished)
      life.abort(new Refusal('unavailable', 'The caller has left.', { countedAs: 'caller_left' }))
  })
  runInScope({ request_id: id }, next, life.signal)
}

/** Answers a request to a path that no route has: refusal `no_such_route`. */
export const refuseUnknownPath: RequestHandler = (req, res) => {
  sendRefusal(
    res,
    new Refusal(
      'no_such_route',
      `There is no route ${req.method} at this path; GET ${API_BASE} lists them all.`,
    ),
  )
}

/**
 * Returns what makes a request's final handler, in place of Express's, which answers with HTML. The router
 * calls it with an error that answerErrors() hasn't answered, or without one for a request target that is not
 * a URL, which the router gives up before the first middleware.
 */
export function answerUnrouted(
  ctx: Context,
  note: NoteRefusal,
): (req: Request, res: Response) => (error?: unknown) => void {
  const [measure, answerError] = [measureRequests(ctx), answerErrors(ctx, note)]
  return (req, res) => (error) => {
    const ignored = (): void => undefined
    if (error !== undefined) return void answerError(error, req, res, ignored)
    beginRequest(req, res, () => measure(req, res, () => refuseUnknownPath(req, res, ignored)))
    discardRest(req)
  }
}

/**
 * Returns the handler that answers an error with a refusal: see toRefusal(). If a part of the answer has been
 * sent, the connection is cut.
 */
export function answerErrors(ctx: Context, note: NoteRefusal): ErrorRequestHandler {
  return (error: unknown, req, res, _next) => {
    const refusal = toRefusal(error, ctx.log, note, String(res.locals['requestId']))
    if (res.headersSent || res.destroyed) return void res.destroy()
    if (refusal instanceof LateRequest) res.setHeader('Connection', 'close')
    sendRefusal(res, refusal)
    discardRest(req, refusal instanceof LateRequest ? CLOSE_LIMIT_MS : undefined)
  }
}
