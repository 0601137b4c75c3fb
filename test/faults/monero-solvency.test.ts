import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { runAgent } from '../../client/command/run.ts'
import { createTokenFile, tokenFilePath } from '../../client/token-file.ts'
import { reservePort } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { ensureSealKey, readSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { moneroDriver } from '../../shared/money/coins/monero/monero-driver.ts'
import { proveControl } from '../../shared/money/control-service.ts'
import { writePosts } from '../support/ledger.ts'
import {
  CONFIRMATIONS,
  DAY_PICO,
  UNLOCK_BLOCKS,
  openMoneroVenue,
  type Invoiced,
  type MoneroVenue,
} from '../support/monero-venue.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { findMonero } from '../support/prepare.mjs'
import { serverFolder } from '../support/server-folder.ts'
import { withSigning } from '../support/signing.ts'

/*
 * An agent's command against a real venue, a real chain, and a monero-wallet-rpc of the agent's own, which has a wallet
 * without money and takes no login.
 */

// Blocks are mined, and programs started.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

let venue: MoneroVenue
let folder: string
let own: { url: string; child: ChildProcess }
beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'monero-solvency-'))
  venue = await openMoneroVenue({ queues: [] })
  own = await startOwnWallet()
})
afterAll(async () => {
  if (own !== undefined) {
    own.child.kill('SIGKILL')
    await once(own.child, 'exit')
  }
  await venue?.stop()
  fs.rmSync(folder, { recursive: true, force: true })
})

async function startOwnWallet(): Promise<typeof own> {
  const port = await reservePort()
  const { walletRpc } = findMonero({ ...process.env, HOME: serverFolder() })
  const child = spawn(
    walletRpc,
    [
      ...['--wallet-dir', folder, '--rpc-bind-port', String(port), '--disable-rpc-login'],
      ...['--daemon-address', new URL(venue.regtest.daemonUrl).host, '--trusted-daemon'],
      ...['--daemon-ssl', 'disabled', '--rpc-ssl', 'disabled', '--non-interactive', '--no-dns'],
      ...['--shared-ringdb-dir', path.join(folder, 'rings'), '--log-file', path.join(folder, 'log')],
    ],
    { cwd: folder, stdio: 'ignore' },
  )
  const url = `http://127.0.0.1:${port}`
  const call = (method: string, params: object = {}) =>
    fetch(`${url}/json_rpc`, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: '0', method, params }),
    }).then(
      (response) => response.json() as Promise<{ result?: object }>,
      (): { result?: object } => ({}), // it doesn't listen yet
    )
  await waitFor('a wallet', async () => (await call('get_version')).result, { limitMs: PATIENCE_MS })
  await call('create_wallet', { filename: 'own', password: '', language: 'English' })
  return { url, child }
}

const keyFile = () => path.join(folder, 'seal-key')
async function seal(): Promise<void> {
  const { ctx } = venue
  const secrets = { sealKeyFile: keyFile(), sealMemoryFile: path.join(folder, 'seal-memory') }
  ensureSealKey(keyFile())
  await writePosts(ctx, 1)
  await sequencePending(ctx, { useLease: false })
  await makeSeal(ctx, { useLease: false })
  const config = { ...ctx.config, secrets: { ...ctx.config.secrets, ...secrets } }
  await signSeals(withSigning({ ...ctx, config }))
}

/** Looks at the wallet and the chain now. */
async function look(): Promise<void> {
  await venue.ctx.coins.models.coins.updateOne({ _id: 'xmr' }, { $unset: { gap_at: 1 } })
  await venue.nextRound()
}

/** Seals what is held, with a reserve proof that is as new: the seal after the proof names it. */
async function sealAndProve(): Promise<void> {
  await look()
  await seal()
  await proveControl(venue.ctx, moneroDriver(venue.ctx))
  await seal()
}

/** `agent solvency --verify` of an agent. */
async function verify({ agent }: Pick<Invoiced, 'agent'>, ...more: string[]) {
  const url = venue.service.url
  createTokenFileOnce(url, agent)
  let out = ''
  const pubkey = keyToHex(ed25519PublicKey(readSealKey(keyFile()) ?? new Uint8Array()))
  const exitCode = await runAgent({
    argv: ['solvency', '--verify', '--url', url, '--pubkey', pubkey, ...more],
    env: { AGENT_HOME: folder },
    stdin: Readable.from([]),
    stdout: { write: (text) => (out += text) },
    stderr: { isTTY: false, write: (text) => (out += text) },
    signal: new AbortController().signal,
  })
  return { exitCode, out }
}

function createTokenFileOnce(url: string, { id, token }: Invoiced['agent']): void {
  const file = tokenFilePath(folder, url)
  if (!fs.existsSync(file)) createTokenFile(file, { url, agent_id: id, token })
}

it('an agent with a wallet of its own finds a venue in Monero covered, and what was spent not', async () => {
  const invoice = await venue.invoice(3)
  await venue.pay(invoice, (5n * DAY_PICO) / 2n)
  await venue.mine(CONFIRMATIONS + 1)
  await venue.mineUntil(invoice, 'a payment', ({ payments: [one] }) => one?.state === 'settled')
  await venue.generate(UNLOCK_BLOCKS)
  await sealAndProve()
  expect(await verify(invoice, '--monero-rpc', own.url)).toMatchObject({
    exitCode: 0,
    out: expect.stringMatching(/xmr: covered.*yours: \d+ xmr in \w+/) as string,
  })
  expect(await verify(invoice)).toMatchObject({
    exitCode: 2,
    out: expect.stringContaining('no_node: xmr') as string,
  })

  // The venue's wallet sends all of it away, by no step of the venue's.
  await venue.wallet.call('sweep_all', { address: venue.regtest.payer.address, account_index: 0 })
  await venue.generate(UNLOCK_BLOCKS)
  const { exitCode, out } = await verify(invoice, '--monero-rpc', own.url)
  expect(exitCode, out).not.toBe(0)
  expect(out).toMatch(/(control_not_shown|short): xmr/)
})
