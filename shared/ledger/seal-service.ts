import type { Context } from '../context.ts'
import type { Seal } from '../crypto/seal-payload.ts'
import { CHAIN_WALK_EVERY_MS, MAX_SEALS_LISTED } from '../platform/limits.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { findTailFault } from './chain-check.ts'
import { nextSealAt, viewSeal } from './seal.ts'

type SealContext = Pick<Context, 'config' | 'queues' | 'entries' | 'seals' | 'now'>

/** When the next seal is due (`at`, Unix seconds), and whether there is an entry to seal (`isNeeded`). */
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

/** Enqueues a sealing job if a seal is due, and a signing job if a seal is unsigned. */
export async function enqueueDueSealing(ctx: SealContext): Promise<void> {
  const next = await readNextSeal(ctx)
  if (next.isNeeded && next.at <= unixSeconds(ctx.now()))
    await ctx.queues.enqueue('make-seal', {}, { debounceId: 'make-seal' })
  await enqueueSigning(ctx)
}

/** Enqueues a signing job if there is an unsigned seal. */
export async function enqueueSigning(ctx: SealContext): Promise<void> {
  const unsigned = await ctx.seals.listUnsigned(1)
  if (unsigned.length > 0) await ctx.queues.enqueue('sign-seals', {}, { debounceId: 'sign-seals' })
}

/** Enqueues a run of the walk over the chain if the last one is too long ago, or there was none. */
export async function enqueueChainCheck(ctx: SealContext): Promise<void> {
  const { walked_at: walkedAt, walk } = await ctx.seals.readStatus()
  const lastAt = walk?.stopped_at ?? walkedAt
  const ageMs = lastAt === undefined ? Number.POSITIVE_INFINITY : ctx.now() - lastAt * SECOND_MS
  // A negative age means that the clock was set back: then the chain is checked once more.
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

/** How many seals that the workers haven't verified yet a request verifies. */
const TAIL_SEALS = 100

/**
 * Reads where the chain stands: the last seal, the seqs of the first unsigned ones, and the workers' status.
 * `tag` changes with any of these, so that an ETag needs no list of seals.
 */
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
 * Lists up to `limit` seals after `afterSeq`, or the newest ones if it is absent, ascending, as GET /seal
 * does.
 *
 * `isIntact` is what the workers found, who verify each seal as it comes and the whole chain every hour.
 * Links and signatures of newer seals are verified here; their roots were just computed from the stored
 * entries.
 *
 * @param state from readChainState()
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
  const isTruncated =
    afterSeq === undefined ? (seals[0]?._id ?? 1) > 1 : (seals.at(-1)?._id ?? lastSeq) < lastSeq
  return {
    seals: seals.map(viewSeal),
    unsignedSeqs,
    isIntact,
    isTruncated,
    verified: { seq: status.seq, walkedAt: status.walked_at ?? null },
  }
}
