import { createServer } from 'node:http'
import path from 'node:path'
import { createApp } from '../../../api/app.ts'
import { checkReceipt, checkService } from '../../../client/verify/check.ts'
import { describe } from '../../../client/verify/report.ts'
import { closeContext, openContext, type Context } from '../../../shared/context.ts'
import { verifyLogConsistency } from '../../../shared/crypto/log-tree.ts'
import { readConfig } from '../../../shared/platform/config.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { listen } from '../../../shared/platform/listen.ts'
import { compareWith, median, type Figure } from './figure.ts'

const ROUNDS = 200
const MAX_HASHES = 40
const MAX_PROOF_BYTES = 1_536
const MAX_RECEIPT_BYTES = 5 * 1024
const MAX_CHECK_MS = 2

interface Consistency {
  from_root: string
  to_root: string
  hashes: string[]
}

/** A reader that has verified the log while it was small, and checks single receipts when it is large. */
export interface LightReader {
  /**
   * Measures the bytes and the CPU time of a consistency proof and of a receipt, each beside its limit.
   *
   * @param recordId a post under a later seal
   * @param size the log's size when the reader was opened
   */
  measure(recordId: string, size: number): Promise<Figure[]>
  close(): Promise<void>
}

/**
 * Starts an API, verifies its whole ledger as it is now, and stores the verifier's state in `folder`.
 *
 * @throws Error if the ledger is found wrong
 */
export async function openLightReader(env: Record<string, string>, folder: string): Promise<LightReader> {
  const config = readConfig({ ...env, CHALLENGE_SECRET: 'be'.repeat(32) }, 'api')
  const ctx: Context = openContext(config, createLog('bench', 'silent'))
  await ctx.database.whenReady()
  const server = createServer(createApp(ctx).listener)
  const url = `http://127.0.0.1:${await listen(server, 0, '127.0.0.1')}`
  const pubkey = (await ctx.seals.lastSigned())?.pubkey ?? ''
  const trust = { stateFile: path.join(folder, 'light.json'), pubkeys: [pubkey] }
  const first = await checkService(url, trust)
  if (!first.ok) throw new Error(describe(first))
  const readText = async (route: string): Promise<string> => (await fetch(`${url}/api/v1${route}`)).text()

  return {
    async measure(recordId, size) {
      const { to_id: to } = (await ctx.seals.lastSigned()) ?? { to_id: 0 }
      const proofText = await readText(`/ledger/consistency?from=${size}&to=${to}`)
      const proof = JSON.parse(proofText) as Consistency
      const roots = [proof.from_root, proof.to_root].map((root) => Buffer.from(root, 'hex'))
      const [older, newer] = roots as [Buffer, Buffer]
      const hashes = proof.hashes.map((hash) => Buffer.from(hash, 'hex'))
      const proofMs = await timeCpu(() => {
        if (!verifyLogConsistency({ size, root: older }, { size: to, root: newer }, hashes))
          throw new Error('the logs are not consistent')
      })
      const receiptText = await readText(`/receipt/${recordId}`)
      const receipt = JSON.parse(receiptText) as object
      const receiptMs = await timeCpu(async () => {
        const result = await checkReceipt(receipt, 'receipt', trust, {
          consistency: () => Promise.resolve(proof),
        })
        if (!result.ok || result.log?.connected !== 'consistent') throw new Error(describe(result))
      })
      const grown = `from ${size} to ${to} entries`
      const besideLimit = (name: string, value: number, unit: string, limit: number): Figure =>
        compareWith({ name: 'limit', value: limit }, { name, value, unit, better: 'lower', goal: 1 })
      return [
        besideLimit(`seal: consistency ${grown}, hashes`, hashes.length, 'hashes', MAX_HASHES),
        besideLimit(`seal: consistency ${grown}, the answer`, proofText.length, 'bytes', MAX_PROOF_BYTES),
        besideLimit(`seal: consistency ${grown}, to check, CPU`, proofMs, 'ms', MAX_CHECK_MS),
        besideLimit('seal: a receipt, the answer', receiptText.length, 'bytes', MAX_RECEIPT_BYTES),
        besideLimit(
          'seal: a receipt, to check from the head that was seen, CPU',
          receiptMs,
          'ms',
          MAX_CHECK_MS,
        ),
      ]
    },
    async close() {
      server.close()
      server.closeAllConnections()
      await closeContext(ctx)
    },
  }
}

/**
 * Measures the CPU time of one call of `work` in ms: the median of ROUNDS calls, after as many to warm up.
 */
async function timeCpu(work: () => void | Promise<void>): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < 2 * ROUNDS; round++) {
    const before = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(before)
    if (round >= ROUNDS) times.push((user + system) / 1_000)
  }
  return median(times)
}
