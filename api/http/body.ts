import type { IncomingMessage, ServerResponse } from 'node:http'
import { Refusal } from '../../shared/platform/errors.ts'
import {
  AGENT_BODY_SHARE,
  BODY_FLOOR,
  FREE_BODY_BYTES,
  MAX_BODY_BYTES,
  MAX_HELD_BODY_BYTES,
  MAX_LIGHT_BODY_BYTES,
} from '../../shared/platform/limits.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import { overloaded } from '../gate/gate.ts'
import { parseJsonObject } from './parse.ts'
import { createRoom } from '../gate/room.ts'

/** How long a refused client may go on sending its body before its connection is cut. */
const DISCARD_LIMIT_MS = 2_000

/** Resolves when the next part of a long body may be read. */
export type NextPart = () => Promise<void>

/**
 * Reads a request's body. Call it after authentication, so that nobody without a token makes the service hold
 * what it sends, or gets `100 Continue`. A body that is too large is refused at once by its Content-Length, or
 * without one as soon as it passes the limit.
 *
 * @param agentId the agent whose share of the memory for bodies it takes; undefined on an open route
 * @param next the body's first part is read without it
 * @throws Refusal `body_too_large`; `invalid_json` if it ends early; `unavailable` if there is no room for it, or
 *   it comes too slowly; what `next` throws
 */
export async function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  agentId: string | undefined,
  next: NextPart,
): Promise<HeldBody> {
  if (Number(req.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge()
  const room = takeBodyRoom(agentId)
  try {
    if (req.headers.expect !== undefined && req.httpVersion === '1.1') res.writeContinue()
    const lightBytes = MAX_LIGHT_BODY_BYTES[agentId === undefined ? 'open' : 'token']
    const bytes = await readBytes(req, lightBytes, room.add, next)
    return { bytes, isLong: bytes.length > lightBytes, release: room.release }
  } catch (error) {
    room.release()
    throw error
  }
}

const ROOMS = {
  open: createRoom({ all: MAX_HELD_BODY_BYTES.open, ofCaller: MAX_HELD_BODY_BYTES.open }),
  token: createRoom({
    all: MAX_HELD_BODY_BYTES.token,
    ofCaller: MAX_HELD_BODY_BYTES.token / AGENT_BODY_SHARE,
  }),
}
/** Bytes that a chunk costs besides its content: a body may arrive a byte at a time. */
const CHUNK_COST = 256

/**
 * Reserves memory for one body as it arrives. Its first few KiB are free, so that small bodies get in beside
 * large ones that don't end, and no agent gets more than a share of the memory.
 *
 * @param agentId whose token the body came with; undefined for a body that needs none
 * @returns `add`, which reserves `more` bytes and returns false if there is no room for them; and
 *   `release`, which gives back all of them
 */
export function takeBodyRoom(agentId: string | undefined): { add(more: number): boolean; release(): void } {
  const room = ROOMS[agentId === undefined ? 'open' : 'token']
  const caller = agentId ?? 'nobody that is known'
  let length = 0
  let taken = 0
  return {
    add(more) {
      length += more + CHUNK_COST
      const owed = length - FREE_BODY_BYTES - taken
      if (owed > 0 && !room.tryTake(caller, owed)) return false
      taken += Math.max(0, owed)
      return true
    },
    release() {
      room.putDown(caller, taken)
      taken = 0
    },
  }
}

/** A body; call `release` when its bytes are no longer needed. */
export interface HeldBody {
  bytes: Buffer
  /** Whether it is parsed by itself. */
  isLong: boolean
  release(): void
}

/**
 * Parses a body as a JSON object, whose fields are not checked yet; an empty body counts as `{}`.
 *
 * @throws Refusal `unsupported_media_type`, `invalid_json`
 */
export function parseBody(req: IncomingMessage, bytes: Buffer): object {
  if (bytes.length === 0) return {}
  requireJson(req)
  return parseJsonObject(bytes)
}

/**
 * Reads a body to its end: what readBody() says.
 *
 * @param lightBytes what is read without waiting for `next`
 * @param takeRoom reserves memory for the given number of further bytes; returns false if there is not so much
 */
function readBytes(
  req: IncomingMessage,
  lightBytes: number,
  takeRoom: (length: number) => boolean,
  next: NextPart,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    let startedAt = performance.now()
    const speedCheck = setInterval(() => {
      const dueMs = performance.now() - startedAt - BODY_FLOOR.graceMs
      if (req.isPaused() || length * SECOND_MS >= dueMs * BODY_FLOOR.bytesPerSecond) return
      fail(
        new Refusal(
          'unavailable',
          `The body came at less than ${BODY_FLOOR.bytesPerSecond} bytes a second; send it faster, or less at a time.`,
          { countedAs: 'slow_request' },
        ),
      )
    }, SECOND_MS)
    const stop = (): void => {
      clearInterval(speedCheck)
      req.off('data', onData).off('end', onEnd).off('close', onClose)
    }
    const fail = (error: unknown): void => {
      stop()
      reject(error)
    }
    const onData = (chunk: Buffer): void => {
      length += chunk.length
      if (length > MAX_BODY_BYTES) return fail(tooLarge())
      if (!takeRoom(chunk.length)) return fail(overloaded())
      chunks.push(chunk)
      if (length <= lightBytes) return
      const pausedAt = performance.now()
      // The time in which the service doesn't read is not the sender's.
      readAfter(req, next).then(() => (startedAt += performance.now() - pausedAt), fail)
    }
    const onEnd = (): void => {
      stop()
      resolve(Buffer.concat(chunks, length))
    }
    const onClose = (): void =>
      fail(new Refusal('invalid_json', 'The body ended before its length was reached.'))
    req.on('data', onData).once('end', onEnd).once('close', onClose)
  })
}

/** Reads nothing more of a request until `next` is over. */
function readAfter(req: IncomingMessage, next: NextPart): Promise<void> {
  req.pause()
  return next().finally(() => req.resume())
}

/** @throws Refusal `unsupported_media_type` unless the headers say that the body is plain JSON in UTF-8 */
function requireJson(req: IncomingMessage): void {
  const [essence, ...parameters] = (req.headers['content-type'] ?? '')
    .split(';')
    .map((part) => part.trim().toLowerCase())
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  if (essence !== 'application/json' || (charset !== undefined && !/^charset="?utf-?8"?$/.test(charset))) {
    throw new Refusal(
      'unsupported_media_type',
      'The body must be sent as "Content-Type: application/json" in UTF-8.',
    )
  }
  const encoding = req.headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new Refusal('unsupported_media_type', 'The body must be sent as it is, without a Content-Encoding.')
  }
}

/** Returns the refusal `body_too_large`. */
function tooLarge(): Refusal {
  return new Refusal(
    'body_too_large',
    `The body is larger than ${MAX_BODY_BYTES} bytes; send less at a time.`,
  )
}

/**
 * Lets a refused client finish sending its body, so that it gets to read the refusal; cuts the connection if
 * the body doesn't end within `limitMs`.
 *
 * @param next each part of the body is read after it
 */
export function discardRest(req: IncomingMessage, next: NextPart, limitMs = DISCARD_LIMIT_MS): void {
  if (req.complete) return
  const cut = setTimeout(() => req.socket.destroy(), limitMs)
  req.once('end', () => clearTimeout(cut)).once('close', () => clearTimeout(cut))
  req.on('data', () => void readAfter(req, next)).resume()
}
