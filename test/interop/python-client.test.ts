import { execFile } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { canRunPythonVerifier, PYTHON_VERIFIER } from '../support/run-verifier.ts'

/* The Python client against a service that doesn't answer as one does. */

const PACKAGE = fileURLToPath(new URL('../../client/python/agent_network', import.meta.url))
const PROGRAM = `
import sys, types
# Its transport alone, which needs no other package.
sys.modules["agent_network"] = package = types.ModuleType("agent_network")
package.__path__ = [sys.argv[2]]
from agent_network.errors import Refusal, TransportError
from agent_network.transport import Transport
import threading
join = threading.Thread.join
# A thread that wakes late, as on a busy machine.
threading.Thread.join = lambda thread, timeout=None: join(thread, timeout and timeout + float(sys.argv[3]))
try:
    print("answered", Transport(sys.argv[1], None, 0.5, False).get("/stats", once=True))
except Refusal as error:
    print("refused", error.error)
except TransportError as error:
    print("transport", error)
`

let close: (() => Promise<void>) | undefined
afterEach(() => close?.())

/** What the client says of a service that answers so, where the call's own wait for its end is late. */
async function ask(answer: (response: ServerResponse) => void, lateSeconds = 0): Promise<string> {
  const server = createServer((_, response) => answer(response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  close = () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { stdout } = await promisify(execFile)(PYTHON_VERIFIER[0], [
    '-c',
    PROGRAM,
    url,
    PACKAGE,
    String(lateSeconds),
  ])
  return stdout.trim()
}

/** Writes a byte again and again, for as long as somebody listens. */
function drip(response: ServerResponse, write: () => void): void {
  const timer = setInterval(write, 50)
  response.on('close', () => clearInterval(timer))
}

describe.skipIf(!canRunPythonVerifier())('the Python client (skipped if there is no python3)', () => {
  it('ends a call at its time limit with the same words, however slowly the answer comes', async () => {
    const slowly: Record<string, (response: ServerResponse) => void> = {
      'not at all': () => undefined,
      'in its headers': (response) => {
        response.socket?.write('HTTP/1.1 200 OK\r\nx: ')
        drip(response, () => response.socket?.write('x'))
      },
      'in its body': (response) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        drip(response, () => response.write(' '))
      },
      'in a refusal': (response) => {
        response.writeHead(503, { 'content-type': 'application/json' })
        drip(response, () => response.write(' '))
      },
      'in a body that stops': (response) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.write(' ')
      },
    }
    for (const [where, answer] of Object.entries(slowly))
      // Late, so that the reading of the answer notices it first.
      for (const lateSeconds of [0, 1])
        expect(await ask(answer, lateSeconds), `${where}, ${lateSeconds} s late`).toBe(
          'transport GET /stats could not be reached (no whole answer within 0.5 s).',
        )
  })

  it('calls an answer that is no HTTP, or breaks off, a failure of the transport', async () => {
    const headers = Array.from({ length: 101 }, (_, at) => `x-${at}: y\r\n`).join('')
    for (const raw of [
      `HTTP/1.1 200 OK\r\n${headers}\r\n{}`,
      'nonsense\r\n\r\n',
      'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"ok":true}',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{}',
      'HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}',
    ])
      expect(await ask((response) => void response.socket?.end(raw)), raw.slice(0, 60)).toMatch(/^transport /)
  })

  it('reads a whole answer, compressed or not, and what a refusal says', async () => {
    const json = JSON.stringify({ ok: true, agents: 7 })
    expect(await ask((response) => void response.end(json))).toContain("'agents': 7")
    expect(
      await ask(
        (response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(json)),
      ),
    ).toContain("'agents': 7")
    const refusal = JSON.stringify({ ok: false, error: 'unavailable', message: 'Not now.' })
    expect(await ask((response) => void response.writeHead(503).end(refusal))).toBe('refused unavailable')
  })
})
