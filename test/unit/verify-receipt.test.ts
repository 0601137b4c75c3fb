import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { Client } from '../../client/client.ts'
import { verifyReceipt } from '../../client/verify-receipt.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { buildChain, receiptOver, SEAL_KEY } from '../support/ledger-chain.ts'

test('a sound receipt is taken for the record that it is of, and for no other', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-receipt-'))
  const receipt = receiptOver(buildChain([5]), 'pst_2', [2])
  const client = { baseUrl: 'https://test.example', receipt: () => Promise.resolve(receipt) }
  const trust = { stateFile: path.join(folder, 'state'), pubkeys: [keyToHex(ed25519PublicKey(SEAL_KEY))] }
  const verify = (recordId: string) => verifyReceipt({ client: client as unknown as Client, recordId, trust })
  try {
    expect(await verify('pst_2')).toMatchObject({ ok: true, reasons: [] })
    expect(await verify('pst_3')).toMatchObject({ ok: false, verdict: 'broken', reasons: ['wrong_record'] })
  } finally {
    fs.rmSync(folder, { recursive: true })
  }
})
