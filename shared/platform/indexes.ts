import mongoose, { type Connection, type Model } from 'mongoose'
import { StartError } from './process.ts'
import { NotYetMade } from './not-yet-made.ts'

/** Collections made at once: a few round trips amid faults, and no crowd of new connections. */
const AT_ONCE = 6

/**
 * Makes every collection of the connection's models that is not there, and for each collection its indexes in
 * one command. A start amid failovers gets through a few round trips, not through one for each of a hundred
 * indexes.
 *
 * A user that may not write a collection may not make it either: such a collection is only checked.
 *
 * @throws NotYetMade if one of those is missing or lacks an index, after all others are made; StartError if
 *   an index of that name has other options; what an outage throws
 */
export async function createIndexes(connection: Connection): Promise<void> {
  const present = new Set((await connection.listCollections()).map(({ name }) => name))
  const models = Object.values(connection.models)
  // What another has to make holds up nothing of one's own: two who wait for each other would wait for ever.
  let missing: unknown
  const makeRemaining = async (): Promise<void> => {
    for (let model = models.pop(); model !== undefined; model = models.pop()) {
      // A transaction can write to a collection that nobody made, but two of them that make it conflict.
      try {
        if (!present.has(model.collection.name)) await model.createCollection()
        const indexes = model.schema.indexes().map(([key, options]) => ({ ...options, key }))
        if (indexes.length > 0)
          await connection.collection(model.collection.name).createIndexes(indexes as never[])
      } catch (error) {
        if (!(error instanceof mongoose.mongo.MongoServerError)) throw error
        if (OTHER_INDEX.has(Number(error.code)))
          throw new StartError(
            `The collection ${model.collection.name} has an index that this program means otherwise; drop that index, and the next start makes it anew. MongoDB says: ${error.message}`,
            { cause: error },
          )
        if (error.code !== UNAUTHORIZED) throw error
        await expectIndexes(connection, model).catch((lacking: unknown) => (missing = lacking))
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, makeRemaining))
  if (missing !== undefined) throw missing
}

/**
 * Waits for work that makes a database ready. If this process's user may not do it, it is left to a process
 * that may.
 *
 * @param what says what is to be done, in the error
 * @throws NotYetMade if this process's user may not do it
 */
export async function leaveToOthers(work: Promise<void>, what: string): Promise<void> {
  try {
    await work
  } catch (error) {
    if (error instanceof mongoose.mongo.MongoServerError && error.code === UNAUTHORIZED)
      throw new NotYetMade(what)
    throw error
  }
}

/** The server's codes for an index of that name or of those keys that has other options. */
const OTHER_INDEX = new Set([85, 86])

/** The server's code for a user that may not do that. */
const UNAUTHORIZED = 13

/** Checks that a collection is there with all its indexes. @throws NotYetMade if it isn't */
async function expectIndexes(connection: Connection, model: Model<unknown>): Promise<void> {
  const present = await connection
    .collection(model.collection.name)
    .indexes()
    .catch(() => [])
  const keys = new Set(present.map(({ key }) => JSON.stringify(key)))
  // A collection that is there has the index of its `_id`.
  if (present.length > 0 && model.schema.indexes().every(([key]) => keys.has(JSON.stringify(key)))) return
  throw new NotYetMade(`${model.collection.name} is to be made by a process that may write it`)
}
