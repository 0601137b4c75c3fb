import type { Request, RequestHandler, Response } from 'express'
import { Refusal } from '../../shared/platform/errors.ts'
import {
  errorOf,
  idOf,
  PARSE_ERROR,
  readMessage,
  RpcError,
  type RpcId,
  type RpcRequest,
} from '../../shared/rpc/json-rpc.ts'
import { piecesOfJson, sendJson } from '../http/answer.ts'
import { parseBody, readBody } from '../http/body.ts'
import { serve, type Frame } from '../http/serve.ts'
import type { GivenAnswer, Route } from '../http/route.ts'
import { visitorOf, type Visitor } from '../gate/turns.ts'
import { answerOtherMethods } from '../http/mount.ts'

/*
 * A door to routes for those who speak a protocol over JSON-RPC: a path at the root, at which each message is a
 * POST and its answer one JSON object. What a message asks of a route is served as a request of that route: in its
 * turn, with the route's access, bounds and weight.
 */

/** A request on its way through a door. */
export interface Exchange {
  frame: Frame
  path: string
  req: Request
  res: Response
}

/** What a route is called with. */
export type RouteFields = Record<'params' | 'query' | 'body', Record<string, unknown> | undefined>

const METHODS = ['POST', 'OPTIONS']

/**
 * Returns the handler of a door.
 *
 * @param headers the request headers that a page of another site may send, beside `Authorization` and
 *   `Content-Type`
 * @param answer answers a request. @throws RpcError if that is to be said with status 400
 */
export function openDoor(
  frame: Frame,
  path: string,
  headers: readonly string[],
  answer: (exchange: Exchange, request: RpcRequest) => Promise<void>,
): RequestHandler {
  const answerOthers = answerOtherMethods(frame, path, METHODS, headers)
  return async (req, res, next) => {
    res.locals['path'] = path
    res.setHeader('Cache-Control', 'no-store')
    if (req.method !== 'POST') {
      await answerOthers(req, res, next)
      return
    }
    let value: unknown
    try {
      value = await readValue(frame, req, res)
      const message = readMessage(value)
      if (message.kind !== 'request') return void res.status(202).end()
      await answer({ frame, path, req, res }, message)
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      sendError(res, 400, idOf(value), error)
    }
  }
}

/**
 * Calls a route as the caller of this request, with these fields in place of those of a URL and a body, and sends
 * what `write` makes of its answer.
 *
 * @throws Refusal what the route's own request would be answered with
 */
export async function callRoute(
  { frame, path, req, res }: Exchange,
  route: Route,
  fields: RouteFields,
  write: (given: GivenAnswer<unknown>) => Iterable<string>,
): Promise<void> {
  const { weight, wait } = route
  const unparsed = { ...route }
  for (const part of ['params', 'query', 'body'] as const) delete unparsed[part]
  const called: Route = {
    ...unparsed,
    // Nothing of it is to be kept by a cache.
    changesEachTime: true,
    ...(weight && { weight: () => weight(fields.query) }),
    ...(wait && { wait: ({ ctx, caller }) => wait({ ctx, caller, query: fields.query }) }),
    handle: async (call) => {
      const given = await route.handle({ ...call, ...fields, query: call.query ?? fields.query })
      return { status: 200, document: 'application/json', body: write(given) }
    },
  }
  try {
    await serve(frame, called, path)(req, res, () => undefined)
  } catch (error) {
    await frame.gate.goOn(res.locals['visitor'] as Visitor)
    throw error
  }
}

/** Gives a route's answer as JSON, in pieces that each end between two characters. */
export function* piecesOf(given: GivenAnswer<unknown>): Iterable<string> {
  if (!('body' in given)) yield* piecesOfJson({ ok: true, ...(given.view as object) })
  else if (Buffer.isBuffer(given.body)) yield String(given.body)
  else for (const piece of given.body) yield String(piece)
}

export const sendResult = (res: Response, id: RpcId, result: object): void =>
  sendJson(res, 200, { jsonrpc: '2.0', id, result })

export const sendError = (res: Response, status: number, id: RpcId | undefined, error: RpcError): void =>
  sendJson(res, status, { jsonrpc: '2.0', ...(id === undefined ? {} : { id }), error: errorOf(error) })

/** Reads the body of a request as JSON, in its turn. @throws RpcError if it is no JSON; Refusal */
async function readValue({ authenticator, gate }: Frame, req: Request, res: Response): Promise<unknown> {
  const recalled = authenticator.recall(req.headers.authorization)
  const { signal } = res.locals['life'] as AbortController
  const visitor = visitorOf(recalled?._id, req.socket, signal)
  res.locals['visitor'] = visitor
  await gate.next(visitor)
  const held = await readBody(req, res, recalled?._id, () => gate.runWhole(visitor, () => undefined))
  try {
    const parse = (): object => parseBody(req, held.bytes)
    await gate.goOn(visitor)
    return held.isLong ? await gate.runWhole(visitor, parse) : parse()
  } catch (error) {
    if (error instanceof Refusal && error.code === 'invalid_json')
      throw new RpcError(PARSE_ERROR, error.message)
    throw error
  } finally {
    held.release()
  }
}
