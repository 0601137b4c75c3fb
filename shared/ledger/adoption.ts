import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import type { Config } from '../foundation/config.ts'
import type { Context } from '../context.ts'
import { readJsonFile, replaceFile, syncFolder } from '../foundation/durable-file.ts'
import { newStepId } from '../foundation/ids.ts'
import { SealError } from './seal.ts'
import { headOf, memoryFileOf, NOTHING_SIGNED, readMemory, type Remembered } from './seal-memory.ts'

/**
 * An operator's decision that the database is the one to go on from, although the seal memory knows another
 * or nothing: it lies in a file beside the memory, written on the signing host, and the signer takes it when
 * it runs next. No job and no document can say the same: whoever reaches the database and the queues alone
 * can't have history signed anew.
 */
export interface Adoption {
  /** Names the act, which is on record once however often its taking is tried. */
  id: string
  /** The last signed seal of the database; 0 if it has none. */
  seq: number
  /** SHA-256 of its payload, as hex; zeros for seq 0. */
  payload_hash: string
  /** What the memory held when the operator decided; null if there was none, or none that could be read. */
  remembered: Pick<Remembered, 'seq' | 'payload_hash'> | null
}

const hash = z.string().regex(/^[0-9a-f]{64}$/)
const adoptionFile = z.object({
  id: z.string().regex(/^[0-9a-hjkmnp-tv-z]{26}$/),
  seq: z.int().min(0),
  payload_hash: hash,
  remembered: z.object({ seq: z.int().min(0), payload_hash: hash }).nullable(),
})

export const adoptionFileOf = (memoryFile: string): string => `${memoryFile}.adoption`

/**
 * Writes down that the seal memory shall take over the last signed seal of the database. To be run on the
 * signing host.
 *
 * @param seq the last signed seal of the database; 0 if it has none
 * @param payloadHash SHA-256 of its payload, as hex; 64 zeros for seq 0
 * @returns the file, and what the memory holds until then
 * @throws SealError if the database ends otherwise, or this is not the signing host
 */
export async function adoptSeal(
  ctx: Pick<Context, 'seals' | 'config'>,
  seq: number,
  payloadHash: string,
): Promise<{ file: string; remembered: Adoption['remembered'] }> {
  await requireLastSigned(ctx, seq, payloadHash)
  const memoryFile = findMemoryFile(ctx.config)
  const remembered = readIfWhole(memoryFile)
  const file = adoptionFileOf(memoryFile)
  replaceFile(
    file,
    `${JSON.stringify({ id: newStepId(), seq, payload_hash: payloadHash, remembered } satisfies Adoption)}\n`,
  )
  return { file, remembered }
}

/** @throws SealError if the last signed seal of the database is another */
export async function requireLastSigned(
  ctx: Pick<Context, 'seals'>,
  seq: number,
  payloadHash: string,
): Promise<void> {
  const last = await ctx.seals.lastSigned()
  const head = last === undefined ? NOTHING_SIGNED : headOf(last)
  if (head.seq !== seq || head.payloadHash !== payloadHash)
    throw new SealError(
      `Seal ${seq} with the payload hash ${payloadHash} is not adopted: the last signed seal of the database is ${head.seq}, with the payload hash ${head.payloadHash}.`,
    )
}

function findMemoryFile({ secrets, dataDir }: Pick<Config, 'secrets' | 'dataDir'>): string {
  const file = memoryFileOf({ secrets, dataDir })
  const isHere =
    secrets.sealMemoryFile === undefined
      ? fs.existsSync(file) || fs.existsSync(path.join(dataDir, 'seal-key'))
      : fs.existsSync(path.dirname(file))
  if (isHere) return file
  throw new SealError(
    `There is no place for a seal memory at ${file}: an adoption is written on the signing host, with the signer's SEAL_MEMORY_FILE or DATA_DIR.`,
  )
}

/** @throws SealError if the file is not one that `operator seal --adopt` has written */
export function readAdoption(memoryFile: string): Adoption | undefined {
  const file = adoptionFileOf(memoryFile)
  return readJsonFile(
    file,
    adoptionFile,
    (cause) => new SealError(`${file} is not what operator seal --adopt writes`, { cause }),
  )
}

/** Ends an adoption that was taken, or puts one aside that was refused. */
export function endAdoption(memoryFile: string, isTaken: boolean): void {
  const file = adoptionFileOf(memoryFile)
  if (isTaken) fs.rmSync(file)
  else fs.renameSync(file, `${file}.refused`)
  syncFolder(path.dirname(memoryFile))
}

/** What lies in a damaged memory is what an adoption replaces. */
export function readIfWhole(memoryFile: string): Adoption['remembered'] {
  try {
    const remembered = readMemory(memoryFile)
    return remembered === undefined ? null : { seq: remembered.seq, payload_hash: remembered.payload_hash }
  } catch (error) {
    if (error instanceof SealError) return null
    throw error
  }
}
