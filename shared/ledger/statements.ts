import { hash } from 'node:crypto'
import { z } from 'zod'
import { readJsonFile, writeDurably } from '../foundation/durable-file.ts'
import { hex } from '../foundation/schema.ts'
import { SealError } from './seal.ts'
import type { WatchStep } from '../foundation/step.ts'

/**
 * The announcements that the seal key has signed: the SHA-256 of each payload, as hex, by the announcement's
 * id. The file lies beside the seal memory and is written under its lock.
 */
const statementsFile = z.record(z.string(), hex(64))

const statementsFileOf = (memoryFile: string): string => `${memoryFile}.announcements`

/**
 * Stores durably that this payload is about to be signed for an announcement.
 *
 * @throws SealError if another payload was signed for it before
 */
export async function rememberStatement(
  memoryFile: string,
  id: string,
  payload: Uint8Array,
  watch?: WatchStep,
): Promise<void> {
  const file = statementsFileOf(memoryFile)
  const known =
    readJsonFile(
      file,
      statementsFile,
      (cause) =>
        new SealError(`${file} does not hold what was written there: give it back as it was`, { cause }),
    ) ?? {}
  const digest = hash('sha256', payload, 'hex')
  const before = Object.hasOwn(known, id) ? known[id] : undefined
  if (before === digest) return
  if (before !== undefined) throw new SealError(`${id} is not signed: another text was signed for it before`)
  await writeDurably(file, `${JSON.stringify({ ...known, [id]: digest })}\n`, 'statement', watch)
}
