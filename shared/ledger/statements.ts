import { hash } from 'node:crypto'
import fs from 'node:fs'
import { z } from 'zod'
import { writeDurably } from '../foundation/durable-file.ts'
import { SealError } from './seal.ts'
import type { WatchStep } from '../foundation/step.ts'

/**
 * What the seal key has signed beside seals: by the id of each announcement, the SHA-256 of what was signed,
 * as hex. It lies beside the seal memory and is written under its lock.
 */
const statementsFile = z.record(z.string(), z.string().regex(/^[0-9a-f]{64}$/))

export const statementsFileOf = (memoryFile: string): string => `${memoryFile}.announcements`

/**
 * Remembers durably that these bytes are about to be signed for this id.
 *
 * @throws SealError if others were signed for it before
 */
export async function rememberStatement(
  memoryFile: string,
  id: string,
  payload: Uint8Array,
  watch?: WatchStep,
): Promise<void> {
  const file = statementsFileOf(memoryFile)
  const known = readStatements(file)
  const digest = hash('sha256', payload, 'hex')
  const before = Object.hasOwn(known, id) ? known[id] : undefined
  if (before === digest) return
  if (before !== undefined) throw new SealError(`${id} is not signed: another text was signed for it before`)
  await writeDurably(file, `${JSON.stringify({ ...known, [id]: digest })}\n`, 'statement', watch)
}

function readStatements(file: string): Record<string, string> {
  try {
    return statementsFile.parse(JSON.parse(fs.readFileSync(file, 'utf8')))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    if (error instanceof SyntaxError || error instanceof z.ZodError)
      throw new SealError(`${file} does not hold what was written there: give it back as it was`, {
        cause: error,
      })
    throw error
  }
}
