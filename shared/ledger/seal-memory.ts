import path from 'node:path'
import { z } from 'zod'
import type { Config } from '../platform/config.ts'
import { sealPayloadHash } from '../crypto/seal-payload.ts'
import { lockFile, readJsonFile, textWithSum, writeDurably } from '../platform/durable-file.ts'
import { hex } from '../platform/schema.ts'
import { statedKeys } from './agent-keys.ts'
import { sealFields, SealError, type SealRecord } from './seal.ts'
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

export const NO_PAYLOAD_HASH = '0'.repeat(64)

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
  const broken = `The seal memory ${file} does not hold what was written there. Restore it from where it was kept, or adopt the last signed seal of the database (operator seal --adopt SEQ HASH).`
  return readJsonFile(file, rememberedFile, (cause) => new SealError(broken, { cause }))
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

/** A seal, identified by what its signature commits to. */
export interface SealHead {
  seq: number
  /** SHA-256 of its payload, as hex. */
  payloadHash: string
}

/** Stands for the last signed seal if there is none. */
export const NOTHING_SIGNED: SealHead = { seq: 0, payloadHash: NO_PAYLOAD_HASH }

/** A stored seal by its seq and payload hash. */
export function headOf(seal: SealRecord): SealHead {
  return { seq: seal._id, payloadHash: sealPayloadHash(sealFields(seal)) }
}

/**
 * Says why the next seal must not be signed, by the seal memory; returns undefined if it may be.
 *
 * In an unbroken history the memory holds the last signed seal of the database, or the next one if its
 * signature was made and not stored. Anything else means that the database, the memory or the key is not the
 * one that was in use, and that this may be the second signature for its seq: a fork, which only an operator
 * may decide on.
 *
 * @param last the last signed seal in the database
 * @param next the seal to be signed, the one after `last`
 * @param pubkey the key that would sign, as hex
 */
export function findMemoryConflict(
  remembered: Remembered | undefined,
  last: SealHead | undefined,
  next: SealHead,
  pubkey: string,
): string | undefined {
  const lastSeq = last?.seq ?? 0
  // The memory is made together with the key. A key without it may have signed anything.
  if (remembered === undefined)
    return `there is no seal memory, and the database has signed seals up to ${lastSeq}`
  if (remembered.pubkey !== pubkey)
    return `the seal memory belongs to the key ${remembered.pubkey}, and the key at hand is ${pubkey}`
  if (next.seq < remembered.seq)
    return `seal ${remembered.seq} was signed before, and the database ends at signed seal ${lastSeq}: it looks like an older one that was restored`
  if (next.seq === remembered.seq) {
    return next.payloadHash === remembered.payload_hash
      ? undefined
      : `another seal ${next.seq} was signed before, with the payload hash ${remembered.payload_hash}: the database looks like an older one that was restored`
  }
  if (lastSeq > remembered.seq)
    return `the seal memory ends at seal ${remembered.seq}, and the database has signed seals up to ${lastSeq}: the memory is an older one`
  if ((last?.payloadHash ?? NO_PAYLOAD_HASH) !== remembered.payload_hash)
    return `the seal ${remembered.seq} that was signed has the payload hash ${remembered.payload_hash}, and the database has another`
  return undefined
}
