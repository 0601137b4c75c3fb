import type { Context } from '../context.ts'
import { canonicalJson } from '../crypto/canonical-json.ts'
import { verifyLogInclusion, type LogTree } from '../crypto/log-tree.ts'
import { TILE_HEIGHT, type Tile } from '../crypto/merkle.ts'
import { verifySealFollows } from '../crypto/seal-payload.ts'
import { keyState } from './agent-keys.ts'
import { verifyWholeChain } from './chain-check.ts'
import { isAssets } from './assets.ts'
import { computeLeaves, type EntryRecord } from './entry.ts'
import { createEntryTree } from './entry-tree.ts'
import { KeyEntriesDiffer, type KeyPieces } from './key-pieces.ts'
import { readTreeAsStated } from './key-tree-reader.ts'
import { buildLogFromEntries, logState, proveInLog, readLogFromTiles, type LogState } from './log.ts'
import { headOf, sealFields, type SealRecord } from './seal.ts'
import type { Remembered } from './seal-memory.ts'
import { SigningStopped } from './signing-refusals.ts'
import { findDifferences, type Difference } from './tile-difference.ts'
import {
  closesSeal,
  closingEntry,
  countFrom,
  parseLiabilities,
  type Liabilities,
  type LiabilityCount,
} from './solvency.ts'

type LedgerContext = Pick<Context, 'database' | 'entries' | 'seals' | 'now'>

type Refuse = (sentence: string) => SigningStopped

/** For what reads entries that changed agents' keys again. */
const refuseIfTheyDiffer =
  (refuse: Refuse) =>
  (error: unknown): never => {
    throw error instanceof KeyEntriesDiffer ? refuse(error.message) : error
  }

/**
 * Step 3: recomputes from the stored entries all that the seal states, and compares.
 *
 * @param previous the seal before
 * @returns the state of the log and the keys after the seal
 * @throws SigningStopped naming the entry, the leaf or the level that is not what was sealed
 */
export async function recomputeSeal(
  ctx: LedgerContext,
  seal: SealRecord,
  previous: SealRecord | undefined,
  remembered: Remembered,
): Promise<StateAfter> {
  const refuse: Refuse = (sentence) =>
    new SigningStopped('entries_differ', `Seal ${seal._id} is not signed: ${sentence}`)
  const follows = verifySealFollows(previous === undefined ? null : sealFields(previous), sealFields(seal))
  if (!follows.ok) throw refuse(follows.message)
  const base = await readOrBuildStateBefore(ctx, seal, previous, remembered, refuse)
  const before = { log: logState(base.log), keys: keyState(base.keys) }
  const previousClosing = await readClosingEntry(ctx, previous, base.log, refuse)
  const computed = await recompute(ctx, seal, base, previousClosing, refuse)
  const prevSeal = previous === undefined ? null : headOf(previous).payloadHash
  // What the coins hold can't be computed: it is taken as stated, and with it go the sums of all liabilities.
  const { assets } = computed.last.data
  const money = { sums: computed.sums, assets: isAssets(assets) ? assets : undefined }
  const { data } = closingEntry(seal._id, seal.at, money, { prevSeal, ...before })
  const fault =
    findTreeFault(seal, computed.root, computed.differences) ??
    findClosingFault(seal, computed.last) ??
    findTileFault(computed.differences) ??
    findStatementFault(computed.last, data) ??
    findAssetsFault(computed.last, previousClosing)
  if (fault !== undefined) throw refuse(fault)
  return computed.after
}

/** Once a closing entry states assets, each later one has to. */
const findAssetsFault = (closing: EntryRecord, before: EntryRecord | undefined): string | undefined =>
  closing.data['assets'] === undefined && before?.data['assets'] !== undefined
    ? `entry ${closing._id} closes it and states no assets, as that of the seal before does`
    : undefined

/** The log and the agents' keys after a seal. */
interface StateAfter {
  log: LogState
  keys: ReturnType<typeof keyState>
}

/** What the stored entries of a seal give. */
interface Recomputed {
  /** The last entry, which has to close the seal. */
  last: EntryRecord
  root: string
  /** The sums that the last entry has to state: those below it. */
  sums: Liabilities
  after: StateAfter
  /** Where the stored tiles of the log differ from those of the entries. */
  differences: readonly Difference[]
}

/**
 * Reads the entries of a seal and computes from them all that the seal states, page by page.
 *
 * @param base the log and the keys before; the log is moved on
 * @throws SigningStopped (by `refuse`) if an entry is missing
 */
async function recompute(
  ctx: LedgerContext,
  seal: SealRecord,
  base: { log: LogTree; keys: KeyPieces },
  previousClosing: EntryRecord | undefined,
  refuse: Refuse,
): Promise<Recomputed> {
  const differences: Difference[] = []
  const compareTiles = async (tiles: readonly Tile[]): Promise<void> => {
    const stored = await ctx.entries.tiles.find(tiles)
    // A tile of the log may have grown since.
    const asWide = stored.map((hashes, place) => hashes?.subarray(0, tiles[place]?.hashes.length))
    differences.push(...findDifferences(tiles, asWide))
  }
  const tree = createEntryTree()
  const { log } = base
  let { keys } = base
  const count = await countAgain(ctx, previousClosing, log, refuse)
  let sumsBelow = count.sums()
  let due = seal.from_id
  let last: EntryRecord | undefined
  for await (const page of ctx.entries.pages(seal.from_id, seal.to_id)) {
    const { leaves, unreadable } = computeLeaves(page)
    for (const entry of page) {
      if (entry._id !== due) throw refuse(`entry ${due} is missing from the ledger`)
      due++
      sumsBelow = count.sums()
      count.add(entry, !unreadable.has(entry))
    }
    keys = await keys.with(page).catch(refuseIfTheyDiffer(refuse))
    last = page.at(-1)
    tree.add(leaves)
    await compareTiles(log.append(leaves))
  }
  if (last === undefined || tree.count !== seal.count) throw refuse(`entry ${due} is missing from the ledger`)
  await compareTiles(log.edge())
  return {
    last,
    root: tree.finish().root,
    sums: sumsBelow,
    after: { log: logState(log), keys: keyState(keys) },
    differences,
  }
}

/**
 * Begins to count behind the closing entry of the seal before. If that states no liabilities, all entries up to it
 * are read, which must be those that were signed.
 *
 * @param log the one up to that seal
 * @throws SigningStopped (by `refuse`) if they are not
 */
async function countAgain(
  ctx: LedgerContext,
  closing: EntryRecord | undefined,
  log: LogTree,
  refuse: Refuse,
): Promise<LiabilityCount> {
  if (closing !== undefined && parseLiabilities(closing) === undefined) {
    const { root } = logState(await buildLogFromEntries(ctx.entries, closing._id))
    if (root !== logState(log).root)
      throw refuse(
        `the entries up to ${closing._id} give a log with the root ${root}, not that which was signed`,
      )
  }
  return countFrom(closing, ctx.entries.pages)
}

/**
 * Says what is wrong with a seal's root; undefined if nothing is.
 *
 * @param root the one that its entries give
 * @param differences places at which the stored tiles of the log differ from those computed from the entries
 */
function findTreeFault(
  seal: SealRecord,
  root: string,
  differences: readonly Difference[],
): string | undefined {
  if (root === seal.root) return undefined
  const leaf = differences.find(({ level, position }) => level === 0 && position + 1 >= seal.from_id)
  return leaf === undefined
    ? `its root ${seal.root} is not that of its entries, ${root}, and the stored leaves agree with the entries`
    : `entry ${leaf.position + 1} is not what it was when the seal was made: the stored entry gives another leaf`
}

/** Says so if a seal's last entry doesn't close it, at its time. */
function findClosingFault(seal: SealRecord, last: EntryRecord): string | undefined {
  if (closesSeal(last, seal._id) && last.at === seal.at) return undefined
  return `entry ${last._id} is its last and does not close it`
}

/** Names the first stored hash of the log's tiles that differs from what the entries give. */
function findTileFault([wrong]: readonly Difference[]): string | undefined {
  if (wrong === undefined) return undefined
  const { level, position } = wrong
  const hash =
    level === 0
      ? `the stored leaf of entry ${position + 1} is not that of the entry`
      : `hash ${position} of level ${level * TILE_HEIGHT} of the log's stored tiles is not that of the entries`
  return `${hash}; if the entries are right, drop the collection log_tiles, and the next seal builds it again`
}

/** Says so if a closing entry states something else than the entries give, which is `data`. */
function findStatementFault(last: EntryRecord, data: EntryRecord['data']): string | undefined {
  const [stated, given] = [canonicalJson(last.data), canonicalJson(data)]
  return stated === given
    ? undefined
    : `entry ${last._id} closes it with ${stated}, and the entries give ${given}`
}

/**
 * Returns the log and the keys up to the seal before: from stored tiles and cached keys if these agree with
 * the memory, else from all entries. A memory without log or keys comes from an adoption, or from a standby
 * that has taken over: then the whole chain is verified first.
 *
 * @throws SigningStopped if the entries up to the seal before are not those that were signed
 */
async function readOrBuildStateBefore(
  ctx: LedgerContext,
  seal: SealRecord,
  previous: SealRecord | undefined,
  remembered: Remembered,
  refuse: Refuse,
): Promise<{ log: LogTree; keys: KeyPieces }> {
  const size = previous?.to_id ?? 0
  // The memory is of this very seal, not of the one before: decideSigning() compares what comes out of it.
  const isSignedAgain = remembered.seq === seal._id
  const isInMemory = remembered.log !== undefined && (isSignedAgain || remembered.log.size === size)
  // The memory of a standby, which has taken over, has no keys to compare with.
  const isWhole = isInMemory && (isSignedAgain || remembered.keys !== undefined)
  if (!isWhole && size > 0) {
    const { intact, fault } = await verifyWholeChain(ctx)
    if (!intact) throw refuse(`the chain does not hold: ${fault ?? 'no reason is stored'}`)
  }
  const isSignedLog = (log: LogTree): boolean =>
    isSignedAgain || !isInMemory || logState(log).root === remembered.log?.root
  const stored = isInMemory ? await readLogFromTiles(ctx.entries.tiles, size) : undefined
  const log =
    stored !== undefined && isSignedLog(stored) ? stored : await buildLogFromEntries(ctx.entries, size)
  if (!isSignedLog(log))
    throw refuse(
      `the entries up to ${size} give a log with the root ${logState(log).root}, and the root ${remembered.log?.root ?? ''} was signed`,
    )

  const { keys } = remembered
  if (isSignedAgain || !isInMemory || keys === undefined) {
    const reading = ctx.entries.readKeyTree(size, isSignedAgain ? undefined : 'first')
    return { log, keys: await reading.catch(refuseIfTheyDiffer(refuse)) }
  }
  const signed = await readTreeAsStated(ctx.entries.readKeyTree, size, keys)
  if (signed === undefined) {
    const { root } = keyState(await ctx.entries.readKeyTree(size, 'first'))
    throw refuse(
      `the entries up to ${size} give keys with the root ${root}, and the root ${keys.root} was signed`,
    )
  }
  return { log, keys: signed }
}

/**
 * Reads the closing entry of a seal and proves that it is the last one of the log up to that seal; undefined without a
 * seal.
 *
 * @throws SigningStopped (by `refuse`) if it is missing, doesn't close the seal, or isn't under it
 */
async function readClosingEntry(
  ctx: LedgerContext,
  previous: SealRecord | undefined,
  log: LogTree,
  refuse: Refuse,
): Promise<EntryRecord | undefined> {
  if (previous === undefined) return undefined
  const entry = await ctx.entries.find(previous.to_id)
  if (entry === undefined || !closesSeal(entry, previous._id))
    throw refuse(`entry ${previous.to_id} does not close seal ${previous._id}`)
  const { leaves: leaf } = computeLeaves([entry])
  const { size } = log
  let path: Buffer[] | undefined
  try {
    ;[path] = await proveInLog(ctx.entries.tiles, [size], size)
  } catch (error) {
    throw refuse(
      `whether entry ${size} closes seal ${previous._id} can't be seen: ${(error as Error).message}`,
    )
  }
  if (path === undefined || !verifyLogInclusion({ leaf, index: size - 1, size, path, root: log.root() }))
    throw refuse(`entry ${size} does not stand under seal ${previous._id}`)
  return entry
}
