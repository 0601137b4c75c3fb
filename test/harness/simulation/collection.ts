/* oxlint-disable require-yield -- a read is a single step */
import { duplicateKey, bulkError } from './errors.ts'
import { aggregate } from './expression.ts'
import { bySort, compareValues, copy, matches, NotModelled, project, valuesAt, type Doc } from './query.ts'
import { keyOf, type ModelSession, type Operation, type ReplicaSet, type View } from './replica-set.ts'
import type { Schedule } from './schedule.ts'
import { applyUpdate, upsertBase } from './update.ts'

/** Where the operations of a collection go: to the schedule that is being run. */
export interface Server {
  schedule: Schedule
  set: ReplicaSet
}

interface Options {
  session?: ModelSession
  readConcern?: { level: 'local' | 'majority' | 'linearizable' | 'snapshot' }
  projection?: Record<string, unknown>
  sort?: Record<string, number>
  limit?: number
  hint?: string | Record<string, number>
  upsert?: boolean
  returnDocument?: 'before' | 'after'
  ordered?: boolean
}
type Update = Doc | readonly Doc[]
type Steps<T> = Generator<'wait' | undefined, T, void>

/** Options that the model knows, and those that change nothing in it. */
const KNOWN = 'session readConcern projection sort limit hint upsert returnDocument ordered'.split(' ')
const WITHOUT_EFFECT = 'readPreference batchSize promoteBuffers maxTimeMS lean'.split(' ')

/** A collection as the driver gives it to the stores. What isn't here isn't modelled, so its call throws. */
export function createModelCollection(
  name: string,
  server: () => Server,
  indexKey: (name: string) => Record<string, number>,
) {
  const nowMs = () => server().schedule.nowMs
  function perform<T>(
    what: string,
    options: Options,
    isWrite: boolean,
    work: Operation<T>['work'],
  ): Promise<T> {
    for (const option of Object.keys(options))
      if (!KNOWN.includes(option) && !WITHOUT_EFFECT.includes(option))
        throw new NotModelled(`the option ${option} of ${what}`)
    const level = options.readConcern?.level ?? 'local'
    if (level === 'snapshot') throw new NotModelled('a snapshot outside of a transaction')
    const { session } = options
    return server().set.perform({ what: `${name}.${what}`, session, concern: level, isWrite, work })
  }

  /** The documents that match, in any order unless one is asked for. */
  function select(view: View, filter: Doc, { sort, limit = 0, hint, projection }: Options): Doc[] {
    let found = [...view.rows(name).values()].filter((doc) => matches(doc, filter))
    const { random } = server().schedule
    if (sort !== undefined || hint === undefined)
      for (let place = found.length - 1; place > 0; place--) {
        const other = random.below(place + 1)
        ;[found[place], found[other]] = [found[other] as Doc, found[place] as Doc]
      }
    if (sort !== undefined) found.sort(bySort(sort))
    else if (hint !== undefined)
      found = inIndexOrder(found, filter, typeof hint === 'string' ? indexKey(hint) : hint)
    if (limit > 0) found = found.slice(0, limit)
    return found.map((doc) => copy(project(doc, projection)))
  }

  /**
   * Replaces the first document that matches by what `makeAfter` gives, or deletes it if that is undefined,
   * as soon as no transaction holds it. @returns undefined if none matches
   */
  function* change(
    view: View,
    filter: Doc,
    makeAfter: (doc: Doc) => Doc | undefined,
    isReplaced = false,
  ): Steps<{ before: Doc; after: Doc | undefined; isModified: boolean } | undefined> {
    for (;;) {
      const [before] = select(view, filter, { limit: 1 })
      if (before === undefined) return undefined
      const key = keyOf(before['_id'])
      const after = makeAfter(before)
      // A replacement is written even if nothing in it is new.
      const isModified = isReplaced || JSON.stringify(after) !== JSON.stringify(before)
      if (view.isLocked(name, key, after)) yield 'wait'
      else {
        if (isModified) view.write(name, key, after)
        return { before, after, isModified }
      }
    }
  }

  function* insert(view: View, doc: Doc): Steps<void> {
    const key = keyOf(doc['_id'])
    if (doc['_id'] === undefined) throw new NotModelled('an insert without _id')
    while (view.isLocked(name, key, doc)) yield 'wait'
    if (view.rows(name).has(key)) throw duplicateKey(name, { _id: doc['_id'] })
    view.write(name, key, copy(doc))
  }

  function* updateFirst(view: View, filter: Doc, update: Update, { upsert = false }: Options) {
    const changed = yield* change(view, filter, (doc) => applyUpdate(doc, update, nowMs()))
    if (changed !== undefined)
      return {
        ...changed,
        result: {
          acknowledged: true,
          matchedCount: 1,
          modifiedCount: changed.isModified ? 1 : 0,
          upsertedCount: 0,
          upsertedId: null,
        },
      }
    if (!upsert) return { before: undefined, after: undefined, result: { ...NOTHING_CHANGED } }
    const after = applyUpdate(upsertBase(filter), update, nowMs(), true)
    yield* insert(view, after)
    return {
      before: undefined,
      after,
      result: { ...NOTHING_CHANGED, upsertedCount: 1, upsertedId: after['_id'] },
    }
  }

  function* replace(view: View, filter: Doc, replacement: Doc, { upsert = false }: Options) {
    const changed = yield* change(view, filter, ({ _id }) => ({ _id, ...copy(replacement) }), true)
    if (changed !== undefined)
      return { ...NOTHING_CHANGED, matchedCount: 1, modifiedCount: changed.isModified ? 1 : 0 }
    if (!upsert) return { ...NOTHING_CHANGED }
    yield* insert(view, { _id: filter['_id'], ...replacement })
    return { ...NOTHING_CHANGED, upsertedCount: 1 }
  }

  /** Performs writes one after the other; in a transaction the first refusal ends it. */
  function* each<T>(
    view: View,
    writes: readonly ((view: View) => Steps<T>)[],
    { ordered = true, session }: Options,
  ): Steps<T[]> {
    const done: T[] = []
    const failed: { index: number; error: Error }[] = []
    for (const [index, write] of writes.entries()) {
      try {
        done.push(yield* write(view))
      } catch (error) {
        if (!isRefusal(error) || (session?.isInTransaction === true && error.code !== 11_000)) throw error
        failed.push({ index, error })
        if (ordered || session?.isInTransaction === true) break
      }
      yield undefined
    }
    if (failed.length > 0) throw bulkError(failed)
    return done
  }

  const cursor = (read: (options: Options) => Promise<Doc[]>, options: Options) => ({
    sort: (sort: Record<string, number>) => cursor(read, { ...options, sort }),
    limit: (limit: number) => cursor(read, { ...options, limit }),
    project: (projection: Record<string, unknown>) => cursor(read, { ...options, projection }),
    toArray: () => read(options),
    next: async () => (await read({ ...options, limit: 1 }))[0] ?? null,
    async *[Symbol.asyncIterator]() {
      yield* await read(options)
    },
  })

  return {
    collectionName: name,
    find: (filter: Doc = {}, given: Options = {}) =>
      cursor(
        (options) =>
          perform('find', options, false, function* (view) {
            return select(view, filter, options)
          }),
        given,
      ),
    findOne: (filter: Doc, options: Options = {}) =>
      perform('findOne', options, false, function* (view) {
        return select(view, filter, { ...options, limit: 1 })[0] ?? null
      }),
    aggregate(stages: readonly Doc[], options: Options = {}) {
      const read = () =>
        perform('aggregate', options, false, function* (view) {
          const rowsOf = (collection: string) => [...view.rows(collection).values()]
          return copy(aggregate(rowsOf(name), stages, rowsOf, nowMs()))
        })
      return { toArray: read }
    },
    countDocuments: (filter: Doc, options: Options = {}) =>
      perform('countDocuments', options, false, function* (view) {
        return select(view, filter, {}).length
      }),
    insertOne: (doc: Doc, options: Options = {}) =>
      perform('insertOne', options, true, function* (view) {
        yield* insert(view, doc)
        return { acknowledged: true, insertedId: doc['_id'] }
      }),
    insertMany: (docs: readonly Doc[], options: Options = {}) =>
      perform('insertMany', options, true, function* (view) {
        yield* each(
          view,
          docs.map((doc) => (one) => insert(one, doc)),
          options,
        )
        return {
          acknowledged: true,
          insertedCount: docs.length,
          insertedIds: docs.map(({ _id }) => _id),
          mongoose: {},
        }
      }),
    updateOne: (filter: Doc, update: Update, options: Options = {}) =>
      perform('updateOne', options, true, function* (view) {
        return (yield* updateFirst(view, filter, update, options)).result
      }),
    replaceOne: (filter: Doc, replacement: Doc, options: Options = {}) =>
      perform('replaceOne', options, true, function* (view) {
        return yield* replace(view, filter, replacement, options)
      }),
    findOneAndUpdate: (filter: Doc, update: Update, options: Options = {}) =>
      perform('findOneAndUpdate', options, true, function* (view) {
        const { before, after } = yield* updateFirst(view, filter, update, options)
        const given = options.returnDocument === 'after' ? after : before
        return given === undefined ? null : copy(project(given, options.projection))
      }),
    updateMany: (filter: Doc, update: Update, options: Options = {}) =>
      perform('updateMany', options, true, function* (view) {
        const result = { ...NOTHING_CHANGED }
        for (const { _id } of select(view, filter, {})) {
          const changed = yield* change(view, { $and: [{ _id }, filter] }, (doc) =>
            applyUpdate(doc, update, nowMs()),
          )
          if (changed !== undefined) result.matchedCount++
          if (changed?.isModified === true) result.modifiedCount++
          yield undefined
        }
        return result
      }),
    deleteOne: (filter: Doc, options: Options = {}) =>
      perform('deleteOne', options, true, function* (view) {
        return {
          acknowledged: true,
          deletedCount: (yield* change(view, filter, () => undefined)) === undefined ? 0 : 1,
        }
      }),
    bulkWrite: (writes: readonly BulkWrite[], options: Options = {}) =>
      perform('bulkWrite', options, true, function* (view) {
        /** For each write, what performs it on a view and gives its counts. */
        const steps = writes.map(
          (write) =>
            function* (one: View): Steps<typeof NOTHING_CHANGED> {
              const [[kind, given] = ['', undefined], ...more] = Object.entries(write)
              if (given === undefined || more.length > 0) throw new NotModelled('a write of several kinds')
              const { filter, update = {}, replacement = {}, upsert = false } = given
              if (kind === 'updateOne') return (yield* updateFirst(one, filter, update, { upsert })).result
              if (kind === 'replaceOne') return yield* replace(one, filter, replacement, { upsert })
              throw new NotModelled(`a bulk ${kind}`)
            },
        )
        const results = yield* each(view, steps, options)
        const sum = (count: 'matchedCount' | 'modifiedCount' | 'upsertedCount') =>
          results.reduce((total, result) => total + result[count], 0)
        return {
          matchedCount: sum('matchedCount'),
          modifiedCount: sum('modifiedCount'),
          upsertedCount: sum('upsertedCount'),
        }
      }),
  }
}

type BulkWrite = Record<string, { filter: Doc; update?: Update; replacement?: Doc; upsert?: boolean }>

const NOTHING_CHANGED = {
  acknowledged: true,
  matchedCount: 0,
  modifiedCount: 0,
  upsertedCount: 0,
  upsertedId: null as unknown,
}

const isRefusal = (error: unknown): error is Error & { code: number } =>
  error instanceof Error && typeof (error as { code?: unknown }).code === 'number'

/** The order in which an index gives documents: each once, at its lowest key that the filter takes. */
function inIndexOrder(docs: readonly Doc[], filter: Doc, key: Readonly<Record<string, number>>): Doc[] {
  const keyAt = (doc: Doc, path: string) =>
    valuesAt(doc, path)
      .filter((value) => !Array.isArray(value) && matches({ value }, { value: filter[path] }))
      .sort(compareValues)[0]
  const order = (a: Doc, b: Doc): number => {
    for (const path of Object.keys(key)) {
      const before = compareValues(keyAt(a, path), keyAt(b, path))
      if (before !== 0) return before
    }
    return 0
  }
  return [...docs].sort(order)
}
