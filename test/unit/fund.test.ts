import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runAgent } from '../../client/command/run.ts'
import { currencyMenuView } from '../../shared/passes/currencies.ts'
import { sampleOf } from '../support/hostile-answers.ts'
import { serverFolder } from '../support/server-folder.ts'

const MIB = 2 ** 20
const ADDRESS = 'nano_3e3j5tkog48pnny9dmfzj1r16pg8t1e76dz5tmac6iq689wyjfpiij4txtdo'

let home: string
let servers: Server[]
/** The path of each request that the faucet got. */
let asked: string[]
beforeEach(() => {
  home = mkdtempSync(path.join(serverFolder(), 'fund-'))
  servers = []
  asked = []
})
afterEach(async () => {
  for (const server of servers) {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  rmSync(home, { recursive: true })
})

async function serve(answer: (req: IncomingMessage, res: ServerResponse) => void): Promise<string> {
  const server = createServer((req, res) => {
    req.resume()
    res.on('error', () => undefined)
    answer(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  servers.push(server)
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A service that names this URL as its faucet. */
const startService = (faucet: string): Promise<string> =>
  serve((_req, res) =>
    res.end(JSON.stringify({ ok: true, ...(sampleOf(currencyMenuView) as object), faucet })),
  )

const startFaucet = (answer: (res: ServerResponse) => void): Promise<string> =>
  serve((req, res) => {
    asked.push(req.url ?? '')
    answer(res)
  })

/** `agent fund` of an amount, with its exit code and the JSON that it prints. */
async function fund(url: string): Promise<{ exitCode: number; json: Record<string, unknown> }> {
  let stdout = ''
  const exitCode = await runAgent({
    argv: ['fund', ADDRESS, '1', '--json', '--url', url],
    env: { AGENT_HOME: home },
    stdin: Readable.from([]),
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: () => undefined },
    signal: new AbortController().signal,
  })
  return { exitCode, json: JSON.parse(stdout) as Record<string, unknown> }
}

describe('agent fund', () => {
  it('prints what a faucet on the host of the service sent', async () => {
    const answer = { ok: true, sandbox: true, tx_hash: 'AB'.repeat(32) }
    const faucet = await startFaucet((res) => res.end(JSON.stringify(answer)))
    expect(await fund(await startService(`${faucet}/`))).toEqual({ exitCode: 0, json: answer })
  })

  it.each([
    ['another host', (port: string) => `http://127.0.0.1.example:${port}/`],
    ['a host of a similar name', (port: string) => `http://127.0.0.1@example.org:${port}/`],
    ['a URL with a password', (port: string) => `http://a:b@127.0.0.1:${port}/`],
    ['no URL', () => 'nowhere'],
    ['a file', () => 'file:///etc/passwd'],
  ])('asks nothing of a faucet that the service names on %s', async (_, faucetAt) => {
    const faucet = await startFaucet((res) => res.end('{}'))
    const { exitCode, json } = await fund(await startService(faucetAt(new URL(faucet).port)))
    expect([json['ok'], json['error'], asked]).toEqual([false, 'faucet_elsewhere', []])
    expect(exitCode).not.toBe(0)
  })

  it.each<[string, (res: ServerResponse) => void]>([
    ['nothing', (res) => res.end('{"ok":true}')],
    ['a text', (res) => res.end('{"ok":true,"tx_hash":"\\u001b[2J"}')],
    ['no object', (res) => res.end('[]')],
  ])(
    'says that nothing may have been sent when the faucet names %s as its transaction',
    async (_, answer) => {
      const { exitCode, json } = await fund(await startService(await startFaucet(answer)))
      expect([json['ok'], json['error']]).toEqual([false, 'faucet_away'])
      expect(exitCode).not.toBe(0)
    },
  )

  it('reads no more of an endless answer than of any other, with little memory', async () => {
    const chunk = Buffer.alloc(MIB, ' ')
    const bomb = function* () {
      for (let sent = 0; sent < 2_000; sent++) yield chunk
    }
    const faucet = await startFaucet((res) => {
      res.setHeader('Content-Encoding', 'gzip')
      void pipeline(Readable.from(bomb()), createGzip(), res).catch(() => undefined)
    })
    const url = await startService(faucet)
    globalThis.gc?.()
    const before = process.memoryUsage().rss
    const { json } = await fund(url)
    expect(json['error']).toBe('faucet_away')
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * MIB)
  })
})
