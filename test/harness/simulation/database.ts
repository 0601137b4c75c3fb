import mongoose, { type Connection } from 'mongoose'
import type { Database, Session } from '../../../shared/platform/database.ts'
import { unavailable } from '../../../shared/platform/database.ts'
import { createSerializer } from '../../../shared/platform/serializer.ts'
import { createModelCollection, type Server } from './collection.ts'
import { NotModelled } from './query.ts'
import { ModelSession, type UniqueIndex } from './replica-set.ts'

/**
 * Makes a mongoose connection to the simulated database: what its mongoose models read and write goes to the
 * replica set of `server()`, which is asked anew at each operation, since each schedule has its own.
 */
export function openModelConnection(server: () => Server): Connection {
  const connection = mongoose.createConnection()
  connection.set('bufferCommands', false)
  connection.set('strictQuery', 'throw')
  const indexKey = (collection: string) => (hint: string) => {
    const index = indexesOf(connection, collection).find(([, { name }]) => name === hint)
    if (index === undefined) throw new NotModelled(`an index of the name ${hint}`)
    return index[0] as Record<string, number>
  }
  const collection = (name: string) => createModelCollection(name, server, indexKey(name))
  Object.assign(connection, { db: { collection } })
  Object.assign(connection, { readyState: mongoose.ConnectionStates.connected })
  return connection
}

const indexesOf = (connection: Connection, collection: string) =>
  Object.values(connection.models)
    .find((model) => model.collection.collectionName === collection)
    ?.schema.indexes() ?? []

/** The unique indexes of a connection's collections. */
export function uniqueIndexesOf(connection: Connection): (collection: string) => readonly UniqueIndex[] {
  const known = new Map<string, UniqueIndex[]>()
  return (collection) => {
    const found = known.get(collection)
    if (found !== undefined) return found
    const unique = indexesOf(connection, collection)
      .filter(([, options]) => options.unique === true)
      .map(([key, options]) => ({
        paths: Object.keys(key),
        filter: options.partialFilterExpression ?? (options.sparse === true ? someOf(key) : {}),
      }))
    known.set(collection, unique)
    return unique
  }
}

/** What a sparse index of these fields has in it. */
const someOf = (key: object): Record<string, unknown> => ({
  $or: Object.keys(key).map((path) => ({ [path]: { $exists: true } })),
})

const TRANSACTION_MS = 10_000
const BACKOFF_MS = 5

/** As openDatabase(), on the model: transactions are begun and tried again as the driver does. */
export function createModelDatabase(
  connection: Connection,
  server: () => Server,
  now: () => number,
): Database {
  async function transaction<T>(work: (session: Session) => Promise<T>, own?: Session): Promise<T> {
    if (own !== undefined) throw new NotModelled('a transaction in a session of its own')
    const { set } = server()
    const session = new ModelSession(false)
    const deadlineMs = performance.now() + TRANSACTION_MS
    for (;;) {
      if (performance.now() >= deadlineMs) throw unavailable()
      session.transaction = undefined
      session.isInTransaction = true
      let result: T
      try {
        result = await work(session as unknown as Session)
      } catch (error) {
        set.abort(session)
        if (!hasLabel(error, 'TransientTransactionError')) throw error
        await new Promise((resolve) => setTimeout(resolve, BACKOFF_MS))
        continue
      }
      const failure = await commit(session)
      if (failure === undefined) return result
      if (!hasLabel(failure, 'TransientTransactionError')) throw failure
    }
  }
  /** @returns what ended it, other than an answer that was lost */
  async function commit(session: ModelSession): Promise<unknown> {
    for (;;) {
      try {
        await server().set.commit(session)
        return undefined
      } catch (error) {
        if (!hasLabel(error, 'UnknownTransactionCommitResult')) return error
      }
    }
  }
  const notModelled = () => {
    throw new NotModelled('this part of the database')
  }
  return {
    connection,
    isReady: () => true,
    whenReady: () => Promise.resolve(),
    transaction,
    serialize: createSerializer(),
    openSession: notModelled,
    inOrder: (work) => work(new ModelSession(true) as unknown as Session),
    now,
    freeDiskBytes: notModelled,
    readDiskUse: notModelled,
    members: notModelled,
    close: notModelled,
  }
}

const hasLabel = (error: unknown, label: string): boolean =>
  error instanceof mongoose.mongo.MongoError && error.hasErrorLabel(label)
