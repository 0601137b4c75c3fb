import type { IncomingMessage } from 'node:http'
import { Refusal } from '../../shared/errors.ts'
import { MAX_BODY_BYTES } from '../../shared/limits.ts'
import { overloaded, takeBodyRoom, type BodyShare } from './admission.ts'
import { parseJsonObject } from './parse.ts'

/** How long a client may go on sending what nobody will read, before its connection is cut. */
const DISCARD_LIMIT_MS = 2_000

/**
 * The body of a request as a JSON object; one that is absent or empty counts as `{}`. Called after authentication, so
 * that nobody without a token makes the service hold what it sends. A body that is too large is refused by its
 * Content-Length at once, and without one as soon as it passes the limit.
 *
 * @param share which part of the room for bodies it is held in
 * @throws Refusal `body_too_large`, `unsupported_media_type`, `invalid_json`; `unavailable` where there is no room for it
 */
export async function readBody(req: IncomingMessage, share: BodyShare): Promise<object> {
  if (Number(req.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge()
  const room = takeBodyRoom(share)
  try {
    const bytes = await readBytes(req, room.add)
    if (bytes.length === 0) return {}
    assertJson(req)
    return parseJsonObject(bytes)
  } finally {
    room.release()
  }
}

function readBytes(req: IncomingMessage, takeRoom: (length: number) => boolean): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    const stop = (): void => {
      req.off('data', onData).off('end', onEnd).off('close', onClose)
    }
    const onData = (chunk: Buffer): void => {
      length += chunk.length
      const fits = length <= MAX_BODY_BYTES
      if (fits && takeRoom(chunk.length)) return void chunks.push(chunk)
      stop()
      reject(fits ? overloaded() : tooLarge())
    }
    const onEnd = (): void => {
      stop()
      resolve(Buffer.concat(chunks, length))
    }
    const onClose = (): void => {
      stop()
      reject(new Refusal('invalid_json', 'The body ended before its length was reached.'))
    }
    req.on('data', onData).once('end', onEnd).once('close', onClose)
  })
}

function assertJson(req: IncomingMessage): void {
  const [essence, ...parameters] = (req.headers['content-type'] ?? '').split(';').map((part) => part.trim().toLowerCase())
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  if (essence !== 'application/json' || (charset !== undefined && !/^charset="?utf-?8"?$/.test(charset))) {
    throw new Refusal('unsupported_media_type', 'The body must be sent as "Content-Type: application/json" in UTF-8.')
  }
  const encoding = req.headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new Refusal('unsupported_media_type', 'The body must be sent as it is, without a Content-Encoding.')
  }
}

function tooLarge(): Refusal {
  return new Refusal('body_too_large', `The body is larger than ${MAX_BODY_BYTES} bytes; send less at a time.`)
}

/**
 * Lets a client finish sending what is not wanted, so that it gets to read its refusal, but not for long: an answered
 * request whose body does not end is cut off.
 */
export function discardRest(req: IncomingMessage): void {
  if (req.complete) return
  const cut = setTimeout(() => req.socket.destroy(), DISCARD_LIMIT_MS)
  req.once('end', () => clearTimeout(cut)).once('close', () => clearTimeout(cut))
  req.resume()
}
