import type mongoose from 'mongoose'
import type { Model, Query, QueryFilter, UpdateQuery } from 'mongoose'
import { within, type Session } from './database.ts'

export interface Reading {
  fields?: Readonly<Record<string, 0 | 1>>
  sort?: Readonly<Record<string, 1 | -1>>
  limit?: number
  session?: Session | undefined
  /** Read from the primary, with majority: nothing that an election can take back. */
  isLasting?: boolean
}

/** A collection as MongoDB's driver has it, for what is asked too often to go through mongoose. */
export const rawOf = <Stored extends mongoose.mongo.Document>(model: Pick<Model<Stored>, 'collection'>) =>
  model.collection as unknown as mongoose.mongo.Collection<Stored>

/** The reads and writes that stores need of one collection, whose records they get as plain objects. */
export function recordsOf<Stored>(model: Model<Stored>) {
  const read = <Found>(query: unknown, { sort, limit, isLasting = false }: Reading): Promise<Found> => {
    const wanted = query as Query<Found, Stored>
    if (sort !== undefined) wanted.sort(sort)
    // In one answer: without the size of it, the server sends 101 records and is asked for the others.
    if (limit !== undefined) wanted.limit(limit).batchSize(limit)
    if (isLasting) wanted.read('primary').readConcern('majority')
    return wanted.exec()
  }
  const optionsOf = ({ session }: Reading) => ({ ...within(session), lean: true }) as const
  return {
    model,
    /** The first record that matches the filter; undefined if there is none. */
    async one<Found = Stored>(
      filter: QueryFilter<Stored>,
      reading: Reading = {},
    ): Promise<Found | undefined> {
      const query = model.findOne(filter, reading.fields ?? null, optionsOf(reading))
      return (await read<Found | null>(query, reading)) ?? undefined
    },
    /** The records that match the filter, up to `reading.limit`. */
    all: <Found = Stored>(filter: QueryFilter<Stored>, reading: Reading = {}): Promise<Found[]> =>
      read<Found[]>(model.find(filter, reading.fields ?? null, optionsOf(reading)), reading),
    async insert(records: readonly Stored[], session?: Session): Promise<void> {
      if (records.length > 0) await model.insertMany([...records], { ...within(session), lean: true })
    },
    /** One conditional update. @returns false if no record matches the filter */
    async change(
      filter: QueryFilter<Stored>,
      update: UpdateQuery<Stored>,
      session?: Session,
    ): Promise<boolean> {
      return (await model.updateOne(filter, update, within(session))).matchedCount === 1
    },
    /** Updates a record, or inserts it if none matches the filter. */
    async put(filter: QueryFilter<Stored>, update: UpdateQuery<Stored>, session?: Session): Promise<void> {
      await model.updateOne(filter, update, { ...within(session), upsert: true })
    },
    /** Updates every record that matches the filter. @returns how many the update has changed */
    async changeAll(
      filter: QueryFilter<Stored>,
      update: UpdateQuery<Stored>,
      session?: Session,
    ): Promise<number> {
      return (await model.updateMany(filter, update, within(session))).modifiedCount
    },
    /** Updates one record. @returns the record as it was before; undefined if none matches the filter */
    async swap(
      filter: QueryFilter<Stored>,
      update: UpdateQuery<Stored>,
      session?: Session,
    ): Promise<Stored | undefined> {
      const before = await model.findOneAndUpdate(filter, update, { ...within(session), lean: true })
      return (before as Stored | null) ?? undefined
    },
  }
}

/** What recordsOf() gives for one collection. */
export type Records<Stored> = ReturnType<typeof recordsOf<Stored>>

/**
 * Yields page after page of records, by ascending ids, until one is empty, or has fewer records than `size`.
 *
 * @param read reads the next page after an id; '' for the first page
 * @param size of a full page; if absent, only an empty page is known to be the last
 */
export async function* pagesOf<Stored extends { _id: string }>(
  read: (after: string) => Promise<Stored[]>,
  size = 1,
) {
  let after: string | undefined = ''
  while (after !== undefined) {
    const page: Stored[] = await read(after)
    if (page.length > 0) yield page
    after = page.length < size ? undefined : page.at(-1)?._id
  }
}
