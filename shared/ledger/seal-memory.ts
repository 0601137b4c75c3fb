import path from 'node:path'
import { z } from 'zod'
import type { Config } from '../platform/config.ts'
import { lockFile, readJsonFile, textWithSum, writeDurably } from '../platform/durable-file.ts'
import { hex } from '../platform/schema.ts'
import { statedKeys } from './agent-keys.ts'
import { SealError } from './seal.ts'
import { SigningStopped } from './signing-refusals.ts'
import type { WatchStep } from '../platform/step.ts'

/**
 * What was last signed, kept beside the key and not in the database, so that a restored database can't make
 * it forget.
 */
export type Remembered = z.infer<typeof rememberedFile>

const rememberedFile = z.object({
  /** 0: nothing has been signed yet. */
  seq: z.int().min(0),
  /** SHA-256 of the payload of that seal, as hex; zeros for seq 0. */
  payload_hash: hex(64),
  /** The key that it was signed with, as hex. */
  pubkey: hex(64),
  /** The log's name. */
  origin: z.string().exactOptional(),
  /**
   * The log and the agents' keys after that seal: no smaller log is signed, and no other one of this size.
   */
  log: z.object({ size: z.int().min(0), root: hex(64) }).exactOptional(),
  keys: statedKeys.exactOptional(),
  /**
   * The first and the last seq of seals that adoptions gave up: a peer that remembers them doesn't hold up
   * signing.
   */
  given_up: z.object({ from: z.int().min(1), to: z.int().min(1) }).exactOptional(),
})

/** The text of a seal memory's file. */
export const memoryText = (remembered: Remembered): string => textWithSum(remembered)

/**
 * The path of the seal memory: SEAL_MEMORY_FILE, else `seal-memory` in DATA_DIR, where `npm start` keeps it.
 */
export function memoryFileOf({ secrets, dataDir }: Pick<Config, 'secrets' | 'dataDir'>): string {
  return secrets.sealMemoryFile ?? path.join(dataDir, 'seal-memory')
}

export interface SealMemory {
  /** @returns undefined if there is no file. @throws SealError if the file is damaged */
  read(): Remembered | undefined
  /**
   * Replaces what it holds. Resolves when that is synced; after a crash before, it holds the old or the new.
   */
  write(remembered: Remembered, watch?: WatchStep): Promise<void>
  /** Releases the lock. */
  close(): void
}

/**
 * Opens the seal memory under an exclusive lock, which holds on this host only: that is why a key has one
 * signing host.
 *
 * @returns undefined if another process has it open
 */
export function openSealMemory(file: string): SealMemory | undefined {
  const unlock = lockFile(file)
  if (unlock === undefined) return undefined
  return {
    read: () => readMemory(file),
    write: (remembered, watch) => writeDurably(file, memoryText(remembered), 'memory', watch),
    close: unlock,
  }
}

/** Reads a seal memory. @returns undefined if there is no file. @throws SealError if the file is damaged */
export function readMemory(file: string): Remembered | undefined {
  const broken = `The seal memory ${file} does not hold what was written there`
  return readJsonFile(
    file,
    rememberedFile,
    (cause) => new SigningStopped('memory_is_damaged', broken, { cause }),
  )
}

/**
 * Reads a seal memory.
 *
 * @returns undefined if there is no file, or it is damaged: an adoption replaces either
 */
export function readMemoryUnlessDamaged(file: string): Remembered | undefined {
  try {
    return readMemory(file)
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}
