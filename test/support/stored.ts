import type { ClientSession, Connection } from 'mongoose'
import { recordOf } from '../../shared/ledger/entry.ts'
import type { PendingEntry } from '../../shared/ledger/pending.ts'

/** How many documents each collection of a database holds. */
export async function countStored(connection: Connection): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const name of await listCollections(connection))
    counts[name] = await connection.collection(name).countDocuments()
  return counts
}

/** Every document of a database as text, a line each. */
export async function dumpStored(connection: Connection): Promise<string> {
  const lines: string[] = []
  for (const name of await listCollections(connection)) {
    for await (const document of connection.collection(name).find())
      lines.push(`${name} ${JSON.stringify(document)}`)
  }
  return lines.join('\n')
}

/** The pending entries of one record, in the order of their writing. */
export async function listPending(
  connection: Connection,
  collection: string,
  id: string,
): Promise<PendingEntry[]> {
  const document = await connection
    .collection<{ _id: string; pending?: PendingEntry[] }>(collection)
    .findOne({ _id: id })
  return document?.pending ?? []
}

/**
 * Reads that all see the database as it stood at one moment, given their session: workers that run beside
 * change nothing between them.
 */
export async function atOneMoment<T>(
  connection: Connection,
  read: (session: ClientSession) => Promise<T>,
): Promise<T> {
  const session = await connection.startSession({ snapshot: true })
  try {
    return await read(session)
  } finally {
    await session.endSession()
  }
}

/**
 * Every entry of a database, numbered or not; each once.
 *
 * @throws Error for one whose data does not name the record of its source: no verifier takes that record's
 *   receipt. Moves of money are in no receipt
 */
export async function listAllEntries(
  connection: Connection,
  session: ClientSession,
): Promise<PendingEntry[]> {
  const numbered = (await connection
    .collection('entries')
    .find({}, { session })
    .toArray()) as unknown as PendingEntry[]
  const pending = await listAllPending(connection, session)
  const entries = [...new Map([...numbered, ...pending].map((entry) => [entry.source, entry])).values()]
  const unnamed = entries.filter(
    ({ kind, source, data }) =>
      kind !== 'money_move' && !JSON.stringify(data).includes(JSON.stringify(recordOf(source))),
  )
  if (unnamed.length > 0)
    throw new Error(
      `these entries do not name their records: ${unnamed.map(({ source }) => source).join(', ')}`,
    )
  return entries
}

/** Every pending entry of a database, in a session at that session's moment. */
export async function listAllPending(
  connection: Connection,
  session?: ClientSession,
): Promise<PendingEntry[]> {
  const entries: PendingEntry[] = []
  const options = session === undefined ? {} : { session }
  for (const name of await listCollections(connection)) {
    const found = connection
      .collection<{ pending?: PendingEntry[] }>(name)
      .find({ pending: { $exists: true } }, options)
    for await (const { pending } of found) entries.push(...(pending ?? []))
  }
  return entries
}

async function listCollections(connection: Connection): Promise<string[]> {
  if (connection.db === undefined) throw new Error('"connection" expected an open one')
  return (await connection.db.listCollections({}, { nameOnly: true }).toArray())
    .map(({ name }) => name)
    .sort()
}
