import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { runAgent } from '../../client/command/run.ts'
import { reservePorts } from '../../scripts/embedded/ports.ts'
import { claimDataDir } from '../../scripts/embedded/sandbox.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { PATIENT } from '../support/servers.ts'
import { ADDRESSES } from '../support/market.ts'

vi.setConfig({ testTimeout: 240_000 })

const LIMIT = { limitMs: 90_000, everyMs: 500 }
const ROOT = path.resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(path.join(tmpdir(), 'sandbox-'))
const dataDir = path.join(folder, 'data')
let running: { child: ChildProcess; gone: Promise<void> } | undefined

afterAll(async () => {
  await stop()
  rmSync(folder, { recursive: true, force: true })
})

async function start(port: number): Promise<string> {
  const child = spawn(process.execPath, ['scripts/start.ts', '--sandbox'], {
    cwd: ROOT,
    env: {
      ...process.env,
      ...PATIENT,
      PORT: String(port),
      OPERATOR_PORT: '0',
      BASE_URL: '',
      DATA_DIR: dataDir,
      REGISTER_BITS: '8',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let screen = ''
  child.stdout.on('data', (text: Buffer) => (screen += text.toString()))
  running = { child, gone: new Promise((resolve) => child.once('exit', () => resolve())) }
  await waitFor('the sandbox', () => (screen.includes('This is a sandbox') ? true : undefined), LIMIT)
  return `http://127.0.0.1:${port}`
}

async function stop(): Promise<void> {
  running?.child.kill('SIGTERM')
  await running?.gone
  running = undefined
}

async function agent(url: string, home: string, ...words: string[]): Promise<Record<string, unknown>> {
  let stdout = ''
  const exitCode = await runAgent({
    argv: [...words, '--url', url, '--json'],
    env: { AGENT_HOME: path.join(folder, home) },
    stdin: Readable.from([]),
    stdout: { write: (text) => (stdout += text) },
    stderr: { isTTY: false, write: () => true },
    signal: new AbortController().signal,
  })
  if (exitCode !== 0) throw new Error(`agent ${words.join(' ')} ended with ${exitCode}: ${stdout}`)
  return JSON.parse(stdout) as Record<string, unknown>
}

describe('a sandbox', () => {
  // holds: limits.sandbox, limits.sandbox.detail
  it('lets a sale be made from the offer to the payout with play money, and goes on after a restart', async () => {
    const [port = 0] = await reservePorts(1)
    let url = await start(port)
    const menu = await agent(url, 'nobody', 'currencies')
    expect(menu).toMatchObject({
      sandbox: true,
      faucet: expect.stringContaining('http://127.0.0.1:') as string,
    })
    for (const name of ['seller', 'buyer']) {
      await agent(url, name, 'register', '--handle', name)
      await agent(url, name, 'profile', '--dm-key')
    }
    await waitFor(
      'the play money',
      async () =>
        (
          (await agent(url, 'buyer', 'currencies'))['accepted'] as { currency: string; status: string }[]
        ).some(({ currency, status }) => currency === 'xno' && status === 'ready') || undefined,
      LIMIT,
    )
    const offer = await agent(
      url,
      'seller',
      'offer',
      'A sum',
      '2 + 2',
      '--price',
      '2',
      '--hours',
      '24',
      '--xno',
      ADDRESSES.xno,
    )
    const order = await agent(
      url,
      'buyer',
      'order',
      String(offer['offer_id']),
      '--refund-address',
      ADDRESSES.xno,
    )
    const orderId = String(order['order_id'])
    const isNow = (status: string): Promise<true> =>
      waitFor(
        `the order to be ${status}`,
        async () => {
          const found = (await agent(url, 'buyer', 'orders', orderId))['order'] as { status: string }
          return found.status === status || undefined
        },
        LIMIT,
      )
    await agent(url, 'buyer', 'fund', orderId)
    await isNow('paid')
    // What the stand-in's chain holds is there again.
    await stop()
    url = await start(port)
    await agent(url, 'seller', 'deliver', orderId, '4', '--plain')
    await agent(url, 'buyer', 'accept', orderId)
    await isNow('paid_out')
  })

  it('never is what was none before, and never becomes one that is none', () => {
    const real = mkdtempSync(path.join(folder, 'real-'))
    writeFileSync(path.join(real, 'first-start'), 'x')
    expect(() => claimDataDir(real, true)).toThrow('is not a sandbox')
    expect(() => claimDataDir(dataDir, false)).toThrow('start it with --sandbox')
    expect(() => claimDataDir(real, false)).not.toThrow()
  })
})
