import type { Context } from '../context.ts'
import { ed25519PublicKey, keyToHex } from '../crypto/ed25519.ts'
import { MAX_SIGNED_AHEAD_MS } from '../platform/limits.ts'
import type { WatchStep } from '../platform/step.ts'
import { SECOND_MS } from '../platform/time.ts'
import { SealError } from './seal.ts'
import { readSealKey } from './seal-key.ts'
import { openSealMemory, type Remembered, type SealMemory } from './seal-memory.ts'

/** The key with the memory of what it signed, in the one process that may use it now. */
export interface Signer {
  key: Uint8Array
  /** As hex. */
  pubkey: string
  memory: SealMemory
  memoryFile: string
  watch: WatchStep | undefined
}

/**
 * Reads the key and locks the seal memory; the caller must close the memory.
 *
 * @returns undefined if there is no key here yet, or another process of this host has the memory open
 * @throws SealError if no place is set for the memory, or the key can't be used
 */
export function openSigner(ctx: Pick<Context, 'config'>, watch?: WatchStep): Signer | undefined {
  const { sealKeyFile, sealMemoryFile } = ctx.config.secrets
  if (sealKeyFile === undefined) return undefined
  if (sealMemoryFile === undefined)
    throw new SealError(
      'SEAL_KEY_FILE is set and SEAL_MEMORY_FILE is not; what was signed must be remembered, so set both.',
    )
  const key = readSealKey(sealKeyFile)
  if (key === undefined) return undefined
  const memory = openSealMemory(sealMemoryFile)
  if (memory === undefined) return undefined
  return { key, pubkey: keyToHex(ed25519PublicKey(key)), memory, memoryFile: sealMemoryFile, watch }
}

/**
 * Reads the seal memory, without which the key signs nothing, announcements included.
 *
 * @throws SealError if there is none
 */
export function requireSealMemory({ memory, memoryFile }: Pick<Signer, 'memory' | 'memoryFile'>): Remembered {
  const remembered = memory.read()
  if (remembered !== undefined) return remembered
  throw new SealError(
    `Nothing is signed: there is no seal memory at ${memoryFile}, which was made together with the key and says what was signed with it. Give it back as it was at last; only if it is lost, or the key is new and came without one, adopt the last signed seal of the database on this host (operator seal --adopt SEQ HASH; 0 and 64 zeros if there is none).`,
  )
}

/** What is wrong with a time that the key is to state. */
export interface TimeFault {
  sentence: string
  /** This machine's clock is at fault, so another machine could sign. */
  isOurs: boolean
}

/**
 * Checks that a time which is to be signed lies ahead of neither this machine's clock nor the database's, by
 * more than MAX_SIGNED_AHEAD_MS: a date that is once too late makes every later one too late. A fault is
 * counted as an anomaly.
 *
 * @param at Unix seconds
 * @returns undefined if the time may be signed
 */
export function findTimeFault(
  ctx: Pick<Context, 'database' | 'metrics' | 'now'>,
  at: number,
): TimeFault | undefined {
  const [nowMs, databaseMs] = [ctx.now(), ctx.database.now()]
  const isAhead = (timeMs: number): boolean => at * SECOND_MS - timeMs > MAX_SIGNED_AHEAD_MS
  if (!isAhead(nowMs) && !isAhead(databaseMs)) return undefined
  ctx.metrics.countAnomaly('clock')
  if (isAhead(databaseMs))
    return { sentence: `its time ${at} is ahead of the database's clock`, isOurs: false }
  return {
    sentence: `this machine's clock is ${(databaseMs - nowMs) / SECOND_MS} s behind the database's`,
    isOurs: true,
  }
}
