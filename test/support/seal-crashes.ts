import fs from 'node:fs'
import { extendChain } from '../../shared/ledger/chain-check.ts'
import { openLedger, verifyLedger, verifyWholeLedger, type TestLedger } from './ledger.ts'
import { startChild } from './processes.ts'

const CHILD = new URL('./seal-child.ts', import.meta.url)

/** Every write and step of the sequencer, the sealer and the signing, in their order. */
export const STEPS = [
  'entries',
  'marks',
  'closing',
  'tiles',
  'seal',
  'status',
  'read-again',
  'memory-file',
  'memory',
  'sign',
  'verify',
  'signature',
] as const

/** Runs a seal worker in a process of its own. @returns the signal that ended it, or its exit code */
export function runSealChild(ledger: TestLedger, env: Record<string, string>): Promise<string | number> {
  return startChild(CHILD, { ...ledger.env, ...env }).ended
}

/** A chain of one seal, and 130 posts that wait: three batches of the child's. */
export async function openWaitingLedger(): Promise<{ ledger: TestLedger; written: string[] }> {
  const ledger = await openLedger()
  const written = await ledger.write(3)
  await ledger.seal()
  written.push(...(await ledger.write(130)))
  return { ledger, written }
}

/** What the next worker does after one that died, with everything verified after each step. @throws Error where something doesn't hold */
export async function recoverLedger(ledger: TestLedger, written: string[]): Promise<void> {
  await verifyLedger(ledger.ctx, written)
  await ledger.seal()
  await verifyLedger(ledger.ctx, written)
  written.push(...(await ledger.write(2)))
  await ledger.seal()
  const { seals } = await verifyWholeLedger(ledger.ctx, written)
  const status = await extendChain(ledger.ctx)
  if (!status.intact || status.seq !== seals.length || status.open.length > 0)
    throw new Error(`the chain is said to stand so: ${JSON.stringify(status)}`)
  const remembered = JSON.parse(fs.readFileSync(ledger.memoryFile, 'utf8')) as { seq: number }
  if (remembered.seq !== seals.length) throw new Error(`the seal memory ends at seal ${remembered.seq}, the chain at ${seals.length}`)
}
