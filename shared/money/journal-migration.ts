import type { Connection } from 'mongoose'
import { MOVED_KINDS, storedLine, type StoredLine } from './journal.ts'

/** Lines that are written at once. */
const BATCH = 1_000

/**
 * Gives each line of the journal that has to carry an entry, and was written before they did, that entry, for
 * schema 3. It may be run again: the sequencer takes off an entry that has a number already.
 */
export async function giveOldLinesEntries(connection: Connection): Promise<void> {
  const journal = connection.collection<StoredLine>('journal')
  const touched = new RegExp(`^(${MOVED_KINDS.join('|')})(:|$)`)
  const lacking = journal.find({
    $or: [{ from: touched }, { to: touched }],
    pending: { $exists: false },
  })
  let batch: StoredLine[] = []
  const store = async (): Promise<void> => {
    if (batch.length > 0)
      await journal.bulkWrite(
        batch.map(({ _id, pending = [] }) => ({
          updateOne: { filter: { _id, pending: { $exists: false } }, update: { $set: { pending } } },
        })),
      )
    batch = []
  }
  for await (const line of lacking) {
    batch.push(storedLine(line))
    if (batch.length === BATCH) await store()
  }
  await store()
}
