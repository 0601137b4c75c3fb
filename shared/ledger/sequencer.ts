import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { numberEntry, type EntryRecord } from './entry.ts'
import type { PendingCollection, PendingRecord } from './entry-store.ts'
import type { Lease } from '../platform/lease-store.ts'
import { parsePendingEntry } from './pending-check.ts'
import type { EntryKind, PendingEntry } from './pending.ts'
import { SealError } from './seal.ts'
import { traceEntries } from './traced.ts'
import { performStep, type WatchStep } from '../platform/step.ts'

/*
 * The sequencer gives pending entries their numbers: 1, 2, 3, … without a gap, each entry one number, and no
 * entry is left behind. Any number of sequencers may run at once and die anywhere. There is no recovery
 * beside the normal path: a sequencer that starts does what one that died would have done next.
 *
 * Terms: a *pending* entry is an element of its record's `pending` array; the *ledger* is the collection
 * `entries`, whose `_id` is the number and whose `source` is unique. *Durable* is what a majority has in its
 * journal: no election takes it back.
 *
 * One batch, in this order:
 *
 *   1. Read pending entries, by the index that holds nothing else. An element that may not be numbered
 *      (pending-check.ts) stays where it is and is counted: a ledger that took it could not be sealed, or
 *      would say what nobody has decided. Only durable ones are read: a pending entry that an election takes
 *      back must not have been numbered. A transaction that commits late brings its pending entries into the
 *      index when it commits, however old their times and sources are; each run reads the index from its
 *      beginning, and nothing remembers how far an earlier run came, so no run can have gone past them.
 *   2. Insert the entries at h + 1, h + 2, … in order, where h is the highest durable number. A ledger that
 *      ends before its last seal does is an older copy: nothing is numbered, since those numbers stand under
 *      a seal. Ordered inserts stop at the first failure, so n is stored only by someone who stored n - 1 or
 *      read it as durable: there is no gap. `_id` is unique, so no number is given twice. `source` is unique,
 *      so no entry gets two numbers.
 *   3. A duplicate key says that another sequencer took the number, or that this entry has one: from another
 *      sequencer, or from one that died between 2 and 4. Which of them doesn't matter. Read again which
 *      sources are in the ledger durably, and go back to 2 with the others. A duplicate is never a reason to
 *      skip: what isn't seen in the ledger is inserted, and what is seen there needs nothing more.
 *   4. Clear the pending entries by source. By now each entry of the batch is durable: it was inserted with
 *      majority and journal, or read with majority. An entry that was pushed meanwhile has another source and
 *      stays.
 *
 * An error (a primary that steps down, a connection that breaks) leaves open whether its write was stored. It
 * ends the run. If the insert was stored, the next run meets it in 3; if it was not, the entries are still
 * pending; a clearing that was not stored leaves pending entries that 3 finds numbered.
 *
 * For speed, the next batch is read while this one is inserted, and the last one is cleared beside it. That
 * changes no argument above: 2 of each batch comes after 2 of the one before, 4 of each after its own 2, and
 * a pending entry read twice is the case of 3. The lease keeps sequencers from racing for the same numbers,
 * which only costs time.
 */

export interface SequencerOptions {
  /** Entries in a batch, about. */
  batchSize?: number
  /** A run takes no new batch after this time. */
  limitMs?: number
  /** How long to wait for another process's run; not at all if absent. */
  waitMs?: number
  /** False: run even while another process does. */
  useLease?: boolean
  watch?: WatchStep
}

/**
 * Large enough that a round trip and a journal's sync are little beside it, small enough that a batch is a
 * few MB.
 */
const BATCH_ENTRIES = 2_000
/** A run ends by then, so that a flood of writes can't keep its worker from sealing; the next run goes on. */
const RUN_LIMIT_MS = 10_000
/** A pause after a lost race, so that a majority can have what the winner wrote. */
const RACE_PAUSE_MS = 5

/**
 * Gives all pending entries their numbers: each is inserted into the ledger and taken off its record. A run
 * ends early when its time is over.
 *
 * @returns how many were numbered; 0 also if another process is doing so
 * @throws SealError if the ledger ends before its last seal does
 */
export async function sequencePending(
  ctx: SequencerContext,
  options: SequencerOptions = {},
): Promise<number> {
  if (options.useLease === false) return numberBatches(ctx, options, undefined)
  const lease = await ctx.leases.take('sequencer', options.waitMs)
  if (lease === undefined) return 0
  try {
    return await numberBatches(ctx, options, lease)
  } finally {
    await lease.release()
  }
}

type SequencerContext = Pick<Context, 'database' | 'entries' | 'seals' | 'leases' | 'metrics' | 'log'>

interface Batch {
  /** In the order of their times. */
  entries: PendingEntry[]
  /** The same entries by the collections and records that they came from. */
  parts: { collection: PendingCollection; records: PendingRecord[] }[]
}

/**
 * Numbers batch after batch until nothing is pending, the time is over or the lease is lost.
 *
 * @returns how many entries were numbered
 */
async function numberBatches(
  ctx: SequencerContext,
  options: SequencerOptions,
  lease: Lease | undefined,
): Promise<number> {
  const { batchSize = BATCH_ENTRIES, limitMs = RUN_LIMIT_MS, watch } = options
  const startedAt = performance.now()
  // One pass over the index. Each batch begins after the last one, so that entries that are being cleared are
  // not read again.
  const readNext = createBatchReader(ctx, batchSize)
  let highest: number | undefined
  let numbered = 0
  let reading = inBackground(readNext())
  let clearing: Promise<void> = Promise.resolve()
  try {
    for (let batch = await reading; batch.entries.length > 0; batch = await reading) {
      if (performance.now() - startedAt > limitMs || (lease !== undefined && !(await lease.renew()))) break
      reading = inBackground(readNext())
      highest = await insertEntries(ctx, batch.entries, highest, watch)
      await clearing
      clearing = inBackground(clearPending(batch, watch))
      numbered += batch.entries.length
    }
  } finally {
    await Promise.allSettled([reading, clearing])
  }
  await clearing
  return numbered
}

/** Returns the promise, to be awaited later: a rejection before that doesn't count as unhandled. */
function inBackground<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}

/**
 * Step 1. Creates a function that reads the next batch: pending entries of all collections, up to `batchSize`
 * records of each. It returns an empty batch at the end.
 */
function createBatchReader(ctx: SequencerContext, batchSize: number): () => Promise<Batch> {
  // The collections that may have more, and the source after which to go on.
  const positions = new Map<PendingCollection, string>(
    ctx.entries.pendingCollections().map((collection) => [collection, '']),
  )
  /** Reads the next records of a collection, and moves on its position. Entries that can't be numbered are logged. */
  const takePart = async (
    collection: PendingCollection,
    position: string,
  ): Promise<Batch['parts'][number]> => {
    const listed = await collection.list(position, batchSize)
    const lastSource = firstSourceAfter(listed.at(-1), position)
    if (listed.length < batchSize || lastSource === undefined) positions.delete(collection)
    else positions.set(collection, lastSource)
    const records = listed.map(({ _id, pending }) => {
      const { entries, faults } = parsePending(collection.name, pending)
      for (const fault of faults) logFault(ctx, collection, _id, fault)
      return { _id, pending: entries }
    })
    return { collection, records: records.filter(({ pending }) => pending.length > 0) }
  }
  return async () => {
    for (;;) {
      const parts = await Promise.all(
        [...positions].map(([collection, position]) => takePart(collection, position)),
      )
      const timed = parts.flatMap(({ records }) => records.flatMap(({ pending }) => assignSortTimes(pending)))
      // The sort is stable, so entries of one record stay in the order in which they were written.
      const entries = timed.sort((a, b) => a.sortTime - b.sortTime).map(({ entry }) => entry)
      if (entries.length > 0 || positions.size === 0)
        return { entries, parts: parts.filter(({ records }) => records.length > 0) }
    }
  }
}

/** Returns a record's pending entries, and what is wrong with those of its elements that may not be numbered. */
function parsePending(collection: string, pending: unknown): { entries: PendingEntry[]; faults: string[] } {
  const elements: unknown[] = Array.isArray(pending) ? pending : [undefined]
  const parsed = elements.map((element) => parsePendingEntry(collection, element))
  return {
    entries: parsed.filter((entry) => typeof entry !== 'string'),
    faults: parsed.filter((entry) => typeof entry === 'string'),
  }
}

/** Logs and counts an element of a record's pending entries that is not numbered. */
function logFault(
  { metrics, log }: Pick<SequencerContext, 'metrics' | 'log'>,
  { name }: PendingCollection,
  recordId: string,
  fault: string,
): void {
  metrics.countAnomaly('mark')
  log.error({ collection: name, record: recordId }, `a pending entry is not numbered: ${fault}`)
}

/** The lowest source above `position` of a record's pending entries: the one by which the index found it. */
function firstSourceAfter(record: PendingRecord | undefined, position: string): string | undefined {
  const elements: (Partial<PendingEntry> | null | undefined)[] = [record?.pending].flat()
  return elements
    .map((element): unknown => element?.source)
    .filter((source) => typeof source === 'string')
    .filter((source) => source > position)
    .sort()[0]
}

/**
 * Gives each pending entry of a record the time by which it is sorted among those of other records: its own,
 * or the latest of the record's entries before it if that is later. (Clocks of several processes set the
 * times.)
 */
function assignSortTimes(pending: readonly PendingEntry[]): { sortTime: number; entry: PendingEntry }[] {
  let sortTime = -Infinity
  return pending.map((entry) => {
    sortTime = Math.max(sortTime, entry.at)
    return { sortTime, entry }
  })
}

/**
 * Steps 2 and 3. Inserts pending entries with the next numbers. Resolves when each of them is durably in the
 * ledger, by this process or another.
 *
 * @param knownHighest the highest durable number, if it is known
 * @returns the highest durable number afterwards, if it is known
 */
async function insertEntries(
  ctx: SequencerContext,
  pending: readonly PendingEntry[],
  knownHighest: number | undefined,
  watch: WatchStep | undefined,
): Promise<number | undefined> {
  const store = ctx.entries
  let missing = pending
  let highest = knownHighest
  while (missing.length > 0) {
    const base: number = highest ?? (await readHighest(ctx))
    const entries = missing.map((entry, index) => numberEntry(entry, base + 1 + index))
    const startedAtMs = Date.now()
    if (await performStep(watch, 'entries', () => store.append(entries))) {
      logMoney(ctx, entries)
      await traceEntries(ctx, entries, startedAtMs)
      return base + entries.length
    }
    highest = undefined
    const numbered = await store.findSources(missing.map(({ source }) => source))
    const stillMissing = missing.filter(({ source }) => !numbered.has(source))
    if (stillMissing.length === missing.length) await sleep(RACE_PAUSE_MS * Math.random())
    missing = stillMissing
  }
  return highest
}

/** Kinds of entries that get a log line; so does a `pass_credit` that was paid with a coin. */
const MONEY_KINDS = new Set<EntryKind>([
  'payment',
  'order',
  'fee',
  'dispute',
  'dispute_outcome',
  'payout',
  'reconcile',
])

/** Writes a log line for each entry about money, with the ids in its data. */
function logMoney({ log }: SequencerContext, entries: readonly EntryRecord[]): void {
  for (const { _id, source, kind, data } of entries) {
    if (!MONEY_KINDS.has(kind) && !(kind === 'pass_credit' && data['means'] === 'coin')) continue
    const ids = Object.fromEntries(Object.entries(data).filter(([name]) => name.endsWith('_id')))
    log.info({ money: kind, step: source, entry_id: _id, ...ids }, `entry ${_id} is about money`)
  }
}

/**
 * Reads the ledger's highest durable number.
 *
 * @throws SealError if the ledger ends before its last seal does
 */
async function readHighest(ctx: SequencerContext): Promise<number> {
  const { seal, highest } = await ctx.database.inOrder(async (session) => ({
    seal: await ctx.seals.last(session),
    highest: await ctx.entries.highestId(session),
  }))
  if (seal !== undefined && highest < seal.to_id)
    throw new SealError(
      `The ledger ends at entry ${highest}, and seal ${seal._id} covers the entries up to ${seal.to_id}: an older copy of them was restored. Nothing is numbered until the entries are given back.`,
    )
  return highest
}

/** Step 4. Takes a batch's entries off their records. */
async function clearPending(batch: Batch, watch: WatchStep | undefined): Promise<void> {
  await performStep(watch, 'marks', () =>
    Promise.all(
      batch.parts.map(({ collection, records }) =>
        collection.clear(
          records.map(({ _id }) => _id),
          records.flatMap(({ pending }) => pending.map(({ source }) => source)),
        ),
      ),
    ),
  )
}
