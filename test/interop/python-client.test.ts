import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { createClient, type GetKeysAnswer } from '../../client/client.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { makePuzzleOfKind, PUZZLE_KINDS } from '../../shared/crypto/puzzle.ts'
import { buildChain, makeEntry, SEAL_KEY, serveChain } from '../support/ledger-chain.ts'
import { consistencyOf, keyAnswerOf, noteOf } from '../support/log-proofs.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { runProgram } from '../support/python.ts'
import { canRunPythonVerifier, PYTHON_VERIFIER } from '../support/run-verifier.ts'

/* The Python client against a service that doesn't answer as one does. */

const ROOT = path.resolve(import.meta.dirname, '../..')
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

const HANDING_IN = `
import sys, types
sys.modules["agent_network"] = package = types.ModuleType("agent_network")
package.__path__ = [sys.argv[2]]
from agent_network.client import Client
from agent_network.mining import _hand_in
print(_hand_in(Client(sys.argv[1], "sk_" + "a" * 48), "ord_1", ["7"])["status"])
`

const PROVING = `
import json, sys, types
sys.modules["agent_network"] = package = types.ModuleType("agent_network")
package.__path__ = [sys.argv[2]]
sys.path.insert(0, sys.argv[2].rsplit("/", 1)[0])
from agent_network.client import Client
from agent_network.key_proofs import prove_keys
from agent_network.verifying import Trust, verify_ledger
client, trust = Client(sys.argv[1]), Trust(sys.argv[3], [sys.argv[4]])
if sys.argv[5] == "walk":
    verify_ledger(client, trust)
proven = prove_keys(client, "agt_bob", trust)
print(json.dumps([proven.kind, proven.keys and proven.keys.get("dm_key"), proven.why]))
`

let close: (() => Promise<void>) | undefined
afterEach(() => close?.())

/** Returns what the client says of such an answer. `lateSeconds`: how late its waiting thread wakes up. */
const ask = (answer: (response: ServerResponse) => void, lateSeconds = 0): Promise<string> =>
  runAgainst(answer, PROGRAM, String(lateSeconds))

async function runAgainst(
  answer: (response: ServerResponse) => void,
  program: string,
  ...more: string[]
): Promise<string> {
  const server = createServer((_, response) => answer(response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  close = () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { stdout } = await promisify(execFile)(PYTHON_VERIFIER[0], ['-c', program, url, PACKAGE, ...more])
  return stdout.trim()
}

/** Writes a byte again and again, for as long as somebody listens. */
function drip(response: ServerResponse, write: () => void): void {
  const timer = setInterval(write, 50)
  response.on('close', () => clearInterval(timer))
}

describe.skipIf(!canRunPythonVerifier())('the keys of an agent (skipped if there is no python3)', () => {
  const [leaked, current, swapped] = ['1', '2', '3'].map((digit) => digit.repeat(64)) as [
    string,
    string,
    string,
  ]
  const pubkey = keyToHex(ed25519PublicKey(SEAL_KEY))
  /** Bob sets a key by entry 2, and another one by entry 10. */
  const chain = buildChain([4, 4, 5, 6, 5], 0, {
    loggedFrom: 1,
    entry: (id) =>
      id === 2 || id === 10
        ? {
            ...makeEntry(id, { agent_id: 'agt_bob', dm_key: id === 2 ? leaked : current }),
            kind: 'dm_key_change',
          }
        : undefined,
  })

  it('are taken by the Python client as they are proven, and not if they are swapped, older than what was seen, or unproven', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'proven-'))
    const server = await serveChain(chain)
    close = async () => {
      await server.close()
      rmSync(folder, { recursive: true })
    }
    const state = path.join(folder, 'state.json')
    const show = (seals: number, change: (answer: GetKeysAnswer) => GetKeysAnswer = (answer) => answer) => {
      const shown = { ...chain, seals: chain.seals.slice(0, seals) }
      const note = noteOf(shown)
      const keys = (agentId: string) => change(keyAnswerOf(shown, agentId, note))
      Object.assign(server, { chain: shown, note, keys, consistency: consistencyOf })
    }
    const prove = async (how: 'walk' | 'ask') => {
      const args = ['-c', PROVING, server.url, PACKAGE, state, pubkey, how]
      const { stdout } = await promisify(execFile)(PYTHON_VERIFIER[0], args)
      return JSON.parse(stdout) as [string, string | null, string]
    }
    show(2)
    expect(await prove('ask')).toEqual(['proven', leaked, ''])
    show(4)
    expect(await prove('walk')).toEqual(['proven', current, ''])
    show(5)
    expect(await prove('ask')).toEqual(['proven', current, ''])
    show(2)
    expect(await prove('ask')).toEqual(['refused', null, expect.stringContaining('was seen here') as string])
    show(5, ({ keys, ...answer }) => ({ ...answer, keys: keys && { ...keys, dm_key: swapped } }))
    expect((await prove('ask'))[0]).toBe('refused')
    show(5, (answer) => ({ ...answer, tlog_proof: '' }))
    expect((await prove('ask'))[0]).toBe('refused')
    Object.assign(server, { keys: undefined })
    expect((await prove('ask'))[0]).toBe('refused')
  })
})

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
    const said = 'transport GET /stats could not be reached (no whole answer within 0.5 s).'
    expect(await ask(slowly['in its body'] ?? (() => undefined))).toBe(said)
    // Late, so that the reading of the answer notices it first.
    for (const [where, answer] of Object.entries(slowly)) expect(await ask(answer, 1), where).toBe(said)
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

  it('hands the same nonces in again after an answer that was lost, and goes on with what stands then', async () => {
    let requests = 0
    const lostOnce = (response: ServerResponse) => {
      requests++
      if (requests === 1)
        return void response.socket?.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"ok":')
      const status = requests === 2 ? 'verifying' : 'credited'
      const counts = { accepted: 0, rejected: [], shares_accepted: 0, shares_required: 1, credited_days: 0 }
      response.end(JSON.stringify({ ok: true, order_id: 'wrk_1', status, ...counts, pass_until: null }))
    }
    expect([await runAgainst(lostOnce, HANDING_IN), requests]).toEqual(['credited', 3])
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

describe.skipIf(!canRunPythonVerifier())(
  'the Python client beside the TypeScript one (skipped if there is no python3)',
  () => {
    it('solves every kind of puzzle as the service means it', async () => {
      const puzzles = PUZZLE_KINDS.flatMap((kind) =>
        Array.from({ length: 100 }, (_, index) =>
          makePuzzleOfKind(kind, createHash('sha256').update(`${kind} ${index}`).digest()),
        ),
      )
      const folder = mkdtempSync(path.join(os.tmpdir(), 'puzzles-'))
      const file = path.join(folder, 'puzzles.json')
      writeFileSync(file, JSON.stringify(puzzles))
      const solve = `
import importlib.util, json, sys, types
sys.modules["agent_network"] = package = types.ModuleType("agent_network")
package.__path__ = [sys.argv[1]]
from agent_network.puzzle import solve_puzzle
wrong = [one for one in json.load(open(sys.argv[2])) if solve_puzzle(one) != one["answer"]]
print(len(wrong), wrong[:1])`
      const args = ['-c', solve, path.join(ROOT, 'client/python/agent_network'), file]
      try {
        expect(await runProgram('python3', args, { limitMs: PATIENCE_MS })).toEqual({
          code: 0,
          output: '0 []\n',
        })
      } finally {
        rmSync(folder, { recursive: true })
      }
    })

    it('names each call as the TypeScript client does, in snake case', () => {
      const inPython = [
        ...readFileSync(path.join(ROOT, 'client/python/agent_network/client.py'), 'utf8').matchAll(
          / def ([a-z]\w*)\(self/g,
        ),
      ].map(([, name]) => name)
      const client = createClient({ baseUrl: 'http://127.0.0.1:1' })
      const inTypeScript = Object.entries(client)
        .filter(([name, value]) => typeof value === 'function' && name !== 'with')
        .map(([name]) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`))
      expect(inPython.filter((name) => name !== 'base_url' && name !== 'with_token').toSorted()).toEqual(
        inTypeScript.toSorted(),
      )
    })
  },
)
