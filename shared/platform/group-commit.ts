import mongoose from 'mongoose'
import { isOutage, tookTooLong } from './database.ts'
import { Refusal } from './errors.ts'
import { REQUEST_TIMEOUT_MS } from './limits.ts'
import { currentSignal, runInScope } from './scope.ts'
import { inSpan } from './tracing.ts'

/*
 * What arrives together goes to the database together.
 *
 * A *group* is what came while there was no turn for it. A turn is taken as soon as one is free, after
 * everything that has arrived with the first item, so that nothing waits on an idle service for company that
 * may not come; under load groups grow by themselves. What holds for an item alone holds for it in a group:
 *
 *   - It is answered when its own group has been performed, and the group begins after the item came. So a
 *     write is acknowledged when the database has acknowledged it, and a read sees every write that was
 *     acknowledged before it was asked for, by whichever process.
 *   - It fails alone: each item has an outcome of its own. An error of the group itself (the database is
 *     away) leaves open what was stored, for each of them, as it does for one.
 *
 * A database that takes a group and falls silent doesn't hold up the next one for longer than a request may
 * take. What waited that long, or whose request is over, is not begun any more: its caller has been told that
 * the service is unavailable.
 */

export interface GroupOptions<Item> {
  maxItems?: number
  /** Groups under way at once. */
  atOnce?: number
  /** What has waited this long for its turn is refused; waits without end if absent. */
  patienceMs?: number
  /**
   * What an item is about. Of two groups under way at once, no item of the one shares a key with one of the
   * other.
   */
  keysOf?: (item: Item) => readonly string[]
  /**
   * Runs a group when there is room for it; what comes until then belongs to the group. Given the item that
   * came first.
   */
  enter?: (first: Item, run: () => Promise<void>) => Promise<void>
  /** The name of a span from an item's coming to its outcome. */
  span?: string
}

/** What became of each item, in the order of the items. */
export type Outcomes<Result> = readonly PromiseSettledResult<Result>[]

interface Waiting<Item, Result> {
  item: Item
  keys: readonly string[]
  sinceMs: number
  wanted: AbortSignal | undefined
  resolve(result: Result): void
  reject(error: unknown): void
}

/**
 * Large enough that a command's own cost is little beside it, small enough for one message of the largest
 * items.
 */
const MAX_ITEMS = 250
const AT_ONCE = 4
const NO_KEYS: readonly string[] = []

/**
 * Creates a function that performs an item together with others that wait at that moment, and returns its
 * result. It throws the item's error, or a Refusal if the item has waited too long or its request is over.
 *
 * @param perform performs a group and gives an outcome for each item; if it throws, its error is every item's
 */
export function createGroups<Item, Result>(
  perform: (items: Item[]) => Promise<Outcomes<Result>>,
  options: GroupOptions<Item> = {},
): (item: Item) => Promise<Result> {
  const { maxItems = MAX_ITEMS, atOnce = AT_ONCE, patienceMs = Number.POSITIVE_INFINITY } = options
  const { keysOf, enter } = options
  const keysUnderWay = new Set<string>()
  let waiting: Waiting<Item, Result>[] = []
  let underWay = 0
  let isDue = false
  let isEntering = false

  /** Begins as many groups as may be under way. */
  function begin(): void {
    isDue = false
    if (enter !== undefined) return void enterNext(enter)
    const nowMs = performance.now()
    while (waiting.length > 0 && underWay < atOnce) {
      const before = waiting.length
      const group = takeGroup(nowMs)
      if (group.length > 0) void performGroup(group)
      // Those that are left wait for a group that is under way; its end begins the next.
      else if (waiting.length === before) return
    }
  }

  /** Performs a group when it may enter, unless one waits for that already. */
  async function enterNext(mayEnter: NonNullable<typeof enter>): Promise<void> {
    const [first] = waiting
    if (first === undefined || isEntering || underWay >= atOnce) return
    isEntering = true
    await mayEnter(first.item, async () => {
      isEntering = false
      const group = takeGroup(performance.now())
      if (group.length > 0) await performGroup(group)
    })
  }

  /**
   * Takes the next group off the line: those that are first and share no key with what is under way. What has
   * waited for too long, or whose request is over, is taken off too, and refused.
   */
  function takeGroup(nowMs: number): Waiting<Item, Result>[] {
    const group = keysOf === undefined ? waiting.splice(0, maxItems) : takeFree()
    return group.filter((one) => {
      const isFresh = nowMs - one.sinceMs < patienceMs && one.wanted?.aborted !== true
      if (!isFresh) one.reject(one.wanted?.aborted === true ? one.wanted.reason : tookTooLong())
      return isFresh
    })
  }

  /** Takes those off the line that are first and share no key with what is under way. */
  function takeFree(): Waiting<Item, Result>[] {
    const group: Waiting<Item, Result>[] = []
    waiting = waiting.filter((one) => {
      const isTaken = group.length < maxItems && !one.keys.some((key) => keysUnderWay.has(key))
      if (isTaken) group.push(one)
      return !isTaken
    })
    return group
  }

  /**
   * Performs a group and settles each of its items. Its turn ends by then, or when a request's time is over.
   */
  async function performGroup(group: readonly Waiting<Item, Result>[]): Promise<void> {
    underWay++
    // A key may stand several times in one group, and in no other.
    const keys = new Set(group.flatMap((one) => one.keys))
    for (const key of keys) keysUnderWay.add(key)
    let hasTurn = true
    const leave = (): void => {
      if (!hasTurn) return
      hasTurn = false
      underWay--
      for (const key of keys) keysUnderWay.delete(key)
      if (waiting.length > 0) begin()
    }
    const late = setTimeout(leave, REQUEST_TIMEOUT_MS)
    try {
      const outcomes = await perform(group.map(({ item }) => item))
      for (const [index, one] of group.entries()) settle(one, outcomes[index])
    } catch (error) {
      for (const one of group) one.reject(error)
    } finally {
      clearTimeout(late)
      leave()
    }
  }

  const wait = (item: Item): Promise<Result> =>
    new Promise((resolve, reject) => {
      const wanted = currentSignal()
      wanted?.throwIfAborted()
      waiting.push({
        item,
        keys: keysOf?.(item) ?? NO_KEYS,
        sinceMs: performance.now(),
        wanted,
        resolve,
        reject,
      })
      if (isDue || underWay >= atOnce) return
      isDue = true
      // Of many requests' work none of the log belongs to one of them.
      setImmediate(() => runInScope({}, begin))
    })
  const { span } = options
  return span === undefined ? wait : (item) => inSpan(span, () => wait(item))
}

/** Resolves or rejects what waits for an item's outcome. */
function settle<Item, Result>(
  one: Waiting<Item, Result>,
  outcome: PromiseSettledResult<Result> | undefined,
): void {
  if (outcome === undefined)
    one.reject(new Error('a group was performed without an outcome for each of its items'))
  else if (outcome.status === 'fulfilled') one.resolve(outcome.value)
  else one.reject(outcome.reason)
}

/**
 * Creates a function that looks something up by its key, with one query for all that wait, each key in it
 * once. It returns undefined if there is nothing of that key.
 *
 * @param find finds what there is for these keys, in any order
 * @param keyOf gives the key that a result belongs to
 */
export function createBatchRead<Key, Found>(
  find: (keys: Key[]) => Promise<readonly Found[]>,
  keyOf: (found: Found) => Key,
): (key: Key) => Promise<Found | undefined> {
  return createGroups(
    async (keys) => {
      const byKey = new Map((await find([...new Set(keys)])).map((found) => [keyOf(found), found]))
      return keys.map((key) => ({ status: 'fulfilled', value: byKey.get(key) }))
    },
    { atOnce: 2 },
  )
}

/**
 * Creates a function that looks a record up by its `_id`, with one query for all that wait. Records have all
 * their fields, as they are stored, unless `projection` chooses.
 */
export function createIdBatchRead<Stored extends { _id: string }>(
  collection: () => mongoose.mongo.Collection<Stored>,
  projection: mongoose.mongo.Document = {},
): (id: string) => Promise<Stored | undefined> {
  return createBatchRead(
    (ids: string[]) =>
      collection()
        .find<Stored>({ _id: { $in: ids } } as mongoose.mongo.Filter<Stored>, {
          projection,
          batchSize: ids.length + 1,
        })
        .toArray(),
    ({ _id }) => _id,
  )
}

/** How one who asks would have the question answered. */
interface Asked<Answer> {
  answer: () => Promise<Answer>
  enter: (read: () => Promise<void>) => Promise<void>
  wanted: AbortSignal | undefined
}

/**
 * Creates a function that answers a question together with equal ones that wait: by one read, which begins
 * after the last of them was asked, and is stopped once the requests of all of them are over.
 *
 * @returns a function of the question, as a text that says all of it; of how to answer it; and of what runs
 *   the read when there is room for it, at once if absent
 */
export function createSharedReads<Answer>(): (
  question: string,
  answer: () => Promise<Answer>,
  enter?: (read: () => Promise<void>) => Promise<void>,
) => Promise<Answer> {
  const asked = new Map<string, { ask: (one: Asked<Answer>) => Promise<Answer>; waiting: number }>()
  return async (question, answer, enter = (read) => read()) => {
    let shared = asked.get(question)
    if (shared === undefined) {
      shared = { ask: createGroups<Asked<Answer>, Answer>(answerTogether, SHARED), waiting: 0 }
      asked.set(question, shared)
    }
    shared.waiting++
    try {
      return await shared.ask({ answer, enter, wanted: currentSignal() })
    } finally {
      if (--shared.waiting === 0) asked.delete(question)
    }
  }
}

const SHARED = {
  maxItems: Number.POSITIVE_INFINITY,
  atOnce: 1,
  enter: ({ enter }: Pick<Asked<unknown>, 'enter'>, read: () => Promise<void>) => enter(read),
}

/** Answers all who ask as the first of them would be. */
async function answerTogether<Answer>(group: readonly Asked<Answer>[]): Promise<Outcomes<Answer>> {
  const wanted = untilAllLeft(group.map((one) => one.wanted))
  const value = await runInScope({}, (group[0] as Asked<Answer>).answer, wanted)
  return group.map(() => ({ status: 'fulfilled', value }))
}

/**
 * A signal that is aborted when the last of these is; undefined if one of them is undefined, so never
 * aborted.
 */
function untilAllLeft(signals: readonly (AbortSignal | undefined)[]): AbortSignal | undefined {
  if (signals.includes(undefined)) return undefined
  const life = new AbortController()
  // One of those that have not left is listened to: most never leave.
  const listen = (reason?: unknown): void => {
    const staying = signals.find((signal) => signal?.aborted === false)
    if (staying === undefined) life.abort(reason)
    else staying.addEventListener('abort', () => listen(staying.reason), { once: true })
  }
  listen(signals.at(-1)?.reason)
  return life.signal
}

/**
 * Inserts documents in one command, each by itself, so that one that is refused keeps no other from being
 * stored. Resolves once a majority has those that are stored in its journal.
 *
 * @returns an outcome for each document, in their order
 * @throws if it is unknown which were stored
 */
export async function insertEach<Document extends { _id: unknown }>(
  collection: { insertMany(documents: never[], options: { ordered: false }): Promise<unknown> },
  documents: readonly Document[],
): Promise<PromiseSettledResult<void>[]> {
  try {
    await collection.insertMany(documents as never[], { ordered: false })
    return documents.map(() => DONE)
  } catch (error) {
    if (documents.length === 1 || isOutage(error)) throw error
    if (error instanceof mongoose.mongo.MongoBulkWriteError) {
      if (error.result.getWriteConcernError() !== undefined) throw error
      const failed = new Map([error.writeErrors].flat().map((failure) => [failure.index, failure]))
      return documents.map((_, index) => {
        const failure = failed.get(index)
        if (failure === undefined) return DONE
        const { code, errmsg: message = 'the document was not inserted' } = failure
        return { status: 'rejected', reason: new mongoose.mongo.MongoServerError({ message, code }) }
      })
    }
    // An error of the server says nothing about one document; one of our own side came before anything was
    // sent.
    if (error instanceof mongoose.mongo.MongoServerError) throw error
    return performEachAlone(documents, async (document) => {
      await collection.insertMany([document] as never[], { ordered: false })
    })
  }
}

const DONE: PromiseSettledResult<void> = { status: 'fulfilled', value: undefined }

/**
 * Performs items together; if that fails and has stored nothing, each alone, so that one of them at fault keeps
 * no other from being stored.
 *
 * @param perform stores what follows from the items, all of it or nothing, and gives a result for each
 * @throws an outage of the database, and a Refusal
 */
export async function performTogether<Item, Result>(
  items: readonly Item[],
  perform: (items: readonly Item[]) => Promise<readonly Result[]>,
): Promise<Outcomes<Result>> {
  try {
    return (await perform(items)).map((value) => ({ status: 'fulfilled', value }))
  } catch (error) {
    // In an outage it may have been stored.
    if (items.length === 1 || isOutage(error) || error instanceof Refusal) throw error
    return performEachAlone(items, async (item) => (await perform([item]))[0] as Result)
  }
}

/**
 * Performs items one after the other, each outcome for itself; for a group that failed as a whole and stored
 * nothing.
 */
export async function performEachAlone<Item, Result>(
  items: readonly Item[],
  perform: (item: Item) => Promise<Result>,
): Promise<PromiseSettledResult<Result>[]> {
  const outcomes: PromiseSettledResult<Result>[] = []
  for (const item of items) outcomes.push(...(await Promise.allSettled([perform(item)])))
  return outcomes
}
