import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import type { LogTree } from '../crypto/log-tree.ts'
import type { Tile } from '../crypto/merkle.ts'
import { verifySealFollows } from '../crypto/seal-payload.ts'
import type { Lease } from '../platform/lease-store.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import { keyState, statedKeys } from './agent-keys.ts'
import { verifyNewSeals } from './chain-check.ts'
import type { EntryRecord } from './entry.ts'
import { createEntryTree } from './entry-tree.ts'
import { readTreeAsStated } from './key-tree-reader.ts'
import { buildLogFromEntries, logState, readLogFromTiles } from './log.ts'
import { headOf, sealFields, SealError, type SealRecord } from './seal.ts'
import type { SealStore } from './seal-store.ts'
import { RACE_PAUSE_MS, readUntilClosed } from './seal-closing.ts'
import { closesSeal, type StateBefore } from './solvency.ts'
import { createTileWriter } from './tile-writer.ts'
import { traceSeal } from './traced.ts'

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
 *   2. The tiles of the log, then the unsigned seal, immutable, with its unique seq. Entries of a seal that can be seen
 *      have their leaves in tiles. A tile only grows, and what it holds of earlier seals stays; it may be written
 *      again before the seal exists: with the same bytes, as above. A log without tiles is built from the first entry
 *      on.
 *
 * Step 1 is done in seal-closing.ts. Steps 3 to 7, from reading the entries again to storing the signature,
 * are in signing.ts.
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
  'database' | 'entries' | 'coins' | 'seals' | 'leases' | 'metrics' | 'log' | 'now'
>

/**
 * Makes the next seal over all new entries and stores it, unsigned, with its closing entry and the tiles of the log. The
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
  if ((await ctx.entries.highestId()) < fromId) return undefined
  const log = await readOrBuildLog(ctx, previous, (tiles) =>
    performStep(watch, 'log-tiles', () => ctx.entries.tiles.repair(tiles)),
  )
  const before: StateBefore = {
    prevSeal: previous === undefined ? null : headOf(previous).payloadHash,
    log: logState(log),
    keys: await readKeyState(ctx, previous),
  }
  const tree = createEntryTree()
  const logTiles = createTileWriter((tiles) =>
    performStep(watch, 'log-tiles', () => ctx.entries.tiles.put(tiles)),
  )

  // 1, while the tiles of 2 that are full are being stored
  let closing: EntryRecord | undefined
  try {
    for await (const { page, leaves } of readUntilClosed(ctx, { seq, fromId, previous, before }, watch)) {
      if (lease !== undefined && !(await lease.renew())) return undefined
      tree.add(leaves)
      await logTiles.add(log.append(leaves))
      closing = page.at(-1)
    }
  } finally {
    await logTiles.settle()
  }
  if (closing === undefined) return undefined

  // 2
  const { root } = tree.finish()
  const seal = sealOf({ seq, fromId, previous, closing, count: tree.count, root })
  await logTiles.finish(log.edge())
  await performStep(watch, 'seal', () => storeOnce(ctx.seals, seal))
  await performStep(watch, 'status', () => verifyNewSeals(ctx, { seq, root }))
  await traceSeal(ctx, seal, startedAtMs)
  const signed = await ctx.seals.lastSigned()
  if (signed !== undefined) await ctx.entries.keepKeyTree(signed.from_id - 1)
  return seal
}

/**
 * Reads what is to be stated of agents' keys after the last seal.
 *
 * @throws SealError if the entries don't give what was stated last
 */
async function readKeyState(
  { entries }: SealerContext,
  last: SealRecord | undefined,
): Promise<StateBefore['keys']> {
  const closing = last && (await entries.find(last.to_id))
  const { data: stated } = statedKeys.safeParse(closing?.data['keys'])
  const upTo = (last?.from_id ?? 1) - 1
  if (stated !== undefined && (await readTreeAsStated(entries.readKeyTree, upTo, stated)) === undefined)
    throw new SealError(`the keys up to entry ${upTo} have another root than entry ${last?.to_id} states`)
  return keyState(await entries.readKeyTree(last?.to_id ?? 0))
}

/**
 * The unsigned seal that follows from its entries and the seal before.
 *
 * @throws SealError if the last entry doesn't close it, or it can't follow the seal before
 */
function sealOf(parts: {
  seq: number
  fromId: number
  previous: SealRecord | undefined
  closing: EntryRecord
  count: number
  root: string
}): SealRecord {
  const { seq, fromId, previous, closing, count, root } = parts
  if (!closesSeal(closing, seq))
    throw new SealError(`entry ${closing._id} is the last of seal ${seq} and does not close it`)
  const seal: SealRecord = {
    _id: seq,
    at: closing.at,
    count,
    root,
    prev_root: previous?.root ?? null,
    from_id: fromId,
    to_id: closing._id,
    signed: false,
  }
  const verdict = verifySealFollows(previous === undefined ? null : sealFields(previous), sealFields(seal))
  if (!verdict.ok) throw new SealError(`seal ${seq} cannot follow the seal before it: ${verdict.message}`)
  return seal
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
  const stored = await readLogFromTiles(ctx.entries.tiles, size)
  if (
    stored !== undefined &&
    (previous?.log_root === undefined || logState(stored).root === previous.log_root)
  )
    return stored
  return buildLogFromEntries(ctx.entries, size, put)
}

/** The seal in whose place nothing can be stored is there for a majority after so long, or an election has taken it back. */
const RACE_LIMIT_MS = 10_000

/**
 * Stores the seal, unless another sealer has stored the same.
 *
 * @throws SealError if another seal has this seq, or ends at the same entry
 */
async function storeOnce(seals: Pick<SealStore, 'find' | 'insert'>, seal: SealRecord): Promise<void> {
  const endsAt = performance.now() + RACE_LIMIT_MS
  for (;;) {
    if (await seals.insert(seal)) return
    const stored = await seals.find(seal._id)
    if (stored !== undefined) return requireSame(stored, seal)
    if (performance.now() > endsAt)
      throw new SealError(
        `seal ${seal._id} can't be stored, and there is none: another seal ends at entry ${seal.to_id}`,
      )
    // Its place is taken by one that a majority doesn't have yet. An election may take that back.
    await sleep(RACE_PAUSE_MS)
  }
}

/** @throws SealError unless the seal that is stored follows from the same entries */
function requireSame(stored: SealRecord, seal: SealRecord): void {
  const differing = (['at', 'count', 'root', 'prev_root', 'from_id', 'to_id'] as const).filter(
    (field) => stored[field] !== seal[field],
  )
  if (differing.length > 0)
    throw new SealError(
      `seal ${seal._id} is stored with another ${differing.join(', ')} than its entries give`,
    )
}
