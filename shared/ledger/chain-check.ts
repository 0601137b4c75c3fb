import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { verifySealFollows, verifySealSignature } from '../crypto/seal-payload.ts'
import { unixSeconds } from '../platform/time.ts'
import { computeLeaves } from './entry.ts'
import type { EntryStore } from './entry-store.ts'
import { createEntryTree } from './entry-tree.ts'
import { sealFields, sealSignature, type SealRecord } from './seal.ts'
import { NOTHING_VERIFIED, type ChainStatus, type SealStore } from './seal-store.ts'
import type { TileRepair } from './tile-repair.ts'

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
  for (;;) {
    const { before, after } = await ctx.database.inOrder(async (session) => {
      const before = await ctx.seals.readStatus(session)
      return { before, after: before.intact ? await verifyAfter(ctx, before, known, session) : before }
    })
    // Another process may have stored a later one meanwhile: then its status is gone on from.
    if (after === before || (await ctx.seals.writeStatus(after))) return after
  }
}

/** Verifies every seal with its entries. @returns a status, which is not stored */
const verifyFromFirst = (ctx: ChainContext, repair?: TileRepair): Promise<ChainStatus> =>
  ctx.database.inOrder((session) => verifyAfter(ctx, NOTHING_VERIFIED, undefined, session, repair))

/**
 * Verifies every seal with its entries, and stores nothing.
 *
 * @returns the first fault; undefined if all holds
 */
export const findChainFault = async (ctx: ChainContext): Promise<string | undefined> =>
  (await verifyFromFirst(ctx)).fault

/**
 * Verifies every seal with its entries, all read again, then stores and returns the chain's new status.
 *
 * @param repair replaces stored tiles that are not those of the entries; without it none is compared
 */
export async function verifyWholeChain(
  ctx: ChainContext & Pick<Context, 'now'>,
  repair?: TileRepair,
): Promise<ChainStatus> {
  const verified = await verifyFromFirst(ctx, repair)
  for (;;) {
    // Another process may have stored a status meanwhile. This one replaces it, since it covers the chain
    // from the first seal on; seals that came meanwhile are verified after that.
    const { revision } = await ctx.seals.readStatus()
    const after = { ...verified, revision, walked_at: unixSeconds(ctx.now()) }
    if (await ctx.seals.writeStatus(after)) return after.intact ? verifyNewSeals(ctx) : after
  }
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
 * signature, root), up to the first fault. Stores nothing.
 *
 * @returns the new status; `status` itself if there is nothing new
 */
async function verifyAfter(
  ctx: ChainContext,
  status: ChainStatus,
  known: KnownRoot | undefined,
  session: Session,
  repair?: TileRepair,
): Promise<ChainStatus> {
  const signatures = await verifyLateSignatures(ctx.seals, status.open, session)
  const { open } = signatures
  let { fault } = signatures
  let { seq } = status
  let previous = seq === 0 ? undefined : await ctx.seals.find(seq, session)
  if (seq > 0 && previous === undefined) fault ??= `seal ${seq} is gone`
  while (fault === undefined) {
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
    const tiles = tree.add(leaves)
    await repair?.compare(seal._id, tiles, leaves)
  }
  if (tree.count !== seal.count) return `entry ${due} is missing from the ledger`
  const { tiles, root } = tree.finish()
  const fault = compareRoot(root)
  if (fault !== undefined) return fault
  await repair?.compare(seal._id, tiles, Buffer.alloc(0))
  await repair?.replace(seal._id)
  return undefined
}
