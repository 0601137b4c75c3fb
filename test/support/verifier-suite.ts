import { readFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { VECTOR_NAME, VECTORS_DIR } from './generate-vectors.ts'
import { buildChain, leaveUnsigned, makeEntry, openingOf, OTHER_SEAL_KEY, receiptOver, SEAL_KEY, serveChain, sign, type LedgerChain, type LedgerServer } from './ledger-chain.ts'
import { reasonsOf, reportOf, runVerifier, type VerifierCommand } from './run-verifier.ts'

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const OTHER_PUBKEY = keyToHex(ed25519PublicKey(OTHER_SEAL_KEY))

/** Sizes of 200 seals, from one entry to many, odd and even, powers of two and their neighbours. */
const TWO_HUNDRED = Array.from({ length: 200 }, (_, index) => 1 + ((index * index) % 18))
const ENTRY_COUNT = TWO_HUNDRED.reduce((sum, size) => sum + size, 0)

function unsign(chain: LedgerChain, seqs: readonly number[]): LedgerChain {
  return { ...chain, seals: chain.seals.map((seal) => (seqs.includes(seal.seq) ? leaveUnsigned(seal) : seal)) }
}

/** The whole chain sealed again with one entry changed: what a server would do to rewrite history. */
function rewrite(chain: LedgerChain, entryId: number): LedgerChain {
  const sizes = chain.seals.map(({ count }) => count)
  const rewritten = buildChain(sizes)
  rewritten.entries[entryId - 1] = { ...makeEntry(entryId), kind: 'rewritten' }
  return resealed(rewritten.entries, chain.seals)
}

function resealed(entries: LedgerChain['entries'], seals: readonly Seal[], secretKey = SEAL_KEY): LedgerChain {
  const chain: LedgerChain = { entries, seals: [] }
  for (const old of seals) {
    const covered = entries.slice(old.from_id - 1, old.to_id)
    const previous = chain.seals.at(-1) ?? null
    chain.seals.push(sign({ ...sealFrom(covered, previous), at: old.at }, secretKey))
  }
  return chain
}

function sealFrom(covered: LedgerChain['entries'], previous: Seal | null) {
  const whole = buildChain([1]).seals[0] as Seal
  return { ...whole, ...sealFields(covered, previous) }
}

/** The behaviour that every verifier shares; `command` is how it is started. */
export function describeVerifier(name: string, command: VerifierCommand, isAvailable: boolean): void {
  describe.skipIf(!isAvailable)(`${name} (skipped only where python3 lacks the package cryptography)`, () => {
    let folder: string
    const servers: LedgerServer[] = []

    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'seal-verify-'))
    })

    afterEach(async () => {
      await Promise.all(servers.splice(0).map((server) => server.close()))
      await rm(folder, { recursive: true })
    })

    async function serve(chain: LedgerChain, pageSize?: number): Promise<LedgerServer> {
      const server = await serveChain(chain, pageSize)
      servers.push(server)
      return server
    }

    const report = (...args: string[]) => reportOf(command, args, folder)

    async function writeJson(fileName: string, value: unknown): Promise<string> {
      await writeFile(join(folder, fileName), JSON.stringify(value))
      return fileName
    }
  })
}
