import mongoose, { type Model } from 'mongoose'
import { omitUndefined } from './omit-undefined.ts'
import { DUPLICATE_KEY, isDuplicateKey, isOutage } from './database.ts'
import { none } from './fields.ts'
import { createGroups } from './group-commit.ts'
import { rawOf } from './records.ts'

/** An addition to counts of one document, made only if each of them is at most its bound afterwards. */
export interface Addition {
  _id: string
  add: Readonly<Record<string, number>>
  atMost: Readonly<Record<string, number>>
  /** Other fields to set with it. */
  set?: Readonly<Record<string, unknown>>
  /** Made only if the document has no such field. */
  unless?: string
}

/**
 * Creates a function that adds to the counts of a document, together with other additions that wait. It
 * returns false, and adds nothing, if a count would exceed its bound. Each addition is one conditional
 * update, so no two of them get past a bound, whichever processes they come from. A document that does not
 * exist begins with all its counts at 0; if it exists and has no room, its upsert fails on `_id`.
 *
 * The primary alone acknowledges: the write that a count protects comes after it and waits for the majority,
 * and a count that a killed primary forgets only lets that much more through.
 */
export function createBoundedCounts<Stored extends { _id: string }>(
  model: Model<Stored>,
  patienceMs: number,
): (addition: Addition) => Promise<boolean> {
  const counts = () => rawOf<Stored>(model)
  return createGroups(
    async (group: Addition[]) => {
      const byId = [...Map.groupBy(group, ({ _id }) => _id).values()]
      const refused = new Set<Addition>()
      for (const additions of await addTogether(counts(), byId))
        for (const addition of await addSome(counts(), additions)) refused.add(addition)
      return group.map((addition) => ({ status: 'fulfilled', value: !refused.has(addition) }))
    },
    { patienceMs, keysOf: ({ _id }) => [_id] },
  )
}

/**
 * Adds all additions of a document at once, to those documents that have room for them.
 *
 * @returns the additions of the other documents
 */
async function addTogether<Stored extends { _id: string }>(
  counts: mongoose.mongo.Collection<Stored>,
  byId: readonly Addition[][],
): Promise<readonly Addition[][]> {
  const small = byId.filter((additions) => isWithinBounds(sumOf(additions)))
  const large = byId.filter((additions) => !small.includes(additions))
  if (small.length === 0) return large
  try {
    const updates = small.map((additions) => ({
      updateOne: { ...conditional<Stored>(sumOf(additions)), upsert: true },
    }))
    await counts.bulkWrite(updates, { ordered: false, ...ONE_ACKNOWLEDGES })
    return large
  } catch (error) {
    if (isOutage(error) || !(error instanceof mongoose.mongo.MongoBulkWriteError)) throw error
    const failures = [error.writeErrors].flat()
    if (failures.length === 0 || failures.some(({ code }) => code !== DUPLICATE_KEY)) throw error
    return [...large, ...failures.map(({ index }) => small[index] ?? [])]
  }
}

/**
 * Adds all of one document's additions, or, if there is no room for all, each that there is room for.
 *
 * @returns the additions without room
 */
async function addSome<Stored extends { _id: string }>(
  counts: mongoose.mongo.Collection<Stored>,
  additions: readonly Addition[],
): Promise<readonly Addition[]> {
  if (await addOne(counts, sumOf(additions))) return []
  if (additions.length === 1) return additions
  const refused: Addition[] = []
  for (const addition of additions) if (!(await addOne(counts, addition))) refused.push(addition)
  return refused
}

/** Adds to one document. @returns false if there is no room */
async function addOne<Stored extends { _id: string }>(
  counts: mongoose.mongo.Collection<Stored>,
  addition: Addition,
): Promise<boolean> {
  if (!isWithinBounds(addition)) return false
  const { filter, update } = conditional<Stored>(addition)
  try {
    await counts.updateOne(filter, update, { upsert: true, ...ONE_ACKNOWLEDGES })
    return true
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    // There is no room, or another process has made the document meanwhile.
    return (await counts.updateOne(filter, update, ONE_ACKNOWLEDGES)).matchedCount === 1
  }
}

/**
 * Whether an addition fits into an empty document: for one that does not exist yet, the update cannot check
 * that.
 */
const isWithinBounds = ({ add, atMost }: Addition): boolean =>
  Object.entries(add).every(([name, by]) => by <= (atMost[name] ?? 0))

/** Combines several additions to one document, with equal bounds, into one. */
function sumOf(additions: readonly Addition[]): Addition {
  const [first, ...others] = additions as readonly [Addition, ...Addition[]]
  const add: Record<string, number> = { ...first.add }
  for (const other of others)
    for (const [name, by] of Object.entries(other.add)) add[name] = (add[name] ?? 0) + by
  return { ...first, add }
}

const ONE_ACKNOWLEDGES = { writeConcern: { w: 1 } } as const

/** The update of an addition, with the filter that matches only a document with room for it. */
function conditional<Stored>({ _id, add, atMost, set, unless }: Addition) {
  const bounds = Object.entries(add).map(([name, by]) => [name, { $not: { $gt: (atMost[name] ?? 0) - by } }])
  const filter = {
    _id,
    ...Object.fromEntries(bounds),
    ...(unless === undefined ? {} : { [unless]: none }),
  }
  const update = { $inc: add, ...omitUndefined({ $set: set }) }
  return {
    filter: filter as mongoose.mongo.Filter<Stored>,
    update: update as mongoose.mongo.UpdateFilter<Stored>,
  }
}
