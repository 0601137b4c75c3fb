import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import type { Config } from '../platform/config.ts'
import type { Context } from '../context.ts'
import { readJsonFile, replaceFile, syncFolder, textWithSum } from '../platform/durable-file.ts'
import { newStepId } from '../platform/ids.ts'
import { hex } from '../platform/schema.ts'
import { headOf, SealError } from './seal.ts'
import type { SealStore } from './seal-store.ts'
import { memoryFileOf, readMemoryUnlessDamaged } from './seal-memory.ts'

/**
 * An operator's decision that signing goes on from this database, although the seal memory remembers another
 * last seal or none. It is a file beside the memory, written on the signing host, and the signer applies it
 * at its next run. No job and no document can say the same: whoever reaches only the database and the queues
 * can't have history signed anew.
 */
export type Adoption = z.infer<typeof adoptionFile>

const adoptionFile = z.object({
  /** Names the act, so that it is recorded once however often it is tried. */
  id: z.string().regex(/^[0-9a-hjkmnp-tv-z]{26}$/),
  /** The last signed seal of the database; 0 if it has none. */
  seq: z.int().min(0),
  /** SHA-256 of its payload, as hex; zeros for seq 0. */
  payload_hash: hex(64),
  /** What the memory held when the operator decided; null if there was none, or a damaged one. */
  remembered: z.object({ seq: z.int().min(0), payload_hash: hex(64) }).nullable(),
})

/** The path of an adoption's file, beside the seal memory. */
export const adoptionFileOf = (memoryFile: string): string => `${memoryFile}.adoption`

/**
 * Writes the file by which the signer adopts the database's last signed seal at its next run. To be run on
 * the signing host.
 *
 * @param seq the last signed seal of the database; 0 if it has none
 * @param payloadHash SHA-256 of its payload, as hex; 64 zeros for seq 0
 * @returns the file, and what the memory holds until then; null if there is none, or a damaged one
 * @throws SealError if the database's last signed seal is another, or this is not the signing host
 */
export async function writeAdoption(
  ctx: Pick<Context, 'seals' | 'config'>,
  seq: number,
  payloadHash: string,
): Promise<{ file: string; remembered: Adoption['remembered'] }> {
  await requireLastSigned(ctx.seals, seq, payloadHash)
  const memoryFile = requireMemoryFile(ctx.config)
  const memory = readMemoryUnlessDamaged(memoryFile)
  const remembered = memory === undefined ? null : { seq: memory.seq, payload_hash: memory.payload_hash }
  const adoption: Adoption = { id: newStepId(), seq, payload_hash: payloadHash, remembered }
  const file = adoptionFileOf(memoryFile)
  replaceFile(file, textWithSum(adoption))
  return { file, remembered }
}

/**
 * @throws SealError unless the database's last signed seal has this seq and payload hash; seq 0 if it has
 *   none
 */
export async function requireLastSigned(
  seals: Pick<SealStore, 'lastSigned'>,
  seq: number,
  payloadHash: string,
): Promise<void> {
  const head = headOf(await seals.lastSigned())
  if (head.seq !== seq || head.payloadHash !== payloadHash)
    throw new SealError(
      `Seal ${seq} with the payload hash ${payloadHash} is not adopted: the last signed seal of the database is ${head.seq}, with the payload hash ${head.payloadHash}.`,
    )
}

/**
 * The file of the seal memory.
 *
 * @throws SealError if this host has no place for one, so it isn't the signing host
 */
function requireMemoryFile({ secrets, dataDir }: Pick<Config, 'secrets' | 'dataDir'>): string {
  const file = memoryFileOf({ secrets, dataDir })
  const hasPlace =
    secrets.sealMemoryFile === undefined
      ? fs.existsSync(file) || fs.existsSync(path.join(dataDir, 'seal-key'))
      : fs.existsSync(path.dirname(file))
  if (hasPlace) return file
  throw new SealError(
    `There is no place for a seal memory at ${file}: an adoption is written on the signing host, with the signer's SEAL_MEMORY_FILE or DATA_DIR.`,
  )
}

/**
 * Reads the adoption that lies beside the memory; undefined if there is none.
 *
 * @throws SealError if the file is not one that `operator seal --adopt` has written
 */
export function readAdoption(memoryFile: string): Adoption | undefined {
  const file = adoptionFileOf(memoryFile)
  return readJsonFile(
    file,
    adoptionFile,
    (cause) => new SealError(`${file} is not what operator seal --adopt writes; run that again`, { cause }),
  )
}

/** Removes the file of an adoption that was applied, or renames that of a refused one to `….refused`. */
export function endAdoption(memoryFile: string, isApplied: boolean): void {
  const file = adoptionFileOf(memoryFile)
  if (isApplied) fs.rmSync(file)
  else fs.renameSync(file, `${file}.refused`)
  syncFolder(path.dirname(memoryFile))
}
