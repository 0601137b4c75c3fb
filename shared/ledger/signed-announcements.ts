import { hash } from 'node:crypto'
import { z } from 'zod'
import { readJsonFile, textWithSum, writeDurably } from '../platform/durable-file.ts'
import { hex } from '../platform/schema.ts'
import { SealError } from './seal.ts'
import type { WatchStep } from '../platform/step.ts'

/**
 * The announcements that the seal key has signed: the SHA-256 of each payload, as hex, by the announcement's
 * id. The file lies beside the seal memory and is written under its lock.
 */
const statementsFile = z.record(z.string().regex(/^ann_[0-9A-Za-z]+$/), hex(64))

const statementsFileOf = (memoryFile: string): string => `${memoryFile}.announcements`

/**
 * Stores durably, in the file beside the seal memory, that this payload is about to be signed for the
 * announcement `id`. Writes nothing if the same payload is stored already. The caller must hold the memory's
 * lock.
 *
 * @throws SealError if another payload was signed for this announcement before, or the file is damaged
 */
export async function rememberSignedAnnouncement(
  memoryFile: string,
  id: string,
  payload: Uint8Array,
  watch?: WatchStep,
): Promise<void> {
  const file = statementsFileOf(memoryFile)
  const digests =
    readJsonFile(
      file,
      statementsFile,
      (cause) =>
        new SealError(`${file} does not hold what was written there: give it back as it was`, { cause }),
    ) ?? {}
  const digest = hash('sha256', payload, 'hex')
  const signedBefore = Object.hasOwn(digests, id) ? digests[id] : undefined
  if (signedBefore === digest) return
  if (signedBefore !== undefined)
    throw new SealError(`${id} is not signed: another text was signed for it before`)
  await writeDurably(file, textWithSum({ ...digests, [id]: digest }), 'statement', watch)
}
