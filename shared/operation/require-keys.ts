import type { Config } from '../foundation/config.ts'
import { assertPrivate } from '../foundation/private-file.ts'
import { StartError } from '../foundation/process.ts'
import { readSealKey } from '../ledger/seal-key.ts'
import { SealError } from '../ledger/seal.ts'
import { openNanoSeed } from '../payments/nano/nano-keys.ts'

/**
 * Every key that a process is told of must be there, be a key, and be its owner's alone: else it would run,
 * be counted as a worker, and do nothing.
 *
 * @throws StartError with a sentence for the operator; what a file holds is never in it
 */
export function requireKeys({ secrets: { sealKeyFile, sealMemoryFile }, nano: { seedFile } }: Config): void {
  assertPrivate('SEAL_KEY_FILE', sealKeyFile)
  assertPrivate('SEAL_MEMORY_FILE', sealMemoryFile)
  assertPrivate('NANO_SEED_FILE', seedFile)
  if (sealKeyFile !== undefined) requireSealKey(sealKeyFile)
  if (seedFile !== undefined) openNanoSeed(seedFile)
}

function requireSealKey(file: string): void {
  try {
    if (readSealKey(file) !== undefined) return
  } catch (error) {
    if (error instanceof SealError) throw new StartError(`SEAL_KEY_FILE: ${error.message}`, { cause: error })
    throw error
  }
  throw new StartError(
    `SEAL_KEY_FILE: there is no file ${file}; "operator keygen FILE" makes a key, once, with its memory.`,
  )
}
