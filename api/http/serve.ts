import type { Request, RequestHandler, Response } from 'express'
import type { Caller } from '../../shared/agents/agent-store.ts'
import type { Context } from '../../shared/context.ts'
import { createSharedReads } from '../../shared/platform/group-commit.ts'
import { tookTooLong, unavailable } from '../../shared/platform/database.ts'
import { PART_BYTES } from '../../shared/platform/limits.ts'
import { untilAborted } from '../../shared/platform/deadline.ts'
import { currentSignal } from '../../shared/platform/scope.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import { sendAnswer, writeAnswer, type WrittenAnswer } from './answer.ts'
import type { Authenticator } from './authenticate.ts'
import { parseBody, readBody, type HeldBody } from './body.ts'
import type { Gate } from '../gate/gate.ts'
import { parseFields, parseQuery } from './parse.ts'
import { isPublic, type Route, type Wait } from './route.ts'
import { visitorOf, type Visitor } from '../gate/turns.ts'
import type { Waits } from '../waits.ts'

/** How long a connection may be silent after a wait. */
const WAIT_SLACK_MS = 30 * SECOND_MS

/** What all routes are served with. */
export interface Frame {
  ctx: Context
  authenticator: Authenticator
  gate: Gate
  requireDisk: () => void
  waits: Waits
}

/** The route, and what answers callers with the same question together. */
interface Served {
  route: Route
  share: ReturnType<typeof createSharedReads<WrittenAnswer>>
}

/** Returns the handler of a route at one of its paths. It throws refusals, which answerErrors() sends. */
export function serve(frame: Frame, route: Route, path: string): RequestHandler {
  const served = { route, share: createSharedReads<WrittenAnswer>() }
  return (req, res) => {
    res.locals['path'] = path
    return new RequestUnderWay(frame, served, req, res).answer()
  }
}

/** What a request says before its body. */
interface Head {
  caller: Caller | undefined
  query: Fields | undefined
  params: Fields | undefined
}

/** What a schema has parsed. */
type Fields = Record<string, unknown>

/**
 * A request on its way through its route: it authenticates its caller, parses the URL, waits if the query asks
 * for it, reads the body, handles, writes the answer and sends it. Whatever of this costs time takes its turn
 * at the gate; while the service waits for its client, or for news, the request takes up no room there.
 */
class RequestUnderWay {
  readonly #frame: Frame
  readonly #served: Served
  readonly #req: Request
  readonly #res: Response
  readonly #life: AbortController
  /** Whose token this process remembers it to be. */
  #recalled: Caller | undefined
  /** What is left of the time that the service may take for the request. */
  #leftMs: number

  constructor(frame: Frame, served: Served, req: Request, res: Response) {
    this.#frame = frame
    this.#served = served
    this.#req = req
    this.#res = res
    this.#life = res.locals['life'] as AbortController
    this.#leftMs = frame.ctx.config.requestMs
  }

  async answer(): Promise<void> {
    const { route } = this.#served
    const { authenticator } = this.#frame
    if (route.access === 'open' && route.proof !== undefined) return this.#answerProof(route.proof)
    this.#recalled = authenticator.recall(this.#req.headers.authorization)
    const isKnown = this.#recalled !== undefined || route.access === 'open'
    const first = this.#visitor(this.#recalled?._id)
    const begun = await this.#inTurn(first, async () => {
      const head = await this.#readHead(first)
      const wait = await this.#findWait(head)
      const isComplete = route.body === undefined || this.#req.complete
      // Whom the service got to know only now takes its turn among the agents.
      if (wait !== undefined || !isComplete || !(isKnown || head.caller === undefined)) return { head, wait }
      await this.#withBody(first, head.caller, (held) => this.#finish(first, head, held))
      return undefined
    })
    if (begun === undefined) return
    const head = await this.#waitIfAsked(begun.head, begun.wait)
    const visitor = this.#visitor(head.caller?._id)
    await this.#withBody(visitor, head.caller, (held) =>
      this.#inTurn(visitor, async () => {
        // While the body arrived, the token may have been replaced or the agent banned.
        const caller = held === undefined ? head.caller : await this.#authenticate(visitor)
        await this.#finish(visitor, { ...head, caller }, held)
      }),
    )
  }

  /**
   * Answers a request that anyone may send and that shows work: once that is checked, it has a line of its own.
   * So those who show none, and are refused in their turns, don't delay those who do.
   */
  async #answerProof(prove: NonNullable<Route['proof']>): Promise<void> {
    const stranger = this.#visitor(undefined)
    await this.#withBody(stranger, undefined, async (held) => {
      const body = await this.#inTurn(stranger, () => this.#parseBody(stranger, held))
      if (body !== undefined) prove(body)
      const visitor: Visitor = { ...stranger, line: 'proofs' }
      await this.#inTurn(visitor, async () =>
        this.#finish(visitor, await this.#readHead(visitor), held, body),
      )
    })
  }

  /** @param agentId undefined for a caller that is not known */
  #visitor(agentId: string | undefined): Visitor {
    return visitorOf(agentId, this.#req.socket, this.#life.signal)
  }

  /** Runs a part in its turn, within what is left of the request's time; after that the request is aborted. */
  async #inTurn<T>(visitor: Visitor, part: () => Promise<T>): Promise<T> {
    const { gate } = this.#frame
    const { method, patienceMs = 0 } = this.#served.route
    const startedAt = performance.now()
    const timer = setTimeout(() => this.#life.abort(tookTooLong()), this.#leftMs + patienceMs)
    this.#res.locals['visitor'] = visitor
    try {
      const running = gate.run(visitor, method === 'GET' ? 'reads' : 'writes', part)
      return await untilAborted(running, this.#life.signal)
    } finally {
      clearTimeout(timer)
      this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - startedAt))
    }
  }

  /**
   * Authenticates the caller and parses the URL. Routes that need the database are refused until its indexes
   * exist, because uniqueness depends on them.
   *
   * @throws Refusal
   */
  async #readHead(visitor: Visitor): Promise<Head> {
    const { ctx, requireDisk } = this.#frame
    const { needsDatabase, method, query, params } = this.#served.route
    if (needsDatabase !== false && !ctx.database.isReady()) throw unavailable()
    if (method !== 'GET') requireDisk()
    return {
      caller: await this.#authenticate(visitor),
      query: parseQuery(query, this.#req.query),
      params: params === undefined ? undefined : parseFields(params, joinParts(this.#req.params)),
    }
  }

  /** @returns undefined if the route is open, or takes callers without a token and this one has none */
  #authenticate(visitor: Visitor): Promise<Caller | undefined> {
    const { authenticator, gate } = this.#frame
    const { access, servesBanned } = this.#served.route
    const { authorization } = this.#req.headers
    const options = { servesBanned, recalled: this.#recalled }
    const authenticate = () => authenticator.authenticate(access, authorization, options)
    // A token that this process doesn't know is looked up in the database.
    const isLookedUp = access !== 'open' && authorization !== undefined && visitor.line !== 'agents'
    return isLookedUp ? gate.runWithRoom(visitor, 'look-up', authenticate) : authenticate()
  }

  /** @returns undefined unless the query asks to wait */
  async #findWait({ caller, query }: Head): Promise<Wait<Fields | undefined> | undefined> {
    if (caller === undefined || this.#req.method === 'HEAD') return undefined
    return this.#served.route.wait?.({ ctx: this.#frame.ctx, caller, query })
  }

  /** Waits, after which the request has its whole time again. @returns the head as it is after the wait */
  async #waitIfAsked(head: Head, wait: Wait<Fields | undefined> | undefined): Promise<Head> {
    const { ctx, waits } = this.#frame
    const { caller } = head
    if (wait === undefined || caller === undefined) return head
    await this.#allowSilence(wait.seconds, () =>
      waits.wait(caller._id, wait.seconds, wait.look, this.#life.signal),
    )
    this.#leftMs = ctx.config.requestMs
    // During the wait the token may have been replaced or the agent banned.
    const visitor = this.#visitor(caller._id)
    const sinceThen = await this.#inTurn(visitor, () => this.#authenticate(visitor))
    return { ...head, caller: sinceThen, query: wait.query ?? head.query }
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

  /**
   * Reads the body for `use`, and gives back the room that it takes when that is over. The server limits how long
   * the reading may take.
   */
  async #withBody(
    visitor: Visitor,
    caller: Caller | undefined,
    use: (held: HeldBody | undefined) => Promise<void>,
  ): Promise<void> {
    const { body, access } = this.#served.route
    if (body === undefined) return use(undefined)
    const agentId = access === 'open' ? undefined : caller?._id
    const next = () => this.#frame.gate.runWhole(visitor, () => undefined)
    const held = await readBody(this.#req, this.#res, agentId, next)
    try {
      await use(held)
    } finally {
      held.release()
    }
  }

  /** Parses the body unless it is given, calls the route's handler, writes its answer and sends it. */
  async #finish(visitor: Visitor, head: Head, held: HeldBody | undefined, parsed?: Fields): Promise<void> {
    const { gate } = this.#frame
    // The token may have been looked up in the database, which answers many at once.
    await gate.goOn(visitor)
    const body = parsed ?? (await this.#parseBody(visitor, held))
    held?.release()
    const answer = await this.#write(visitor, head, body)
    // If aborted, a refusal has been sent already.
    this.#life.signal.throwIfAborted()
    await sendAnswer(this.#req, this.#res, this.#served.route, answer, (bytes, compress) =>
      bytes < PART_BYTES ? compress() : gate.runWithRoom(visitor, bytes / 1024, compress),
    )
  }

  async #parseBody(visitor: Visitor, held: HeldBody | undefined): Promise<Fields | undefined> {
    const { body: schema } = this.#served.route
    if (schema === undefined || held === undefined) return undefined
    const inTurn = <T>(work: () => T): T | Promise<T> =>
      held.isLong ? this.#frame.gate.runWhole(visitor, work) : work()
    const json = await inTurn(() => parseBody(this.#req, held.bytes))
    return inTurn(() => parseFields(schema, json))
  }

  /** Calls the handler and writes its answer; for what weighs something, together with equal questions. */
  #write(visitor: Visitor, head: Head, body: Fields | undefined): Promise<WrittenAnswer> {
    const { gate } = this.#frame
    const { route, share } = this.#served
    const perform = async (of: Visitor): Promise<WrittenAnswer> =>
      writeAnswer(route, await this.#handle(head, body), () => gate.next(of))
    // What waits for workers would keep others from the database.
    const isFree = route.needsDatabase === false || route.patienceMs !== undefined
    const weight = route.weight?.(head.query) ?? (isFree ? 0 : 'light')
    if (weight === 0) return perform(visitor)
    if (weight === 'light' || !isPublic(route))
      return gate.runWithRoom(visitor, weight, () => perform(visitor))
    return share(
      JSON.stringify([head.params, head.query]),
      // It goes on until all who asked have left; then its room is free, whatever it still waits for.
      () => {
        const signal = currentSignal()
        const read = perform({ ...visitor, signal })
        return signal === undefined ? read : untilAborted(read, signal)
      },
      (read) => gate.runWithRoom({ ...visitor, signal: undefined }, weight, read),
    )
  }

  #handle(head: Head, body: Fields | undefined) {
    const call = {
      ctx: this.#frame.ctx,
      ...head,
      body,
      peek: this.#req.method === 'HEAD',
      prefers: (types: readonly string[]) => this.#req.accepts([...types]) || undefined,
    }
    return this.#served.route.handle(call)
  }
}

/** Returns path parameters as texts: one with slashes, which Express gives in parts, is joined again. */
const joinParts = (params: Request['params']): Record<string, string> =>
  Object.fromEntries(Object.entries(params).map(([name, value]) => [name, joinPart(value)]))
const joinPart = (value: string | string[]): string => (typeof value === 'string' ? value : value.join('/'))
