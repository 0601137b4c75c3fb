import type { Connection } from 'mongoose'

/** Collections made at once: a few round trips amid faults, and no crowd of new connections. */
const AT_ONCE = 6

/**
 * Makes every collection of the connection's models that is not there, with its indexes in one command. A start amid
 * failovers gets through a few round trips, not through one for each of a hundred indexes.
 *
 * @throws what the server says of an index that differs from the one of that name, and what an outage throws
 */
export async function createIndexes(connection: Connection): Promise<void> {
  const present = new Set((await connection.listCollections()).map(({ name }) => name))
  const models = Object.values(connection.models)
  const lane = async (): Promise<void> => {
    for (let model = models.pop(); model !== undefined; model = models.pop()) {
      // A transaction can write to a collection that nobody made, but two of them that make it conflict.
      if (!present.has(model.collection.name)) await model.createCollection()
      const indexes = model.schema.indexes().map(([key, options]) => ({ ...options, key }))
      if (indexes.length > 0) await connection.collection(model.collection.name).createIndexes(indexes as never[])
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
}
