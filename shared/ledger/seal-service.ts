import type { Context } from '../context.ts'
import type { Seal } from '../crypto/seal-payload.ts'
import { CHAIN_WALK_EVERY_MS, MAX_SEALS_LISTED } from '../foundation/limits.ts'
import { SECOND_MS, unixSeconds } from '../foundation/time.ts'
import { findTailFault } from './chain-check.ts'
import { nextSealAt, viewSeal } from './seal.ts'

/** When the next seal is due, in Unix seconds, and whether there is anything to seal. */
export async function readNextSeal(
  ctx: Pick<Context, 'entries' | 'seals' | 'config' | 'now'>,
): Promise<{ at: number; isNeeded: boolean }> {
  const last = await ctx.seals.last()
  const [waiting] = await ctx.entries.list((last?.to_id ?? 0) + 1, 1)
  const intervalSeconds = ctx.config.sealIntervalMs / SECOND_MS
  return {
    at: Math.ceil(nextSealAt(last?.at, waiting?.at, intervalSeconds, unixSeconds(ctx.now()))),
    isNeeded: waiting !== undefined,
  }
}

/** Enqueues sealing and signing if they are due. Both jobs look for themselves what there is to do. */
export async function enqueueDueSealing(ctx: Context): Promise<void> {
  const next = await readNextSeal(ctx)
  if (next.isNeeded && next.at <= unixSeconds(ctx.now()))
    await ctx.queues.enqueue('make-seal', {}, { debounceId: 'make-seal' })
  await enqueueSigning(ctx)
}

/** Enqueues signing if there is an unsigned seal. */
export async function enqueueSigning(ctx: Context): Promise<void> {
  const unsigned = await ctx.seals.listUnsigned(1)
  if (unsigned.length > 0) await ctx.queues.enqueue('sign-seals', {}, { debounceId: 'sign-seals' })
}

/** Enqueues verifyWholeChain() if it last ran too long ago. */
export async function enqueueChainCheck(ctx: Context): Promise<void> {
  const { walked_at: walkedAt } = await ctx.seals.readStatus()
  const ageMs = walkedAt === undefined ? Number.POSITIVE_INFINITY : ctx.now() - walkedAt * SECOND_MS
  // If the clock was set back, the chain is verified once more.
  if (ageMs >= CHAIN_WALK_EVERY_MS || ageMs < -SECOND_MS)
    await ctx.queues.enqueue('check-chain', {}, { debounceId: 'check-chain' })
}

export interface SealList {
  seals: Seal[]
  /** The first unsigned seals of the whole chain, ascending. */
  unsignedSeqs: number[]
  isIntact: boolean
  /** There are more seals after these; or, of the newest, before them. */
  isTruncated: boolean
  /** How far roots, links and signatures were verified by the workers. */
  verified: { seq: number; walkedAt: number | null }
}

/** At most so many seals that the workers have not verified yet are verified by a request. */
const TAIL_SEALS = 100

/** Where the chain stands. `tag` is the same text for the same state, so an ETag needs no list of seals. */
export async function readChainState(ctx: Pick<Context, 'seals'>) {
  const [last, unsignedSeqs, status] = await Promise.all([
    ctx.seals.last(),
    ctx.seals.listUnsigned(MAX_SEALS_LISTED),
    ctx.seals.readStatus(),
  ])
  return {
    last,
    unsignedSeqs,
    status,
    tag: `${last?._id ?? 0}-${unsignedSeqs.length}-${unsignedSeqs[0] ?? 0}-${status.revision}`,
  }
}

/**
 * The seals after `afterSeq`, or the newest ones if it is absent, ascending.
 *
 * `isIntact` is what the workers found, who verify each seal as it comes and the whole chain every hour. Links
 * and signatures of newer seals are verified here; their roots were just computed from the stored entries.
 */
export async function listSeals(
  ctx: Pick<Context, 'database' | 'seals'>,
  state: Awaited<ReturnType<typeof readChainState>>,
  afterSeq: number | undefined,
  limit: number,
): Promise<SealList> {
  const { last, unsignedSeqs, status } = state
  const seals =
    afterSeq === undefined ? await ctx.seals.listNewest(limit) : await ctx.seals.listAfter(afterSeq, limit)
  const lastSeq = last?._id ?? 0
  const isIntact =
    status.intact &&
    (lastSeq <= status.seq || (await findTailFault(ctx, status.seq, TAIL_SEALS)) === undefined)
  const [first] = seals
  const isTruncated =
    afterSeq === undefined ? (first?._id ?? 1) > 1 : (seals.at(-1)?._id ?? lastSeq) < lastSeq
  return {
    seals: seals.map(viewSeal),
    unsignedSeqs,
    isIntact,
    isTruncated,
    verified: { seq: status.seq, walkedAt: status.walked_at ?? null },
  }
}
