import type { ClientSession, Connection } from 'mongoose'
import type { Context } from '../context.ts'
import type { PendingEntry } from '../ledger/pending.ts'

/**
 * Runs `work` with a session whose reads all see the database at one moment, so that writes meanwhile don't
 * look like faults.
 */
export async function atOneMoment<T>(
  { database }: Pick<Context, 'database'>,
  work: (connection: Connection, session: ClientSession) => Promise<T>,
): Promise<T> {
  const session = await database.connection.startSession({ snapshot: true })
  try {
    return await work(database.connection, session)
  } finally {
    await session.endSession()
  }
}

/** Reads the entries that wait for a number, of all collections. One that just got it may be there still. */
export async function readPending(connection: Connection, session: ClientSession): Promise<PendingEntry[]> {
  const pending: PendingEntry[] = []
  for (const { collection, schema } of Object.values(connection.models)) {
    if (schema.path('pending') === undefined) continue
    for await (const record of connection
      .collection<{ pending: PendingEntry[] }>(collection.collectionName)
      .find({ 'pending.source': { $exists: true } }, { session, projection: { pending: 1 } }))
      pending.push(...record.pending)
  }
  return pending
}
