import { isDeepStrictEqual } from 'node:util'
import mongoose, { type Connection } from 'mongoose'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createModelCollection } from '../harness/simulation/collection.ts'
import { createRandom, type Random } from '../harness/simulation/random.ts'
import { ModelSession, ReplicaSet } from '../harness/simulation/replica-set.ts'
import { Schedule } from '../harness/simulation/schedule.ts'
import { isolate } from '../support/servers.ts'

const SEQUENCES = Number(process.env['MODEL_SEQUENCES'] ?? 12)
const STEPS = 30
const UNIQUE = { key: { k: 1 }, unique: true, partialFilterExpression: { k: { $exists: true } } } as const
const IDS = ['a', 'b', 'c', 'd', 'e']

let connection: Connection

beforeAll(async () => {
  connection = await mongoose.createConnection(isolate().mongodbUrl).asPromise()
  await connection.db?.collection('things').createIndexes([UNIQUE])
})
afterAll(async () => {
  await connection.dropDatabase()
  await connection.close()
})

type Call = [method: string, ...given: unknown[]]
/** The part of a collection that both sides have. */
type Collection = Record<string, (...given: unknown[]) => unknown>

/** One side of the comparison: MongoDB, or the model. */
interface Side {
  collection: Collection
  begin(): { session: object; commit(): Promise<unknown>; abort(): Promise<unknown> }
}

function openModel(seed: number): Side {
  const schedule = new Schedule(seed, Date.UTC(2026, 0, 1))
  schedule.isCalm = true
  const rates = { lost: 0, election: 0, elections: 0, rediscover: 1, replicate: 1 }
  const indexes = [{ paths: ['k'], filter: UNIQUE.partialFilterExpression }]
  const set = new ReplicaSet(schedule, rates, () => indexes)
  const process = schedule.createProcess('client')
  const inProcess = async <T>(work: () => Promise<T>): Promise<T> => {
    let outcome: Promise<T> | undefined
    void schedule.run(process, async () => {
      outcome = work()
      await outcome.catch(() => {})
    })
    while (await schedule.step());
    return outcome as Promise<T>
  }
  const made = createModelCollection(
    'things',
    () => ({ schedule, set }),
    () => ({ k: 1 }),
  )
  const collection = new Proxy(made, {
    get: (target, name: keyof typeof made) => {
      const method = target[name] as (...given: unknown[]) => { toArray?: () => Promise<unknown> }
      return (...given: unknown[]) =>
        inProcess(async () => {
          const answer = method(...given)
          return answer.toArray === undefined ? answer : answer.toArray()
        })
    },
  }) as unknown as Collection
  return {
    collection,
    begin() {
      const session = new ModelSession(false)
      session.isInTransaction = true
      return {
        session,
        commit: () => inProcess(() => set.commit(session)),
        abort: () => inProcess(async () => set.abort(session)),
      }
    },
  }
}

async function openMongo(): Promise<Side> {
  const things = connection.db?.collection('things')
  await things?.deleteMany({})
  return {
    collection: new Proxy(things as object, {
      get:
        (target, name: string) =>
        async (...given: unknown[]) => {
          const answer = await ((target as Collection)[name] as Collection[string]).apply(target, given)
          return typeof (answer as { toArray?: unknown } | null)?.toArray === 'function'
            ? (answer as { toArray(): Promise<unknown> }).toArray()
            : answer
        },
    }) as Collection,
    begin() {
      const session = connection.getClient().startSession()
      session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } })
      const end = (work: Promise<unknown>) => work.finally(() => void session.endSession())
      return {
        session,
        commit: () => end(session.commitTransaction()),
        abort: () => end(session.abortTransaction()),
      }
    },
  }
}

/** Makes calls that have one right answer: what could be any of several documents is named or sorted. */
function createCalls(random: Random) {
  const { below, chance, pick } = random
  const maybe = (given: object): object => (chance(0.5) ? given : {})
  const element = () => ({ to: pick(['x', 'y', 'z']), n: below(4) })
  const doc = (_id = pick(IDS)) => ({
    _id,
    ...maybe({ n: pick([0, 1, 2, 5, null, 'text']) }),
    ...maybe({ list: Array.from({ length: below(3) }, element) }),
    ...maybe({ tags: Array.from({ length: below(3) }, () => pick(['p', 'q', 'r'])) }),
    ...maybe({ k: pick([1, 2, 3, 4]) }),
    ...maybe({ at: new Date(below(5) * 1_000) }),
    ...maybe({ bytes: Buffer.from([below(3)]) }),
  })
  const operand = () => pick([0, 1, 2, 5, 'text', null])
  const condition = (): object =>
    pick([
      () => ({ n: operand() }),
      () => ({ n: { [pick(['$gt', '$gte', '$lt', '$lte', '$ne', '$eq'])]: operand() } }),
      () => ({ [pick(['n', 'list.n'])]: { $not: { [pick(['$gt', '$lte'])]: below(4) } } }),
      () => ({ n: { [pick(['$in', '$nin'])]: [operand(), operand()] } }),
      () => ({ [pick(['n', 'list', 'k', 'list.0', 'list.to'])]: { $exists: chance(0.5) } }),
      () => ({ 'list.to': pick(['x', { $gt: 'x' }, { $in: ['y', 'z'] }, { $ne: 'x' }]) }),
      () => ({ tags: pick(['p', { $ne: 'q' }, ['p'], { $in: ['r'] }]) }),
      () => ({ [pick(['$or', '$and'])]: [{ n: operand() }, { k: { $gt: below(4) } }] }),
      () => ({ at: { $lte: new Date(below(5) * 1_000) } }),
      () => ({ _id: { $regex: '^[a-c]' } }),
      () => ({}),
    ])()
  const update = (): unknown =>
    pick<() => unknown>([
      () => ({ $set: { n: operand(), ...maybe({ k: below(5) }) } }),
      () => ({ $inc: { k: 1 } }),
      () => ({ $unset: { [pick(['n', 'list', 'k'])]: 1 } }),
      () => ({ $push: { list: element() }, $set: { s: 's' } }),
      () => ({ $push: { list: { $each: [element(), element()] } } }),
      () => ({
        $pull: { list: pick<object>([{ to: 'x' }, { to: { $in: ['x', 'y'] } }, { n: { $gt: 1 } }]) },
      }),
      () => ({ $addToSet: { tags: pick(['p', 'q', 'r']) } }),
      () => ({ $set: { s: 't' }, $setOnInsert: { n: 1 } }),
      () => [
        { $set: { m: { $cond: [{ $eq: ['$k', 1] }, { $ifNull: ['$n', 'none'] }, '$k'] } } },
        { $unset: 'n' },
      ],
      () => [{ $set: { tags: { $concatArrays: [{ $ifNull: ['$tags', []] }, ['w']] } } }],
      () => [{ $set: { isOld: { $and: [{ $lt: ['$at', '$$NOW'] }, { $not: [{ $eq: ['$k', 2] }] }] } } }],
    ])()
  const named = () => ({ ...maybe(condition()), _id: pick(IDS) })
  const reads: (() => Call)[] = [
    () => [
      'find',
      condition(),
      { sort: { _id: pick([1, -1]) }, ...maybe({ limit: 2 }), ...maybe({ projection: { n: 1 } }) },
    ],
    () => ['find', {}, { sort: { n: pick([1, -1]), _id: 1 }, projection: { list: 0 } }],
    () => ['findOne', named(), {}],
    () => ['countDocuments', condition(), {}],
    () => [
      'aggregate',
      [
        { $match: condition() },
        { $sort: { _id: 1 } },
        { $limit: 3 },
        { $project: { to: '$list.to', which: { $literal: 'w' } } },
      ],
      {},
    ],
    () => [
      'aggregate',
      [
        { $match: { k: { $gt: 0 } } },
        { $group: { _id: '$n', sum: { $sum: '$k' }, count: { $sum: 1 } } },
        { $sort: { _id: 1 } },
      ],
      {},
    ],
  ]
  const writes: (() => Call)[] = [
    () => ['insertOne', doc(), {}],
    () => ['insertMany', [doc(), doc(), doc()], { ordered: chance(0.5) }],
    () => ['updateOne', named(), update(), {}],
    () => [
      'updateOne',
      { _id: pick(IDS), k: { $lt: below(4) } },
      { $set: { k: 4, s: 'up' } },
      { upsert: true },
    ],
    () => [
      'updateMany',
      condition(),
      pick([{ $set: { s: 'all' } }, { $pull: { list: { to: 'y' } } }, { $unset: { k: 1 } }]),
      {},
    ],
    () => ['replaceOne', { _id: pick(IDS) }, { n: below(3), k: below(5) }, { upsert: chance(0.5) }],
    () => ['deleteOne', { _id: pick(IDS) }, {}],
    () => ['findOneAndUpdate', named(), update(), { returnDocument: pick(['before', 'after']) }],
    () => [
      'bulkWrite',
      [
        { updateOne: { filter: named(), update: { $inc: { k: 1 } } } },
        { replaceOne: { filter: { _id: 'b' }, replacement: { n: 1 }, upsert: true } },
      ],
      { ordered: chance(0.5) },
    ],
  ]
  return {
    read: () => pick(reads)(),
    write: () => pick(writes)(),
  }
}

/** What a call came to, in a form in which both sides can be compared. */
async function outcomeOf(work: unknown): Promise<unknown> {
  try {
    return plain(await work)
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (typeof code !== 'number') throw error
    return { code }
  }
}

const NOT_COMPARED = new Set(['acknowledged', 'insertedIds', 'insertedId', 'mongoose', 'upsertedId'])

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (value?.constructor.name === 'BulkWriteResult') {
    const { matchedCount, modifiedCount, upsertedCount } = value as mongoose.mongo.BulkWriteResult
    return { matchedCount, modifiedCount, upsertedCount }
  }
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (value instanceof mongoose.mongo.Binary) return Buffer.from(value.buffer).toString('hex')
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).filter(([name]) => !NOT_COMPARED.has(name))
  return Object.fromEntries(
    fields.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, field]) => [name, plain(field)]),
  )
}

/** Plays one random sequence on both sides, comparing after each call. */
async function compare(seed: number): Promise<void> {
  const random = createRandom(seed)
  const calls = createCalls(random)
  const sides = [await openMongo(), openModel(seed)] as const
  const steps: unknown[] = []
  const both = async (what: unknown, call: (side: Side, place: 0 | 1) => unknown): Promise<unknown> => {
    steps.push(what)
    const stored = await outcomeOf(call(sides[0], 0))
    const modelled = await outcomeOf(call(sides[1], 1))
    if (!isDeepStrictEqual(modelled, stored) && !isEitherOf(what, stored, modelled))
      throw new Error(
        `seed ${seed}, step ${steps.length}: ${JSON.stringify(what)}\n  MongoDB ${JSON.stringify(stored)}\n  model   ${JSON.stringify(modelled)}`,
      )
    return stored
  }
  const perform = ([method, ...given]: Call, sessions?: readonly object[]) =>
    both({ in: sessions === undefined ? 'none' : 'transaction', method, given }, (side, place) => {
      const options = {
        ...(given.at(-1) as object),
        ...(sessions === undefined ? {} : { session: sessions[place] }),
      }
      // Each side gets values of its own.
      return side.collection[method]?.(...copies(given.slice(0, -1)), options)
    })
  const open: { sessions: ReturnType<Side['begin']>[] }[] = []
  const end = async (one: (typeof open)[number], how: 'commit' | 'abort') => {
    open.splice(open.indexOf(one), 1)
    await both(how, (_, place) => one.sessions[place]?.[how]().then(() => 'done'))
  }
  const playSteps = async (): Promise<void> => {
    for (let step = 0; step < STEPS; step++) {
      const one = open.length > 0 && random.chance(0.7) ? random.pick(open) : undefined
      if (one !== undefined && random.chance(0.2)) await end(one, random.chance(0.8) ? 'commit' : 'abort')
      else if (one !== undefined) {
        const outcome = await perform(
          random.chance(0.6) ? calls.write() : calls.read(),
          one.sessions.map(({ session }) => session),
        )
        if (typeof (outcome as { code?: unknown } | null)?.code === 'number') await end(one, 'abort')
      } else if (open.length < 2 && random.chance(0.3)) {
        const sessions = sides.map((side) => side.begin())
        open.push({ sessions })
        // Now, and not with its first write, its snapshot is taken.
        await perform(
          ['find', {}, { sort: { _id: 1 } }],
          sessions.map(({ session }) => session),
        )
      } else await perform(random.chance(0.5) || open.length > 0 ? calls.read() : calls.write())
    }
    for (const one of [...open]) await end(one, 'commit')
    await perform(['find', {}, { sort: { _id: 1 } }])
  }
  try {
    await playSteps()
  } finally {
    // What is left open would be in the way of the next sequence.
    for (const { sessions } of open) await sessions[0]?.abort()
  }
}

/**
 * In a transaction that an insert of several ends, a duplicate or a conflict may be named if there are both.
 */
const isEitherOf = (what: unknown, ...outcomes: unknown[]): boolean =>
  JSON.stringify(what).startsWith('{"in":"transaction","method":"insertMany"') &&
  outcomes.every((outcome) => [112, 11_000].includes((outcome as { code: number }).code))

const copies = (given: readonly unknown[]): unknown[] => given.map((one) => structuredCopy(one))

function structuredCopy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(structuredCopy)
  if (value instanceof Date || value instanceof Uint8Array || typeof value !== 'object' || value === null)
    return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, structuredCopy(field)]))
}

it('answers as MongoDB does, to random calls in and outside of transactions', async () => {
  const first = Number(process.env['MODEL_SEED'] ?? 1)
  const different: string[] = []
  for (let seed = first; seed < first + SEQUENCES; seed++)
    await compare(seed).catch((error: unknown) => different.push(String(error)))
  expect(different).toEqual([])
})
