import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { StartError } from '../../shared/platform/process.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { requireKeys } from '../../shared/operation/require-keys.ts'
import { requireMoneroLibrary } from '../../shared/money/coins/monero/monero-connection.ts'

it('a start with Monero, and without the package for it, ends with a sentence', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'monero-library-test-'))
  try {
    const elsewhere = path.join(folder, 'monero-connection.ts')
    expect(() => requireMoneroLibrary(elsewhere)).toThrow(StartError)
    expect(() => requireMoneroLibrary(elsewhere)).toThrow(
      /monero-ts.* is not installed: run "npm ci" without/,
    )
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
})

it('a start with Monero goes on with the package', () => {
  const env = { MONERO_WALLET_RPC_URL: 'http://a:b@127.0.0.1:1' }
  expect(() => requireKeys(readConfig(env, 'start'))).not.toThrow()
})
