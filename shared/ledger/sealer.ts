import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import type { LogTree } from '../crypto/log-tree.ts'
import type { Tile } from '../crypto/merkle.ts'
import { sealPayloadHash, verifySealFollows } from '../crypto/seal-payload.ts'
import { MAX_SIGNED_AHEAD_MS } from '../platform/limits.ts'
import { unixSeconds } from '../platform/time.ts'
import { verifyNewSeals } from './chain-check.ts'
import { numberEntry, computeLeaves, type EntryRecord } from './entry.ts'
import { keyState } from './agent-keys.ts'
import { createEntryTree } from './entry-tree.ts'
import type { Lease } from '../platform/lease-store.ts'
import { logState, readLogFromTiles, buildLogFromEntries } from './log.ts'
import { closingSource, sealFields, SealError, type SealRecord } from './seal.ts'
import {
  closesSeal,
  closingEntry,
  tryAddToOwed,
  NOTHING_OWED,
  parseOwed,
  type Owed,
  type StateBefore,
} from './solvency.ts'
import { traceSeal } from './traced.ts'
import { performStep, type WatchStep } from '../platform/step.ts'

/*
 * The sealer makes seal after seal over the ledger's entries; signing.ts signs them. Any number of sealers
 * may run at once and die anywhere, and each of them does what one that died would have done next.
 *
 * The order of its writes, for the seal that follows the last one (seq s, first entry f = the last one's
 * to_id + 1):
 *
 *   1. Entries: the closing entry, with source `seal_<s>/solvency`, at h + 1, where h is the highest durable
 *      number and every entry up to h has been read. It follows the sequencer's rules: no gap, and `source`
 *      is unique, so seal s is closed once, by whichever sealer came first, however many died after it. A
 *      taken number means: read on from there and try again behind. A taken source means: it is closed, read
 *      on to that entry. Something that took the source and closes nothing is an entry like any other, and
 *      counted: then the closing entry gets the next source.
 *
 *      The closing entry decides everything else. The range is f to its number, and the seal's `at` is its
 *      `at`; root, count and prev_root follow from the entries and the last seal. So all sealers of s make
 *      the same seal, byte for byte, and so does the one that comes after a crash; there is nothing to agree
 *      on any more.
 *
 *   2. The tiles of the tree, those of the log, then the unsigned seal, immutable, with its unique seq. A
 *      seal that can be seen has its tiles. Tiles of a seal that doesn't exist yet may be written again: with
 *      the same bytes, as above. A tile of the log only grows, and what it holds of earlier seals stays; a
 *      log without tiles is built from the first entry on.
 *
 * Steps 3 to 7, from reading the entries again to storing the signature, are in signing.ts.
 *
 * `at` never goes back: the closing entry's `at` is the later of now and the last seal's `at`. Now is by the
 * clock of this machine or by the database's, whichever is behind: one clock that is ahead would date every
 * later seal.
 */

export interface SealerOptions {
  /** How long to wait for another process's run; not at all if absent. */
  waitMs?: number
  /** False: run even while another process does. */
  useLease?: boolean
  watch?: WatchStep
}

type SealerContext = Pick<
  Context,
  'database' | 'entries' | 'seals' | 'merkleLog' | 'leases' | 'metrics' | 'log' | 'now' | 'traces'
>

/**
 * Between two tries to close a seal while others number entries: a majority needs that long to have theirs.
 */
const RACE_PAUSE_MS = 5

/**
 * Makes the next seal over all new entries and stores it, unsigned, with its closing entry and its tiles. The
 * chain's status is brought up to date.
 *
 * @returns the unsigned seal; undefined if there is nothing to seal, or another process is sealing
 * @throws SealError if what is stored doesn't fit together
 */
export async function makeSeal(
  ctx: SealerContext,
  options: SealerOptions = {},
): Promise<SealRecord | undefined> {
  if (options.useLease === false) return sealEntries(ctx, undefined, options.watch)
  const lease = await ctx.leases.take('sealer', options.waitMs)
  if (lease === undefined) return undefined
  try {
    return await sealEntries(ctx, lease, options.watch)
  } finally {
    await lease.release()
  }
}

/** Steps 1 and 2, for one seal. @returns undefined if there are no new entries, or the lease was lost */
async function sealEntries(
  ctx: SealerContext,
  lease: Lease | undefined,
  watch: WatchStep | undefined,
): Promise<SealRecord | undefined> {
  const startedAtMs = Date.now()
  const previous = await ctx.seals.last()
  const seq = (previous?._id ?? 0) + 1
  const fromId = (previous?.to_id ?? 0) + 1
  const tree = createEntryTree()
  let closing: EntryRecord | undefined
  const putLog = (tiles: readonly Tile[]): Promise<void> =>
    performStep(watch, 'log-tiles', () => ctx.merkleLog.putTiles(tiles))
  if ((await ctx.entries.highestId()) < fromId) return undefined
  const log = await readOrBuildLog(ctx, previous, (tiles) =>
    performStep(watch, 'log-tiles', () => ctx.merkleLog.repairTiles(tiles)),
  )
  const sealTiles = createTileWriter((tiles) =>
    performStep(watch, 'tiles', () => ctx.seals.putTiles(seq, tiles)),
  )
  const logTiles = createTileWriter(putLog)
  const before: StateBefore = {
    prevSeal: previous === undefined ? null : sealPayloadHash(sealFields(previous)),
    log: logState(log),
    keys: keyState(await ctx.entries.readKeyTree(fromId - 1)),
  }
  try {
    for await (const { page, leaves } of readUntilClosed(ctx, seq, fromId, previous, before, watch)) {
      if (lease !== undefined && !(await lease.renew())) return undefined
      await sealTiles.add(tree.add(leaves))
      await logTiles.add(log.append(leaves))
      closing = page.at(-1)
    }
  } finally {
    await Promise.all([sealTiles.settle(), logTiles.settle()])
  }
  if (closing === undefined) return undefined
  if (!closesSeal(closing, seq))
    throw new SealError(`entry ${closing._id} is the last of seal ${seq} and does not close it`)
  const { tiles, root } = tree.finish()
  await Promise.all([sealTiles.finish(tiles), logTiles.finish(log.edge())])

  const seal: SealRecord = {
    _id: seq,
    at: closing.at,
    count: tree.count,
    root,
    prev_root: previous?.root ?? null,
    from_id: fromId,
    to_id: closing._id,
    signed: false,
  }
  const verdict = verifySealFollows(previous === undefined ? null : sealFields(previous), sealFields(seal))
  if (!verdict.ok) throw new SealError(`seal ${seq} cannot follow the seal before it: ${verdict.message}`)
  const isNew = await performStep(watch, 'seal', () => ctx.seals.insert(seal))
  if (!isNew) await requireSameAsStored(ctx, seal)
  await performStep(watch, 'status', () => verifyNewSeals(ctx, { seq, root }))
  await traceSeal(ctx, seal, startedAtMs)
  return seal
}

/** Tiles stored by one write: 512 KiB. */
const TILE_GROUP = 64

/**
 * Creates a writer that collects tiles and stores them with `put`, a group at a time, while the next ones are
 * being computed. If a write fails, the call after it rejects.
 */
function createTileWriter(put: (tiles: readonly Tile[]) => Promise<void>) {
  let waiting: Tile[] = []
  let writing: Promise<void> = Promise.resolve()
  const flush = async (): Promise<void> => {
    await writing
    writing = put(waiting)
    writing.catch(() => {})
    waiting = []
  }
  return {
    async add(tiles: readonly Tile[]): Promise<void> {
      waiting.push(...tiles)
      if (waiting.length >= TILE_GROUP) await flush()
    },
    /** Resolves once all are stored. */
    async finish(tiles: readonly Tile[]): Promise<void> {
      waiting.push(...tiles)
      await flush()
      await writing
    },
    /** Waits for the write under way; never rejects. */
    settle: (): Promise<void> => writing.catch(() => {}),
  }
}

/**
 * Returns the log up to the last seal: read from its stored tiles, if they are there and give the root that
 * was signed with that seal, else built from the entries and its tiles stored with `put`.
 */
async function readOrBuildLog(
  ctx: SealerContext,
  previous: SealRecord | undefined,
  put: (tiles: readonly Tile[]) => Promise<void>,
): Promise<LogTree> {
  const size = previous?.to_id ?? 0
  const stored = await readLogFromTiles(ctx, size)
  if (
    stored !== undefined &&
    (previous?.log_root === undefined || logState(stored).root === previous.log_root)
  )
    return stored
  return buildLogFromEntries(ctx, size, put)
}

/** A seal that a majority doesn't have after so long is not there. */
const RACE_LIMIT_MS = 10_000

/**
 * Reads the stored seal of this seq, which another sealer has made.
 *
 * @throws SealError if it isn't the same, or there is none: then another seal holds its last entry
 */
async function requireSameAsStored(ctx: SealerContext, seal: SealRecord): Promise<void> {
  const endsAt = performance.now() + RACE_LIMIT_MS
  for (;;) {
    const stored = await ctx.seals.find(seal._id)
    if (stored === undefined && performance.now() > endsAt)
      throw new SealError(
        `seal ${seal._id} can't be stored, and there is none: another seal ends at entry ${seal.to_id}`,
      )
    if (stored === undefined) {
      // Taken, and not yet held by a majority.
      await sleep(RACE_PAUSE_MS)
      continue
    }
    const differing = (['at', 'count', 'root', 'prev_root', 'from_id', 'to_id'] as const).filter(
      (field) => stored[field] !== seal[field],
    )
    if (differing.length > 0)
      throw new SealError(
        `seal ${seal._id} is stored with another ${differing.join(', ')} than its entries give`,
      )
    return
  }
}

/**
 * Step 1. Yields the entries from `fromId` to the one that closes seal `seq`, page by page, with their leaves
 * side by side. If no entry closes it yet, the closing entry is appended first. Yields and appends nothing if
 * there are no new entries.
 */
async function* readUntilClosed(
  ctx: SealerContext,
  seq: number,
  fromId: number,
  previous: SealRecord | undefined,
  before: StateBefore,
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
async function findClosingSource(ctx: SealerContext, seq: number, due: number): Promise<string | undefined> {
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
function addOwed(ctx: SealerContext, owed: Owed, entry: EntryRecord, canRead: boolean): Owed {
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
function earlierTime(ctx: SealerContext): number {
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
async function readPreviousOwed(ctx: SealerContext, previous: SealRecord): Promise<Owed> {
  const entry = await ctx.entries.find(previous.to_id)
  if (entry === undefined)
    throw new SealError(
      `entry ${previous.to_id}, the last of seal ${previous._id}, is missing from the ledger`,
    )
  if (!closesSeal(entry, previous._id))
    throw new SealError(`entry ${previous.to_id} does not close seal ${previous._id}`)
  return parseOwed(entry)
}
