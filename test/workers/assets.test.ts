import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { eddsa } from '@noble/curves/abstract/edwards.js'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake2b } from '@noble/hashes/blake2.js'
import { hexToBytes } from '@noble/hashes/utils.js'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readStatement } from '../../shared/about/solvency-page.ts'
import { parseNanoAddress } from '../../shared/crypto/nano-address.ts'
import { sealPayloadHash } from '../../shared/crypto/seal-payload.ts'
import type { Assets } from '../../shared/ledger/assets.ts'
import { sealFields } from '../../shared/ledger/seal.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { compareBooks } from '../../shared/money/books.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { proveControl } from '../../shared/money/control-service.ts'
import { DAY_RAW, useNanoVenue, type NanoVenue } from '../support/nano-venue.ts'
import { fillNanoPool, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { writePosts } from '../support/ledger.ts'
import { withSigning } from '../support/signing.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))
let folder: string
beforeAll(() => (folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-assets-'))))
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

const run = () => path.join(folder, venue.wallet.treasury.address)
async function seal() {
  const { ctx } = venue
  fs.mkdirSync(run(), { recursive: true })
  const secrets = {
    sealKeyFile: path.join(run(), 'seal-key'),
    sealMemoryFile: path.join(run(), 'seal-memory'),
  }
  ensureSealKey(secrets.sealKeyFile)
  await writePosts(ctx, 1)
  await sequencePending(ctx, { useLease: false })
  const made = await makeSeal(ctx, { useLease: false })
  const config = { ...ctx.config, secrets: { ...ctx.config.secrets, ...secrets } }
  await signSeals(withSigning({ ...ctx, config }))
  const closing = await ctx.entries.find(made?.to_id ?? 0)
  return closing?.data['assets'] as unknown as Assets
}
async function look(): Promise<void> {
  venue.advance(31_000)
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
  await compareBooks(venue.ctx, nanoDriver(venue.ctx))
}
const prove = () => proveControl(venue.ctx, nanoDriver(venue.ctx))
const listProofs = () => venue.ctx.coins.controls.list('xno', '', 100)

/** RFC 8032 with Blake2b-512, past the code under test but for the library. */
const { verify } = eddsa(ed25519.Point, blake2b, {
  adjustScalarBytes: (bytes: Uint8Array) => {
    bytes[0]! &= 248
    bytes[31] = (bytes[31]! & 127) | 64
    return bytes
  },
})

it('a seal states where the money is: at the treasury, and what waits at the address of an invoice', async () => {
  await look()
  const invoice = await venue.invoice(3)
  const tx = venue.pay(invoice, 2n * DAY_RAW + 7n)
  await look()
  const treasury = { account: venue.wallet.treasury.address, frontier: null, balance: '0', receivable: [] }
  const amount = String(2n * DAY_RAW + 7n)
  const waiting = {
    account: invoice.address,
    frontier: null,
    balance: '0',
    receivable: [{ hash: tx.toUpperCase(), amount }],
  }
  expect(await seal()).toMatchObject({ xno: [treasury, waiting], xmr: null, unread: { xmr: 'not_in_use' } })

  await sweepNano(venue.ctx)
  await look()
  const { rpc } = venue.ctx.nano
  const stated = await seal()
  const info = await rpc.accountInfo(treasury.account)
  expect(info?.confirmedFrontier).toMatch(/^[0-9A-F]{64}$/)
  expect(stated.xno).toEqual([{ ...treasury, frontier: info?.confirmedFrontier, balance: amount }])
  expect(stated.at.xno).toBeGreaterThan(0)

  // What was read long ago is not stated as if it were so now.
  venue.advance(3_600_000)
  await venue.ctx.coins.report('xno', {}, 1)
  expect(await seal()).toMatchObject({ xno: null, unread: { xno: 'stale' } })
})

it('the seed signs daily, and when the operator asks, that it controls the accounts of the newest signed seal', async () => {
  await look()
  await prove()
  expect(await listProofs()).toEqual([])
  const invoice = await venue.invoice(3)
  venue.pay(invoice, 2n * DAY_RAW)
  await look()
  await seal()
  const last = await venue.ctx.seals.lastSigned()
  if (last === undefined) throw new Error('no seal is signed')
  const hash = sealPayloadHash(sealFields(last))

  await Promise.allSettled([prove(), prove()])
  const proofs = await listProofs()
  expect(proofs.map(({ account }) => account)).toEqual([venue.wallet.treasury.address, invoice.address])
  for (const { account, message, signature, seal_seq: seq, seal_hash: sealHash } of proofs) {
    expect([seq, sealHash]).toEqual([last._id, hash])
    expect(message).toBe(`agent-network solvency\nseal ${last._id} ${hash}\naccount ${account}\n`)
    const key = hexToBytes(parseNanoAddress(account)?.publicKey ?? '')
    expect(signature).toMatch(/^[0-9a-f]{128}$/)
    expect(verify(hexToBytes(signature), new TextEncoder().encode(message), key)).toBe(true)
  }
  const { control, seal: shown, liabilities } = await readStatement(venue.ctx)
  expect(control.xno).toHaveLength(2)
  expect(shown).toMatchObject({ seq: last._id, signed: true })
  expect(liabilities?.xno.invoices).toBe(String(2n * DAY_RAW))
  await expect(readStatement(venue.ctx, 99)).rejects.toMatchObject({ code: 'no_such_seal' })

  await prove()
  expect(await listProofs()).toHaveLength(2)
  await sweepNano(venue.ctx)
  venue.pay(invoice, DAY_RAW)
  await look()
  await seal()
  await prove()
  expect(await listProofs()).toHaveLength(2)
  await venue.ctx.coins.askForProofs('xno', Math.floor(venue.ctx.database.now() / 1_000))
  await prove()
  expect((await listProofs()).length).toBeGreaterThan(2)
  const asked = (await listProofs()).length
  venue.advance(25 * 3_600_000)
  await look()
  await prove()
  // The same seal again: it has its proofs.
  expect(await listProofs()).toHaveLength(asked)
})
