import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import type { Lease } from '../platform/lease-store.ts'
import { MAX_SIGNED_AHEAD_MS } from '../platform/limits.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import { unixSeconds } from '../platform/time.ts'
import { computeLeaves, numberEntry, type EntryRecord } from './entry.ts'
import { closingSource, SealError, type SealRecord } from './seal.ts'
import {
  closesSeal,
  closingEntry,
  NOTHING_OWED,
  parseOwed,
  tryAddToOwed,
  type Owed,
  type StateBefore,
} from './solvency.ts'

/* Step 1 of a seal's order of writes, which sealer.ts argues: the closing entry. */

type ClosingContext = Pick<Context, 'database' | 'entries' | 'leases' | 'metrics' | 'log' | 'now'>

/** A seal that is about to be made. */
export interface SealBegun {
  seq: number
  /** The number of its first entry. */
  fromId: number
  previous: SealRecord | undefined
  /** What its closing entry states of the time before it. */
  before: StateBefore
}

/**
 * Between two tries to close a seal while others number entries: a majority needs that long to have theirs.
 */
export const RACE_PAUSE_MS = 5

/**
 * Step 1. Yields the entries from `fromId` to the one that closes seal `seq`, page by page, with their leaves
 * side by side. If no entry closes it yet, the closing entry is appended first. Yields and appends nothing if
 * there are no new entries.
 */
export async function* readUntilClosed(
  ctx: ClosingContext,
  { seq, fromId, previous, before }: SealBegun,
  watch: WatchStep | undefined,
): AsyncGenerator<{ page: EntryRecord[]; leaves: Buffer }> {
  let owed = previous === undefined ? NOTHING_OWED : await readPreviousOwed(ctx, previous)
  let due = fromId
  let sequencing: Lease | undefined
  try {
    for (;;) {
      for await (const page of ctx.entries.pages(due)) {
        const end = page.findIndex((entry) => closesSeal(entry, seq))
        const part = end === -1 ? page : page.slice(0, end + 1)
        const { leaves, unreadable } = computeLeaves(part)
        for (const entry of part) {
          if (entry._id !== due)
            throw new SealError(`entry ${due} is missing from the ledger: the next one is ${entry._id}`)
          due++
          owed = addOwed(ctx, owed, entry, !unreadable.has(entry))
        }
        yield { page: part, leaves }
        if (end !== -1) return
      }
      if (due === fromId) return
      const source = await findClosingSource(ctx, seq, due)
      if (source === undefined) continue
      const at = Math.max(unixSeconds(earlierTime(ctx)), previous?.at ?? 0)
      const closing = numberEntry({ ...closingEntry(seq, at, owed, before), source }, due)
      // Ours or another's, it is read by the next round like any other entry, with those that came before it.
      if (await performStep(watch, 'closing', () => ctx.entries.append([closing]))) continue
      // The number was taken. A busy sequencer would win each time: the sealer takes its lease between runs.
      sequencing ??= await ctx.leases.take('sequencer')
      if (!(await sequencing?.renew())) sequencing = undefined
      await sleep(RACE_PAUSE_MS * Math.random())
    }
  } finally {
    await sequencing?.release()
  }
}

/**
 * Finds the first free source for the entry that closes seal `seq`. Sources of entries below `due` are taken
 * by entries that were read and don't close it.
 *
 * @returns undefined if an entry from `due` on has the source: it may be the closing entry, so read on
 */
async function findClosingSource(ctx: ClosingContext, seq: number, due: number): Promise<string | undefined> {
  for (let count = 1; ; count++) {
    const source = count === 1 ? closingSource(seq) : `${closingSource(seq)}/${count}`
    const holder = await ctx.entries.findBySource(source)
    if (holder === undefined) return source
    if (holder._id >= due) return undefined
  }
}

/**
 * The sums owed after an entry. An entry that can't be read changes nothing; it is counted as an anomaly and
 * logged.
 */
function addOwed(ctx: ClosingContext, owed: Owed, entry: EntryRecord, canRead: boolean): Owed {
  const { owed: owedAfter, anomaly } = tryAddToOwed(owed, entry, canRead)
  if (anomaly !== undefined) {
    ctx.metrics.countAnomaly('entry')
    ctx.log.error({ entry: entry._id }, `an entry is sealed that says nothing: ${anomaly}`)
  }
  return owedAfter
}

/**
 * Returns now, in milliseconds since the epoch, by this machine's clock or the database's, whichever is
 * behind. Logs and counts an anomaly if this machine's is too far ahead.
 */
function earlierTime(ctx: ClosingContext): number {
  const databaseMs = ctx.database.now()
  const nowMs = ctx.now()
  if (nowMs - databaseMs > MAX_SIGNED_AHEAD_MS) {
    ctx.metrics.countAnomaly('clock')
    ctx.log.error(
      { ahead_ms: nowMs - databaseMs },
      "this machine's clock is ahead: the seal is dated by the database's",
    )
  }
  return Math.min(nowMs, databaseMs)
}

/**
 * The sums that the closing entry of the last seal states.
 *
 * @throws SealError if that is missing, or another entry
 */
async function readPreviousOwed(ctx: ClosingContext, previous: SealRecord): Promise<Owed> {
  const entry = await ctx.entries.find(previous.to_id)
  if (entry === undefined)
    throw new SealError(
      `entry ${previous.to_id}, the last of seal ${previous._id}, is missing from the ledger`,
    )
  if (!closesSeal(entry, previous._id))
    throw new SealError(`entry ${previous.to_id} does not close seal ${previous._id}`)
  return parseOwed(entry)
}
