import type { Request, RequestHandler, Response } from 'express'
import type { Caller } from '../../shared/agents/agent-store.ts'
import type { Context } from '../../shared/context.ts'
import { tookTooLong, unavailable } from '../../shared/servers/database.ts'
import { MAX_LIGHT_BODY_BYTES, MAX_LIGHT_COST } from '../../shared/foundation/limits.ts'
import { createMeter, type Meter } from '../../shared/foundation/meter.ts'
import { currentSignal } from '../../shared/foundation/scope.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'
import { untilAborted, type Admission, type RequestKind } from './admission.ts'
import type { Authenticator } from './authenticate.ts'
import { parseBody, readBody, type HeldBody } from './body.ts'
import { parseFields, parseQuery } from './parse.ts'
import type { Route } from './route.ts'
import { send } from './send.ts'
import type { Waits } from './waits.ts'

/** How long a connection may be silent after a wait. */
const WAIT_SLACK_MS = 30 * SECOND_MS

/** What all routes are served with. */
export interface Frame {
  ctx: Context
  authenticator: Authenticator
  admission: Admission
  requireDisk: () => void
  waits: Waits
}

/**
 * Returns the handler that serves requests of a route. It throws refusals, which answerErrors() sends. Routes
 * that need the database are refused until its indexes exist, because uniqueness depends on them.
 */
export function serve(frame: Frame, route: Route): RequestHandler {
  const isRead = route.method !== 'POST'
  return async (req, res) => {
    if (route.needsDatabase !== false && !frame.ctx.database.isReady()) throw unavailable()
    if (!isRead) frame.requireDisk()
    const request = new RequestUnderWay(frame, route, req, res)
    // Most requests are reads that don't wait.
    if (isRead && (route.wait === undefined || !req.url.includes('?'))) await request.answerAtOnce()
    else await request.answerInSteps()
  }
}

/** What the fields of a request's URL were parsed to; undefined if the route has none. */
interface UrlFields {
  query: object | undefined
  params: object | undefined
}

/**
 * A request on its way through its route. Costly steps wait for their turn, including parsing and writing.
 */
class RequestUnderWay {
  readonly #frame: Frame
  readonly #route: Route
  readonly #req: Request
  readonly #res: Response
  readonly #kind: RequestKind
  readonly #life: AbortController
  /** What is left of the time that the service may take for the request. */
  #leftMs: number

  constructor(frame: Frame, route: Route, req: Request, res: Response) {
    this.#frame = frame
    this.#route = route
    this.#req = req
    this.#res = res
    this.#kind = route.method === 'POST' ? 'writes' : 'reads'
    this.#life = res.locals['life'] as AbortController
    this.#leftMs = frame.ctx.config.requestMs
  }

  /** Authenticates, parses the URL, handles and answers, all in the time of one part. */
  async answerAtOnce(): Promise<void> {
    const { admission } = this.#frame
    await this.#timed(async () => {
      const caller =
        this.#route.access === 'open'
          ? undefined
          : await admission.run(this.#kind, () => this.#authenticate())
      const fields = this.#parseUrl()
      await admission.run(this.#kind, () => this.#respond(caller, fields, undefined), caller?._id)
    }, this.#route.patienceMs)
  }

  /** Authenticates, parses the URL, waits if the query asks for it, reads the body, handles and answers. */
  async answerInSteps(): Promise<void> {
    const { access, body, patienceMs } = this.#route
    const firstCaller = await this.#timed(() => this.#takeTurn())
    const bodyCameAtOnce = body === undefined || this.#req.complete
    const firstFields = this.#parseUrl()
    const { caller, fields } = await this.#waitIfAsked(firstCaller, firstFields)
    // Not timed: the server limits how long a client may take to send its body.
    const held =
      body === undefined
        ? undefined
        : await readBody(this.#req, this.#res, access === 'open' ? undefined : caller?._id)
    const perform = async (): Promise<void> => {
      const parsed = await this.#parseBody(caller, held)
      held?.release()
      // While the body arrived, the token may have been replaced or the agent banned.
      await this.#respond(bodyCameAtOnce ? caller : await this.#authenticate(), fields, parsed)
    }
    try {
      await this.#timed(() => this.#frame.admission.run(this.#kind, perform, caller?._id), patienceMs)
    } finally {
      held?.release()
    }
  }

  /** Waits for the caller's turn if the request writes. @returns the caller, as of then */
  async #takeTurn(): Promise<Caller | undefined> {
    const { admission, authenticator } = this.#frame
    if (this.#kind === 'writes') {
      const agentId = authenticator.guessAgentId(this.#route.access, this.#req.headers.authorization)
      await admission.waitForTurn(agentId ?? this.#req.socket, this.#life.signal)
    }
    return admission.run(this.#kind, () => this.#authenticate())
  }

  /**
   * Waits if the query asks for it, after which the request has its whole time again.
   *
   * @returns the caller and the fields as they are after the wait
   */
  async #waitIfAsked(
    caller: Caller | undefined,
    fields: UrlFields,
  ): Promise<{ caller: Caller | undefined; fields: UrlFields }> {
    const { ctx, waits } = this.#frame
    if (this.#route.wait === undefined || this.#req.method === 'HEAD') return { caller, fields }
    const wait = await this.#timed(async () => this.#route.wait?.({ ctx, caller, query: fields.query }))
    if (wait === undefined || caller === undefined) return { caller, fields }
    await this.#allowSilence(wait.seconds, () =>
      waits.wait(caller._id, wait.seconds, wait.look, this.#life.signal),
    )
    this.#leftMs = ctx.config.requestMs
    return {
      // During the wait the token may have been replaced or the agent banned.
      caller: await this.#timed(() => this.#authenticate()),
      fields: { ...fields, query: wait.query ?? fields.query },
    }
  }

  /** Waits for `wait` with a longer time-out of the connection, and notes its duration for the metrics. */
  async #allowSilence(seconds: number, wait: () => Promise<void>): Promise<void> {
    const { socket } = this.#req
    const { timeout } = socket
    const startedAt = performance.now()
    socket.setTimeout(seconds * SECOND_MS + WAIT_SLACK_MS)
    try {
      await wait()
    } finally {
      socket.setTimeout(timeout ?? 0)
      this.#res.locals['waitedMs'] = performance.now() - startedAt
    }
  }

  /** Parses the body, in turn if it is long. @returns undefined if the route has none */
  async #parseBody(caller: Caller | undefined, held: HeldBody | undefined): Promise<object | undefined> {
    const { access, body: schema } = this.#route
    if (schema === undefined || held === undefined) return undefined
    const maxLightBytes = MAX_LIGHT_BODY_BYTES[access === 'open' ? 'open' : 'token']
    return this.#inTurn(caller, held.bytes.length > maxLightBytes, async () =>
      parseFields(schema, parseBody(this.#req, held.bytes)),
    )
  }

  /** Calls the route's handler and sends its answer. */
  async #respond(caller: Caller | undefined, fields: UrlFields, body: object | undefined): Promise<void> {
    const { ctx, admission } = this.#frame
    const call = {
      ctx,
      caller,
      body,
      query: fields.query,
      params: fields.params,
      peek: this.#req.method === 'HEAD',
      prefers: (types: readonly string[]) => this.#req.accepts([...types]) || undefined,
      releaseRoomWhile: <T>(wait: () => Promise<T>) => admission.releaseRoomWhile(this.#kind, wait),
      metered: <T>(work: (meter: Meter) => Promise<T>) => this.#metered(caller, work),
      inTurn: <T>(cost: number, work: () => Promise<T>) => this.#inTurn(caller, cost > MAX_LIGHT_COST, work),
    }
    const result = await this.#route.handle(call as Parameters<Route['handle']>[0])
    // If aborted, a refusal has been sent already.
    this.#life.signal.throwIfAborted()
    await send(this.#req, this.#res, this.#route, result)
  }

  /** Runs work with a meter: it waits for a turn when it has become heavy, and keeps that until it is done. */
  async #metered<T>(caller: Caller | undefined, work: (meter: Meter) => Promise<T>): Promise<T> {
    const done = Promise.withResolvers<void>()
    const takeTurn = (): Promise<void> =>
      new Promise((resolve, reject) => {
        this.#inTurn(caller, true, () => {
          resolve()
          return done.promise
        }).catch(reject)
      })
    try {
      return await work(createMeter(takeTurn))
    } finally {
      done.resolve()
    }
  }

  /** Runs a part at once, or if it is heavy, in turn with other callers' heavy parts. */
  #inTurn<T>(caller: Caller | undefined, isHeavy: boolean, part: () => Promise<T>): Promise<T> {
    if (!isHeavy) return part()
    return this.#frame.admission.runHeavy(caller?._id ?? this.#req.socket, part, currentSignal())
  }

  /**
   * Runs a part within what is left of the request's time and `moreMs`; after that the request is aborted.
   */
  async #timed<T>(part: () => Promise<T>, moreMs = 0): Promise<T> {
    const startedAt = performance.now()
    const timer = setTimeout(() => this.#life.abort(tookTooLong()), this.#leftMs + moreMs)
    try {
      return await untilAborted(part(), this.#life.signal)
    } finally {
      clearTimeout(timer)
      this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - startedAt))
    }
  }

  /** @returns undefined if the route is open, or takes callers without a token and this one has none */
  #authenticate(): Promise<Caller | undefined> {
    const { access, servesBanned } = this.#route
    return this.#frame.authenticator.authenticate(access, this.#req.headers.authorization, servesBanned)
  }

  /** @throws Refusal `invalid_field` */
  #parseUrl(): UrlFields {
    const { query, params } = this.#route
    return {
      query: parseQuery(query, this.#req.query),
      params: params === undefined ? undefined : parseFields(params, joinParts(this.#req.params)),
    }
  }
}

/** Returns path parameters as texts: one with slashes, which Express gives in parts, is joined again. */
const joinParts = (params: Request['params']): Record<string, string> =>
  Object.fromEntries(Object.entries(params).map(([name, value]) => [name, [value].flat().join('/')]))
