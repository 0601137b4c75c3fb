import { createServer, ServerResponse, type IncomingMessage } from 'node:http'
import net from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { discardRest, readBody } from '../../api/http/body.ts'
import { MAX_BODY_BYTES } from '../../shared/platform/limits.ts'
import { listen } from '../../shared/platform/listen.ts'

/** More than Node reads of a request that is paused: a part that is given, one that is kept, and the head. */
const FEW_BYTES = 256 * 1024
const later = () => new Promise((resolve) => setImmediate(resolve))

/** A part that waits for its turn. */
interface Waits {
  isAsked: boolean
  next: () => Promise<void>
  /** Gives this turn and all later ones. */
  give: () => void
}

function waits(): Waits {
  const { promise, resolve } = Promise.withResolvers<void>()
  const one: Waits = {
    isAsked: false,
    next: () => {
      one.isAsked = true
      return promise
    },
    give: resolve,
  }
  return one
}

/** Sends a request with a body of this length, and returns it as the server has it. */
async function send(length: number, take: (req: IncomingMessage) => void): Promise<IncomingMessage> {
  const { promise, resolve } = Promise.withResolvers<IncomingMessage>()
  const server = createServer((req) => {
    take(req)
    resolve(req)
  })
  const socket = net.connect(await listen(server, 0, '127.0.0.1'), '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
    server.close()
    server.closeAllConnections()
  })
  socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n${' '.repeat(length)}`)
  return promise
}

/** Reads a body, and returns its length. */
async function readLength(req: IncomingMessage, { next }: Waits): Promise<number> {
  const { bytes, release } = await readBody(req, new ServerResponse(req), undefined, next)
  release()
  return bytes.length
}

async function untilAsked(part: Waits): Promise<void> {
  while (!part.isAsked) await later()
  // What could have been read by now.
  for (let pass = 0; pass < 200; pass++) await later()
}

it('a long body is read no further until the turn of its next part has come', async () => {
  const part = waits()
  let length = 0
  const req = await send(MAX_BODY_BYTES, (one) => void readLength(one, part).then((read) => (length = read)))
  await untilAsked(part)
  expect(req.socket.bytesRead).toBeLessThan(FEW_BYTES)
  part.give()
  while (length === 0) await later()
  expect(length).toBe(MAX_BODY_BYTES)
})

it('a short body is read without a turn', async () => {
  const part = waits()
  let length = 0
  await send(10_000, (req) => void readLength(req, part).then((read) => (length = read)))
  while (length === 0) await later()
  expect(length).toBe(10_000)
  expect(part.isAsked).toBe(false)
})

it('what is left of a refused body is read away only part by part, each in its turn', async () => {
  const part = waits()
  const req = await send(MAX_BODY_BYTES, (one) => discardRest(one, part.next, 60_000))
  await untilAsked(part)
  expect(req.socket.bytesRead).toBeLessThan(FEW_BYTES)
  part.give()
  while (!req.complete) await later()
  expect(req.socket.bytesRead).toBeGreaterThan(MAX_BODY_BYTES)
})
