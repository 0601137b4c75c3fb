import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import type { Lease } from '../platform/lease-store.ts'
import { MAX_SIGNED_AHEAD_MS } from '../platform/limits.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import { unixSeconds } from '../platform/time.ts'
import { computeLeaves, numberEntry, type EntryRecord } from './entry.ts'
import type { EntryStore } from './entry-store.ts'
import { closingSource, SealError, type SealRecord } from './seal.ts'
import { closesSeal, closingEntry, countFrom, type StateBefore } from './solvency.ts'

/* Step 1 of a seal's order of writes, which sealer.ts argues: the closing entry. */

type ClosingContext = Pick<Context, 'database' | 'entries' | 'coins' | 'leases' | 'metrics' | 'log' | 'now'>

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
  const count = await countFrom(previous && (await readClosing(ctx.entries, previous)), ctx.entries.pages)
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
          const anomaly = count.add(entry, !unreadable.has(entry))
          if (anomaly !== undefined) logUnreadable(ctx, entry, anomaly)
        }
        yield { page: part, leaves }
        if (end !== -1) return
      }
      if (due === fromId) return
      const source = await findClosingSource(ctx.entries, seq, due)
      if (source === undefined) continue
      const [nowMs, databaseMs] = [ctx.now(), ctx.database.now()]
      if (nowMs - databaseMs > MAX_SIGNED_AHEAD_MS) logClockAhead(ctx, nowMs - databaseMs)
      const at = Math.max(unixSeconds(Math.min(nowMs, databaseMs)), previous?.at ?? 0)
      const money = { sums: count.sums(), assets: await ctx.coins.readAssets(unixSeconds(databaseMs)) }
      const closing = numberEntry({ ...closingEntry(seq, at, money, before), source }, due)
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
async function findClosingSource(
  entries: Pick<EntryStore, 'findBySource'>,
  seq: number,
  due: number,
): Promise<string | undefined> {
  for (let count = 1; ; count++) {
    const source = count === 1 ? closingSource(seq) : `${closingSource(seq)}/${count}`
    const holder = await entries.findBySource(source)
    if (holder === undefined) return source
    if (holder._id >= due) return undefined
  }
}

type Anomalies = Pick<Context, 'metrics' | 'log'>

/** Logs and counts an entry that changes no sum, since it can't be read. */
function logUnreadable({ metrics, log }: Anomalies, { _id }: EntryRecord, anomaly: string): void {
  metrics.countAnomaly('entry')
  log.error({ entry: _id }, `an entry is sealed that says nothing: ${anomaly}`)
}

/** Logs and counts that this machine's clock is too far ahead of the database's. */
function logClockAhead({ metrics, log }: Anomalies, aheadMs: number): void {
  metrics.countAnomaly('clock')
  log.error({ ahead_ms: aheadMs }, "this machine's clock is ahead: the seal is dated by the database's")
}

/** The closing entry of the last seal. @throws SealError if that is missing, or another entry */
async function readClosing(entries: Pick<EntryStore, 'find'>, previous: SealRecord): Promise<EntryRecord> {
  const entry = await entries.find(previous.to_id)
  if (entry === undefined)
    throw new SealError(
      `entry ${previous.to_id}, the last of seal ${previous._id}, is missing from the ledger`,
    )
  if (!closesSeal(entry, previous._id))
    throw new SealError(`entry ${previous.to_id} does not close seal ${previous._id}`)
  return entry
}
