import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readReport, startPythonVerifier, verifyInNode } from '../support/both-verifiers.ts'
import { buildChain, serveChain, type LedgerServer } from '../support/ledger-chain.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/*
 * What a check costs that finds nothing new, after a ledger of 1,000,000 entries with 500 under each seal.
 * FAULTS=1 makes all those entries.
 */

const SEALS = 2_000
const PER_SEAL = 500
const MAX_BYTES = 50_000
const MAX_CPU_MS = 50

describe(`a second check of ${SEALS * PER_SEAL} entries under ${SEALS} seals`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'incremental-'))
  const args = (name: string) => [
    server.url,
    '--state',
    join(folder, name),
    '--max-age',
    String(2 ** 40),
    '--json',
  ]
  let server: LedgerServer
  beforeAll(async () => {
    server = await serveChain(
      buildChain(
        Array.from({ length: SEALS }, () => PER_SEAL),
        0,
      ),
    )
  }, 300_000)
  afterAll(async () => {
    await server.close()
    rmSync(folder, { recursive: true })
  })

  // holds: limits.what_a_verifier_can_say.detail
  it('reads under 50 KB and takes under 50 ms of CPU, where nothing is new', async () => {
    expect(readReport(await verifyInNode(args('node.json')))).toMatchObject({
      code: 3,
      words: ['key_unknown'],
    })
    const costs: number[] = []
    for (let round = 0; round < 10; round++) {
      server.sent = 0
      const before = process.cpuUsage()
      const again = readReport(await verifyInNode(args('node.json')))
      const { user, system } = process.cpuUsage(before)
      costs.push((user + system) / 1_000)
      expect(again).toMatchObject({ code: 0, head: { seq: SEALS } })
      expect(server.sent).toBeLessThan(MAX_BYTES)
    }
    console.log(
      `second check: ${server.sent} bytes, ${Math.min(...costs).toFixed(1)} ms of CPU, ${costs[0]?.toFixed(1)} ms at first`,
    )
    expect(Math.min(...costs)).toBeLessThan(MAX_CPU_MS)
  }, 300_000)

  it.skipIf(!canRunPythonVerifier())(
    'reads as little in Python (skipped if there is no python3)',
    async () => {
      const python = startPythonVerifier()
      try {
        expect((await python.verify(args('python.json'))).code).toBe(3)
        server.sent = 0
        expect((await python.verify(args('python.json'))).code).toBe(0)
        expect(server.sent).toBeLessThan(MAX_BYTES)
      } finally {
        python.stop()
      }
    },
    300_000,
  )
})
