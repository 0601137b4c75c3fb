import mongoose, { type Connection, type Model, type PipelineStage } from 'mongoose'
import { isDuplicateKey, MAJORITY, within, type Session } from '../platform/database.ts'
import { entryFields, type EntryRecord } from './entry.ts'
import { only, schemaOf } from '../platform/fields.ts'
import { KEY_CHANGES } from './agent-keys.ts'
import { createKeyPieceStore } from './key-piece-store.ts'
import { createKeyTreeReader } from './key-tree-reader.ts'
import { createLogTileStore } from './log-tile-store.ts'
import { createSealPathReader } from './seal-paths.ts'
import { carriesPendingEntries, type EntryKind, type PendingEntry } from './pending.ts'
import { rawOf } from '../platform/records.ts'

const entrySchema = schemaOf<EntryRecord>('entries', entryFields)
entrySchema.index({ source: 1 }, { unique: true })
entrySchema.index({ record: 1, _id: 1 })
// Entries that change an agent's keys: few, and read from the first on.
entrySchema.index({ kind: 1, _id: 1 }, only({ kind: { $in: [...KEY_CHANGES] } }))

/** A record with pending entries, as the sequencer sees it. */
export interface PendingRecord {
  _id: string
  pending: PendingEntry[]
}

/** One collection whose records carry pending entries. */
export interface PendingCollection {
  readonly name: string
  /**
   * Up to `limit` records with a durable pending entry whose source is greater than `after`, by source.
   *
   * @param after a source, or '' for the beginning
   */
  list(after: string, limit: number): Promise<PendingRecord[]>
  find(recordId: string): Promise<PendingEntry[]>
  /** Removes the pending entries with these sources from these records. */
  clear(recordIds: readonly string[], sources: readonly string[]): Promise<void>
}

/** Entries fetched at once on a walk: less than 1 MB, and two pages are in memory at most. */
const PAGE_ENTRIES = 2_000
/** Entries of a list that the database sends at a time: they are parsed without a pause, in less than a millisecond. */
const ENTRIES_AT_ONCE = 100

/**
 * Creates the store of the ledger: numbered entries with the tiles of the log over them, and the pending ones
 * in every collection. All reads see what a majority has.
 */
export function createEntryStore(connection: Connection) {
  const entries = connection.model<EntryRecord>('Entry', entrySchema)
  // Entries come by the thousand and are already in their stored form: the driver takes them as they are.
  const raw = () => rawOf<EntryRecord>(entries)
  /** Up to `limit` entries from `fromId` to `toId`, ascending. */
  const list = (fromId: number, limit: number, toId = Number.MAX_SAFE_INTEGER, session?: Session) =>
    raw()
      .find({ _id: { $gte: fromId, $lte: toId } }, { ...MAJORITY, ...within(session), batchSize: limit })
      .sort({ _id: 1 })
      .limit(limit)
      .toArray()

  /** The first `limit` entries above `afterId`, up to `toId`, that change an agent's keys, ascending. */
  const listKeyChanges = async (afterId: number, toId: number, limit: number) => {
    const changes = await raw()
      .find(
        { kind: { $in: [...KEY_CHANGES] as EntryKind[] }, _id: { $gt: afterId, $lte: toId } },
        { ...MAJORITY, projection: { 'data.agent_id': 1 }, batchSize: limit },
      )
      .sort({ _id: 1 })
      .limit(limit)
      .toArray()
    return changes.map(({ _id, data }) => ({ _id, agentId: data?.['agent_id'] }))
  }
  /** Those of the entries with these numbers that are there. */
  const read = async (ids: readonly number[]): Promise<Map<number, EntryRecord>> => {
    const found = await raw()
      .find({ _id: { $in: [...ids] } }, { ...MAJORITY, batchSize: ids.length + 1 })
      .toArray()
    return new Map(found.map((entry) => [entry._id, entry]))
  }
  const tiles = createLogTileStore(connection)
  const keyPieces = createKeyPieceStore(connection)
  return {
    models: { entries },
    tiles,
    /** Reads paths from entries to the root of the seal that covers them, by the tiles of the log. */
    readSealPaths: createSealPathReader(tiles.find),
    /** The highest number that a majority has; 0 for an empty ledger. */
    async highestId(session?: Session): Promise<number> {
      const [last] = await raw()
        .find({}, { ...MAJORITY, ...within(session), projection: { _id: 1 } })
        .sort({ _id: -1 })
        .limit(1)
        .toArray()
      return last?._id ?? 0
    },
    /**
     * Inserts in the given order and stops at the first failure, so that no entry is stored without those
     * before it. Resolves once a majority has them in its journal.
     *
     * @returns false if a number or a source was taken, which leaves open how many were stored
     */
    async append(batch: readonly EntryRecord[]): Promise<boolean> {
      try {
        await raw().insertMany(batch, { ordered: true })
        return true
      } catch (error) {
        if (!(error instanceof mongoose.mongo.MongoBulkWriteError) || !isDuplicateKey(error)) throw error
        return false
      }
    },
    /** Returns those of the given sources whose entry is durable (a majority has it). */
    async findSources(sources: readonly string[]): Promise<Set<string>> {
      const numbered = await raw()
        .find({ source: { $in: [...sources] } }, { ...MAJORITY, projection: { _id: 0, source: 1 } })
        .toArray()
      return new Set(numbered.map(({ source }) => source))
    },
    async findBySource(source: string): Promise<EntryRecord | undefined> {
      return (await raw().findOne({ source }, MAJORITY)) ?? undefined
    },
    async find(id: number): Promise<EntryRecord | undefined> {
      return (await raw().findOne({ _id: id }, MAJORITY)) ?? undefined
    },
    /** Up to `limit` entries from number `fromId` on, ascending. */
    list: (fromId: number, limit: number): Promise<EntryRecord[]> => list(fromId, limit),
    /** Up to `limit` entries from `fromId` to `toId` that match the filter, ascending. */
    search: (fromId: number, toId: number, filter: object, limit: number): Promise<EntryRecord[]> =>
      raw()
        .find({ _id: { $gte: fromId, $lte: toId }, ...filter } as object, MAJORITY)
        .sort({ _id: 1 })
        .limit(limit)
        .batchSize(ENTRIES_AT_ONCE)
        .toArray(),
    /** The entries of one record with a number above `afterId`, ascending; without a limit if that is 0. */
    listByRecord: (record: string, afterId: number = 0, limit: number = 0): Promise<EntryRecord[]> =>
      raw()
        .find({ record, _id: { $gt: afterId } }, MAJORITY)
        .sort({ _id: 1 })
        .limit(limit)
        .batchSize(ENTRIES_AT_ONCE)
        .toArray(),
    /** The tree of agents' keys, which follows from the entries. */
    ...createKeyTreeReader({ listChanges: listKeyChanges, read, stored: keyPieces }),
    /**
     * Yields every entry from `fromId` to `toId`, ascending, in pages of up to 2,000; `toId` may lie ahead of
     * the ledger. The next page is fetched while one is used.
     */
    async *pages(fromId: number, toId?: number, session?: Session): AsyncGenerator<EntryRecord[]> {
      let next = list(fromId, PAGE_ENTRIES, toId, session)
      for (;;) {
        const page = await next
        const last = page.at(-1)
        if (last === undefined) return
        if (page.length < PAGE_ENTRIES) {
          yield page
          return
        }
        next = list(last._id + 1, PAGE_ENTRIES, toId, session)
        next.catch(() => {}) // the next round awaits it and rethrows, unless the reader stops before
        yield page
      }
    },
    /** Whether any record has a durable pending entry: one query over all collections. */
    async hasPending(): Promise<boolean> {
      const firstPending = [
        { $match: { 'pending.source': { $exists: true } } },
        { $limit: 1 },
        { $project: { _id: 1 } },
      ] satisfies PipelineStage[]
      const names = modelsWithPending(connection).map(({ collection }) => collection.collectionName)
      const others = names.slice(1).map((coll) => ({ $unionWith: { coll, pipeline: firstPending } }))
      const records = await connection
        .collection(names[0] ?? 'entries')
        .aggregate([...firstPending, ...others, { $limit: 1 }], MAJORITY)
        .toArray()
      return records.length > 0
    },
    /**
     * Every collection of this connection whose records carry pending entries, whichever feature defines it.
     */
    pendingCollections: (): PendingCollection[] => modelsWithPending(connection).map(createPendingCollection),
  }
}

export type EntryStore = ReturnType<typeof createEntryStore>

/** The models of this connection whose records can carry pending entries. */
const modelsWithPending = (connection: Connection): Model<unknown>[] =>
  Object.values(connection.models).filter(({ schema }) => carriesPendingEntries(schema))

/**
 * Creates what lists, finds and clears the pending entries of a model's records, past mongoose's casting.
 *
 * @throws TypeError if the collection has no index on the sources of its pending entries
 */
function createPendingCollection(model: Model<unknown>): PendingCollection {
  const { schema } = model
  if (!schema.indexes().some(([keys]) => Object.keys(keys)[0] === 'pending.source')) {
    throw new TypeError(
      `the collection "${model.collection.name}" has pending entries and not the index that finds them`,
    )
  }
  const raw = rawOf<PendingRecord>(model)
  return {
    name: raw.collectionName,
    list: (after, limit) =>
      // The index gives the order: a sort on an array field would sort in memory. Nothing relies on it for
      // correctness.
      raw
        .find(
          { 'pending.source': { $gt: after } },
          { ...MAJORITY, projection: { pending: 1 }, hint: { 'pending.source': 1 }, batchSize: limit },
        )
        .limit(limit)
        .toArray(),
    async find(recordId) {
      const record = await raw.findOne({ _id: recordId }, { ...MAJORITY, projection: { pending: 1 } })
      return record?.pending ?? []
    },
    async clear(recordIds, sources) {
      await raw.updateMany(
        { _id: { $in: [...recordIds] } },
        { $pull: { pending: { source: { $in: [...sources] } } } },
      )
    },
  }
}
