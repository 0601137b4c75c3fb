import { randomBytes } from 'node:crypto'
import type { Connection, Model } from 'mongoose'
import { inject } from 'vitest'
import type { AccessName } from '../../scripts/embedded/access.ts'
import { startServers as startTemporary, type TemporaryServers } from '../../scripts/embedded/temporary.ts'
import { thisProcess } from '../../shared/money/address-store.ts'
import { serverFolder } from './server-folder.ts'
import { forgetToldChain } from './told-chain.ts'

export type { TemporaryServers } from '../../scripts/embedded/temporary.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    mongodbUrl: string
    redisUrl: string
  }
}

/**
 * Settings of an API under test: the tests burden a machine beyond what a service would bear, and few are
 * about a slow database.
 */
export const PATIENT = { REQUEST_SECONDS: '10' }

/** A MongoDB and a Redis of a test's own. */
export const startServers = (
  report?: (line: string) => void,
  options: { users?: readonly AccessName[]; queuePrefix?: string; cacheGb?: number } = {},
): Promise<TemporaryServers> => startTemporary(report, { under: serverFolder(), ...options })

/**
 * Databases that are empty again, with every collection and index: to make one costs the servers more than most
 * tests that need it.
 */
const emptied: string[] = []

/**
 * A database and a queue prefix that no other test uses meanwhile, on the servers of this run. The database
 * goes back by `leaveDatabase`.
 */
export function isolate(): { mongodbUrl: string; redisUrl: string; queuePrefix: string } {
  const queuePrefix = `test-${randomBytes(6).toString('hex')}`
  const mongodbUrl = new URL(inject('mongodbUrl'))
  mongodbUrl.pathname = `/${emptied.pop() ?? queuePrefix}`
  return { mongodbUrl: mongodbUrl.href, redisUrl: inject('redisUrl'), queuePrefix }
}

/**
 * Empties the database of a test that has ended, for the next one; drops it if it is not shaped as the program
 * makes it. Whatever else wrote to it must have stopped: only `connection` may still be open.
 */
export async function leaveDatabase(connection: Connection): Promise<void> {
  const { db, models } = connection
  if (db === undefined) return
  const collections = (await db.listCollections().toArray()) as { name: string; options?: object }[]
  const { indexes } = await db.command({ dbStats: 1 })
  const shapes = Object.values(models).map(({ collection, schema }) => ({
    name: collection.collectionName,
    // And the one of its `_id`.
    indexes: schema.indexes().length + 1,
  }))
  const isWhole =
    collections.length === shapes.length &&
    indexes === shapes.reduce((sum, shape) => sum + shape.indexes, 0) &&
    shapes.every(({ name }) =>
      collections.some((found) => found.name === name && Object.keys(found.options ?? {}).length === 0),
    )
  const isShared = new URL(inject('mongodbUrl')).port === String(connection.port)
  if (!isWhole || !isShared) return void (await db.dropDatabase())
  await emptyCollections(connection)
  forgetGivenAddresses(connection)
  forgetToldChain(connection.name)
  // Two that share one leave it twice, and it must not be given to two others.
  if (!emptied.includes(db.databaseName)) emptied.push(db.databaseName)
}

/**
 * Empties the collections of the connection's models. Only those that hold something are written to, and only the
 * last write waits for a majority: a wait costs more than the rest of a delete, even of nothing.
 */
export async function emptyCollections(
  connection: Connection,
  models: readonly Pick<Model<unknown>, 'collection'>[] = Object.values(connection.models),
): Promise<void> {
  const findOne = (name: string) => [{ $limit: 1 }, { $project: { _id: 0, name: { $literal: name } } }]
  const [first, ...others] = models.map(({ collection }) => collection.collectionName)
  if (first === undefined) return
  const filled = await connection
    .collection(first)
    .aggregate<{
      name: string
    }>([
      ...findOne(first),
      ...others.map((name) => ({ $unionWith: { coll: name, pipeline: findOne(name) } })),
    ])
    .toArray()
  for (const { name } of filled) await connection.collection(name).deleteMany({}, { writeConcern: { w: 1 } })
  await connection.collection(first).deleteMany({})
}

/** What this process remembers, by the database's name, of the coin addresses that it has given out. */
export function forgetGivenAddresses({ name }: Connection): void {
  for (const place of thisProcess.given.keys())
    if (place.startsWith(`${name} `)) thisProcess.given.delete(place)
}
