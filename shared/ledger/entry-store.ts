import mongoose, { Schema, type Connection, type Model } from 'mongoose'
import { isDuplicateKey, within, type Session } from '../database.ts'
import type { EntryRecord } from './entry.ts'
import { isLedgered, type PendingEntry } from './pending.ts'

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const

/** What mongoose is told: the index definitions, and a `data` that it doesn't look into. */
type EntryDocument = Omit<EntryRecord, 'data'> & { data: object }

const entrySchema = new Schema<EntryDocument>(
  { _id: number, source: string, record: string, at: number, kind: string, data: { type: Schema.Types.Mixed, required: true } },
  { collection: 'entries', strict: 'throw', versionKey: false },
)
entrySchema.index({ source: 1 }, { unique: true })
entrySchema.index({ record: 1, _id: 1 })

/** A record with pending entries, as the sequencer sees it. */
export interface PendingRecord {
  _id: string
  pending: PendingEntry[]
}

/** One collection whose records carry pending entries. */
export interface PendingCollection {
  readonly name: string
  /**
   * Records that have a pending entry whose source is greater than `after`, by source, those alone that a majority has.
   *
   * @param after a source, or '' for the beginning
   */
  list(after: string, limit: number): Promise<PendingRecord[]>
  /** The pending entries of one record. */
  find(recordId: string): Promise<PendingEntry[]>
  /** Takes the entries with these sources out of these records. */
  clear(recordIds: readonly string[], sources: readonly string[]): Promise<void>
}

export interface EntryStore {
  /** The highest number that a majority has; 0 for an empty ledger. */
  highestId(session?: Session): Promise<number>
  /**
   * Inserts in the given order and stops at the first that it can't, so that of these entries always a first part is
   * stored. Resolves once a majority has them in its journal.
   *
   * @returns false where a number or a source was taken, which leaves open how many were stored
   */
  append(entries: readonly EntryRecord[]): Promise<boolean>
  /** Of the given sources, those whose entry a majority has. */
  findSources(sources: readonly string[]): Promise<Set<string>>
  findBySource(source: string): Promise<EntryRecord | undefined>
  find(id: number): Promise<EntryRecord | undefined>
  /** Ascending, from that number on. */
  list(fromId: number, limit: number): Promise<EntryRecord[]>
  /** Entries of one record, ascending: those after `after`, all that there are unless `limit` says how many. */
  listByRecord(record: string, after?: number, limit?: number): Promise<EntryRecord[]>
  /** Every entry from `fromId` to `toId` (which may lie ahead of the ledger), ascending, in pages of which the next is fetched while one is used. */
  pages(fromId: number, toId?: number, session?: Session): AsyncGenerator<EntryRecord[]>
  /** Every collection of this connection whose records carry pending entries, whoever added it. */
  pendingCollections(): PendingCollection[]
  readonly models: { entries: Model<EntryDocument> }
}

/** Entries fetched at once on a walk: less than 1 MB, and two pages are in memory at most. */
const PAGE_ENTRIES = 2_000

/**
 * What is read here leads to writes or is published, and neither may build on a write that an election can still take
 * back: only what a majority has is read.
 */
const MAJORITY = { readConcern: { level: 'majority' } } as const

export function createEntryStore(connection: Connection): EntryStore {
  const entries = connection.model<EntryDocument>('Entry', entrySchema)
  // Entries come by the thousand and are already in their stored form: the driver takes them as they are.
  const raw = () => entries.collection as unknown as mongoose.mongo.Collection<EntryRecord>
  const list = (fromId: number, limit: number, toId?: number, session?: Session) =>
    raw()
      .find({ _id: { $gte: fromId, ...(toId === undefined ? {} : { $lte: toId }) } }, { ...MAJORITY, ...within(session), batchSize: limit })
      .sort({ _id: 1 })
      .limit(limit)
      .toArray()

  return {
    models: { entries },
    async highestId(session) {
      const [last] = await raw()
        .find({}, { ...MAJORITY, ...within(session), projection: { _id: 1 } })
        .sort({ _id: -1 })
        .limit(1)
        .toArray()
      return last?._id ?? 0
    },
    async append(batch) {
      try {
        await raw().insertMany(batch as EntryRecord[], { ordered: true })
        return true
      } catch (error) {
        if (!(error instanceof mongoose.mongo.MongoBulkWriteError) || !isDuplicateKey(error)) throw error
        return false
      }
    },
    async findSources(sources) {
      const found = await raw()
        .find({ source: { $in: [...sources] } }, { ...MAJORITY, projection: { _id: 0, source: 1 } })
        .toArray()
      return new Set(found.map(({ source }) => source))
    },
    async findBySource(source) {
      return (await raw().findOne({ source }, MAJORITY)) ?? undefined
    },
    async find(id) {
      return (await raw().findOne({ _id: id }, MAJORITY)) ?? undefined
    },
    list: (fromId, limit) => list(fromId, limit),
    listByRecord: (record, after = 0, limit = 0) =>
      raw()
        .find({ record, _id: { $gt: after } }, MAJORITY)
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
    async *pages(fromId, toId, session) {
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
        next.catch(() => {}) // it is awaited, and fails, in the next round; unless the reader stops before
        yield page
      }
    },
    pendingCollections: () =>
      Object.values(connection.models)
        .filter(({ schema }) => isLedgered(schema))
        .map(openPending),
  }
}

function openPending(model: Model<unknown>): PendingCollection {
  const { schema } = model
  if (!schema.indexes().some(([keys]) => Object.keys(keys)[0] === 'pending.source')) {
    throw new TypeError(`the collection "${model.collection.name}" has pending entries and not the index that finds them`)
  }
  const raw = model.collection as unknown as mongoose.mongo.Collection<PendingRecord>
  return {
    name: raw.collectionName,
    list: (after, limit) =>
      // The index alone gives the order: a sort on an array field would sort in memory. No guard depends on it.
      raw
        .find(
          { 'pending.source': { $gt: after } },
          { ...MAJORITY, projection: { pending: 1 }, hint: { 'pending.source': 1 }, batchSize: limit },
        )
        .limit(limit)
        .toArray(),
    async find(recordId) {
      return (await raw.findOne({ _id: recordId }, { ...MAJORITY, projection: { pending: 1 } }))?.pending ?? []
    },
    async clear(recordIds, sources) {
      await raw.updateMany({ _id: { $in: [...recordIds] } }, { $pull: { pending: { source: { $in: [...sources] } } } })
    },
  }
}
