import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { verifySealFollows, verifySealSignature } from '../crypto/seal-payload.ts'
import { change } from '../platform/change.ts'
import { unixSeconds } from '../platform/time.ts'
import { computeLeaves } from './entry.ts'
import { CHAIN_WALK_ENTRIES } from '../platform/limits.ts'
import type { EntryStore } from './entry-store.ts'
import { createEntryTree } from './entry-tree.ts'
import { readLogFromFullTiles } from './log.ts'
import { sealFields, sealSignature, type SealRecord } from './seal.ts'
import { NOTHING_VERIFIED, type ChainStatus, type SealStore } from './seal-store.ts'
import { createTileRepair, type TileRepair } from './tile-repair.ts'

type ChainContext = Pick<Context, 'database' | 'entries' | 'seals'>

/** Seals read at once. */
const PAGE_SEALS = 500

/**
 * A root that the caller has just computed from the stored entries of a seal, so they needn't be read again.
 */
interface KnownRoot {
  seq: number
  root: string
}

/**
 * Verifies the seals and signatures that the stored status doesn't cover yet, then stores and returns the new
 * status. If the stored status has a fault, nothing is verified: the fault stays until verifyWholeChain()
 * finds none.
 */
export async function verifyNewSeals(ctx: ChainContext, known?: KnownRoot): Promise<ChainStatus> {
  return change({
    now: ctx.database.now,
    read: () =>
      ctx.database.inOrder(async (session) => {
        const before = await ctx.seals.readStatus(session)
        return { before, after: before.intact ? await verifyAfter(ctx, before, session, { known }) : before }
      }),
    decide: ({ before, after }) => ({ after, isNews: after !== before }),
    async store({ after, isNews }) {
      if (isNews) await ctx.seals.writeStatus(after)
      return after
    },
  })
}

/** Verifies every seal with its entries. @returns a status, which is not stored */
const verifyFromFirst = (ctx: ChainContext): Promise<ChainStatus> =>
  ctx.database.inOrder((session) => verifyAfter(ctx, NOTHING_VERIFIED, session))

/**
 * Verifies every seal with its entries, and stores nothing.
 *
 * @returns the first fault; undefined if all holds
 */
export const findChainFault = async (ctx: ChainContext): Promise<string | undefined> =>
  (await verifyFromFirst(ctx)).fault

/** Verifies every seal with its entries, all read again, then stores and returns the chain's new status. */
export async function verifyWholeChain(ctx: ChainContext & Pick<Context, 'now'>): Promise<ChainStatus> {
  const beganAt = unixSeconds(ctx.now())
  return storeWalked(ctx, await verifyFromFirst(ctx), beganAt)
}

/** Stores what a walk over the whole chain has found, and verifies the seals that came meanwhile. */
async function storeWalked(ctx: ChainContext, verified: ChainStatus, beganAt: number): Promise<ChainStatus> {
  const { seq, open, intact, fault } = verified
  const found = { seq, open, intact, ...(fault === undefined ? {} : { fault }), walked_at: beganAt }
  // Another process may have stored a status meanwhile. This one replaces it, since it covers the chain from the
  // first seal on.
  const after = await changeStatus(ctx, ({ revision }) => ({ ...found, revision }))
  return after.intact ? verifyNewSeals(ctx) : after
}

/** Replaces the chain's status by what follows from it. @returns the new one */
const changeStatus = (
  ctx: ChainContext,
  decide: (before: ChainStatus) => ChainStatus,
): Promise<ChainStatus> =>
  change({
    now: ctx.database.now,
    read: () => ctx.seals.readStatus(),
    decide,
    async store(after) {
      await ctx.seals.writeStatus(after)
      return after
    },
  })

/** What one run of the walk has verified: the seals after `after`, undefined for the first, up to `seq`. */
export interface WalkRun {
  after: SealRecord | undefined
  seq: number
  /** What doesn't hold. */
  fault: string | undefined
  /** Whether that is all of the chain, together with the runs before. */
  isEnd: boolean
  /** How many stored tiles were not those of the entries, and were replaced. */
  repairedTiles: number
}

/**
 * Continues the walk over the chain: it verifies seals with their entries, from the seal at which the last run
 * stopped, or from the first one, and replaces stored tiles that are not those of the entries. At the end of the
 * chain, or at a fault, it stores the chain's new status; before the end it stores the seal at which it stopped.
 *
 * @param maxEntries after so many entries the run stops, at the end of a seal
 */
export async function walkOn(
  ctx: ChainContext & Pick<Context, 'now'>,
  maxEntries: number = CHAIN_WALK_ENTRIES,
): Promise<WalkRun> {
  const now = unixSeconds(ctx.now())
  const { place, after, log } = await readWalkPlace(ctx, now)
  const repair = createTileRepair(ctx, log)
  const status = { ...NOTHING_VERIFIED, seq: place.seq, open: place.open }
  const verified = await ctx.database.inOrder((session) =>
    verifyAfter(ctx, status, session, { repair, maxEntries }),
  )
  const { seq, fault } = verified
  const isEnd = fault !== undefined || (await ctx.seals.listAfter(seq, 1)).length === 0
  const repairedTiles = await repair.finish(isEnd && fault === undefined)
  const run = { after, seq, isEnd, repairedTiles }
  if (isEnd) {
    const { fault: found } = await storeWalked(ctx, verified, place.began_at)
    return { ...run, fault: fault ?? found }
  }
  const walk = { ...place, seq, open: verified.open, stopped_at: unixSeconds(ctx.now()) }
  await changeStatus(ctx, (before) => ({ ...before, walk }))
  return { ...run, fault }
}

/**
 * Reads the seal after which the walk continues, and the log up to that seal. If the stored full tiles don't give the
 * log that was signed with it, some tiles are wrong: then the walk begins anew, and replaces them on its way.
 */
async function readWalkPlace(ctx: ChainContext, now: number) {
  const { walk } = await ctx.seals.readStatus()
  const after = walk && (await ctx.seals.find(walk.seq))
  const log = after && (await readLogFromFullTiles(ctx.entries, after.to_id))
  if (walk !== undefined && log !== undefined && log.root().toString('hex') === after?.log_root)
    return { place: walk, after, log }
  return { place: { seq: 0, open: [], began_at: now, stopped_at: now }, after: undefined, log: undefined }
}

/**
 * Verifies the links and signatures of up to `limit` seals after `seq`, and not their roots. Stores nothing.
 *
 * @returns the first fault; undefined if all holds
 */
export async function findTailFault(
  ctx: Pick<Context, 'database' | 'seals'>,
  seq: number,
  limit: number,
): Promise<string | undefined> {
  const { last, tail } = await ctx.database.inOrder(async (session) => ({
    last: seq === 0 ? undefined : await ctx.seals.find(seq, session),
    tail: await ctx.seals.listAfter(seq, limit, session),
  }))
  let previous = last
  for (const seal of tail) {
    const fault = findLinkFault(previous, seal) ?? findSignatureFault(seal)
    if (fault !== undefined) return fault
    previous = seal
  }
  return undefined
}

/**
 * Verifies what `status` doesn't cover: late signatures of its open seals, and every later seal (link,
 * signature, root), up to the first fault. Stores nothing but tiles.
 *
 * @param options.repair replaces stored tiles that are not those of the entries; without it none is compared
 * @param options.maxEntries after so many it stops at the end of a seal
 * @returns the new status; `status` itself if there is nothing new
 */
async function verifyAfter(
  ctx: ChainContext,
  status: ChainStatus,
  session: Session,
  options: { known?: KnownRoot | undefined; repair?: TileRepair; maxEntries?: number } = {},
): Promise<ChainStatus> {
  const { known, repair, maxEntries = Number.POSITIVE_INFINITY } = options
  let entriesLeft = maxEntries
  const signatures = await verifyLateSignatures(ctx.seals, status.open, session)
  const { open } = signatures
  let { fault } = signatures
  let { seq } = status
  let previous = seq === 0 ? undefined : await ctx.seals.find(seq, session)
  if (seq > 0 && previous === undefined) fault ??= `seal ${seq} is gone`
  while (fault === undefined && entriesLeft > 0) {
    const page = await ctx.seals.listAfter(seq, PAGE_SEALS, session)
    if (page.length === 0) break
    for (const seal of page) {
      fault =
        findLinkFault(previous, seal) ??
        findSignatureFault(seal) ??
        (await findRootFault(ctx.entries, seal, known, session, repair))
      if (fault !== undefined) break
      if (!seal.signed) open.push(seal._id)
      previous = seal
      seq = seal._id
      entriesLeft -= seal.count
      if (entriesLeft <= 0) break
    }
  }
  if (fault === undefined && seq === status.seq && open.length === status.open.length) return status
  return { ...status, seq, open, intact: fault === undefined, ...(fault === undefined ? {} : { fault }) }
}

/**
 * Verifies the signatures that open seals (verified while they were unsigned) have got since. A seal that is
 * gone meanwhile stays open; verifyWholeChain() finds it.
 *
 * @param open seqs, ascending
 * @returns the seqs that are still open, and the first fault; on a fault, all of `open`
 */
async function verifyLateSignatures(
  seals: Pick<SealStore, 'listSigned'>,
  open: readonly number[],
  session: Session,
): Promise<{ open: number[]; fault: string | undefined }> {
  const last = open.at(-1)
  const late = new Set<number>()
  let from = open[0]
  while (from !== undefined && last !== undefined) {
    const page = await seals.listSigned(from, last, PAGE_SEALS, session)
    for (const seal of page) {
      const fault = findSignatureFault(seal)
      if (fault !== undefined) return { open: [...open], fault }
      late.add(seal._id)
    }
    const end = page.at(-1)?._id
    from = page.length < PAGE_SEALS || end === undefined ? undefined : end + 1
  }
  return { open: open.filter((seq) => !late.has(seq)), fault: undefined }
}

/** What is wrong with a seal as the one after `previous`; undefined if it follows. */
function findLinkFault(previous: SealRecord | undefined, seal: SealRecord): string | undefined {
  const verdict = verifySealFollows(previous === undefined ? null : sealFields(previous), sealFields(seal))
  return verdict.ok ? undefined : `seal ${seal._id}: ${verdict.message}`
}

/** What is wrong with a seal's signature; undefined if it verifies, or if the seal is unsigned. */
function findSignatureFault(seal: SealRecord): string | undefined {
  if (!seal.signed)
    return seal.signature === undefined
      ? undefined
      : `seal ${seal._id} says that it is not signed and has a signature`
  let verdict
  try {
    verdict = verifySealSignature({ ...sealFields(seal), ...sealSignature(seal) })
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  return verdict.ok ? undefined : `seal ${seal._id}: ${verdict.message}`
}

/**
 * Computes a seal's root from its stored entries, unless `known` is of this seal, and compares.
 *
 * @returns what is wrong: an entry is missing, or the root is another; undefined if all holds
 */
async function findRootFault(
  entries: Pick<EntryStore, 'pages'>,
  seal: SealRecord,
  known: KnownRoot | undefined,
  session: Session,
  repair: TileRepair | undefined,
): Promise<string | undefined> {
  const compareRoot = (root: string): string | undefined =>
    root === seal.root
      ? undefined
      : `seal ${seal._id}: the root of its stored entries is ${root}, not ${seal.root}`
  if (known?.seq === seal._id) return compareRoot(known.root)
  const tree = createEntryTree()
  let due = seal.from_id
  for await (const page of entries.pages(seal.from_id, seal.to_id, session)) {
    for (const entry of page) {
      if (entry._id !== due) return `entry ${due} is missing from the ledger`
      due++
    }
    const { leaves } = computeLeaves(page)
    tree.add(leaves)
    await repair?.compare(leaves)
  }
  if (tree.count !== seal.count) return `entry ${due} is missing from the ledger`
  const fault = compareRoot(tree.finish().root)
  if (fault !== undefined) return fault
  await repair?.replace()
  return undefined
}
