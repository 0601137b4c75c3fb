import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createApp } from '../../api/app.ts'
import { createClient } from '../../client/client.ts'
import { verifySolvency } from '../../client/solvency.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { closeContext, openContext } from '../../shared/context.ts'
import { ensureSealKey, readSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { compareBooks } from '../../shared/money/books.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { proveControl } from '../../shared/money/control-service.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLimitedServer } from '../../api/http/server.ts'
import { listen } from '../../shared/platform/listen.ts'
import { createLog } from '../../shared/platform/log.ts'
import { DAY_RAW, useNanoVenue, type NanoVenue } from '../support/nano-venue.ts'
import { fillNanoPool, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { writePosts } from '../support/ledger.ts'
import { CHALLENGE_SECRET } from '../support/service.ts'
import { withSigning } from '../support/signing.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))
let folder: string
beforeAll(() => (folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-verified-'))))
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

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

async function look(): Promise<void> {
  venue.advance(31_000)
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
  await compareBooks(venue.ctx, nanoDriver(venue.ctx))
}

it('whoever has a node of their own finds a venue of the real stack covered', async () => {
  const env = { ...venue.env, CHALLENGE_SECRET }
  const ctx = openContext(readConfig(env, 'api'), createLog('test', 'error', { write: () => undefined }))
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  const app = createApp(ctx)
  const server = createLimitedServer(app.listener, app)
  const baseUrl = `http://127.0.0.1:${await listen(server.http, 0, '127.0.0.1')}`
  const judge = async () => {
    const pubkeys = [keyToHex(ed25519PublicKey(readSealKey(keyFile()) ?? new Uint8Array()))]
    const trust = { stateFile: path.join(folder, 'state.json'), pubkeys }
    return verifySolvency({
      client: createClient({ baseUrl }),
      trust,
      nanoRpc: venue.env['NANO_RPC_URL'] ?? '',
    })
  }
  try {
    await look()
    const invoice = await venue.invoice(3)
    venue.pay(invoice, 2n * DAY_RAW)
    await look()
    await seal()
    await proveControl(venue.ctx, nanoDriver(venue.ctx))
    expect(await judge()).toMatchObject({
      verdict: 'good',
      text: expect.stringContaining('xno: covered') as string,
    })

    await sweepNano(venue.ctx)
    await look()
    await seal()
    expect(await judge()).toMatchObject({ verdict: 'good' })
  } finally {
    app.waits.end()
    await server.close()
    await closeContext(ctx)
  }
})
