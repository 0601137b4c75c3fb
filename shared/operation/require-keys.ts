import type { Config } from '../platform/config.ts'
import { assertPrivate } from '../platform/private-file.ts'
import { StartError } from '../platform/process.ts'
import { readSealKey } from '../ledger/seal-key.ts'
import { SealError } from '../ledger/seal.ts'
import { requireMoneroLibrary } from '../money/coins/monero/monero-connection.ts'
import { openNanoSeed } from '../money/coins/nano/nano-keys.ts'

/**
 * Checks that every key file in the settings exists, holds a key, and is readable by its owner alone, and
 * that the optional package is there without which there is no Monero. Without this a process would run, be
 * counted as a worker, and do nothing. The seal memory is checked only to be its owner's; it may not exist
 * yet.
 *
 * @throws StartError with a sentence for the operator, which never has the file's content
 */
export function requireKeys(config: Pick<Config, 'secrets' | 'nano' | 'monero'>): void {
  const { sealKeyFile, sealMemoryFile } = config.secrets
  const { seedFile } = config.nano
  assertPrivate('SEAL_KEY_FILE', sealKeyFile)
  assertPrivate('SEAL_MEMORY_FILE', sealMemoryFile)
  assertPrivate('NANO_SEED_FILE', seedFile)
  if (sealKeyFile !== undefined) requireSealKey(sealKeyFile)
  if (seedFile !== undefined) openNanoSeed(seedFile)
  if (config.monero.walletRpcUrl !== undefined) requireMoneroLibrary()
}

/** @throws StartError if there is no such file, or it doesn't hold a seal key */
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
