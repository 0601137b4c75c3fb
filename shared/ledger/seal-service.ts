import type { Context } from '../context.ts';
import { CHAIN_WALK_EVERY_MS } from '../limits.ts';
import { SECOND_MS, unixSeconds } from '../time.ts';
import { nextSealAt } from './seal.ts';

/** When the next seal is due, in Unix seconds, and whether there is anything to seal. */
export async function readNextSeal(ctx: Pick<Context, 'entries' | 'seals' | 'config' | 'now'>): Promise<{ at: number; isNeeded: boolean }> {
  const last = await ctx.seals.last();
  const [waiting] = await ctx.entries.list((last?.to_id ?? 0) + 1, 1);
  const intervalSeconds = ctx.config.sealIntervalMs / SECOND_MS;
  return { at: Math.ceil(nextSealAt(last?.at, waiting?.at, intervalSeconds, unixSeconds(ctx.now()))), isNeeded: waiting !== undefined };
}

/** Enqueues what is due of sealing and of signing. Only the to-do list: both jobs look for themselves what there is to do. */
export async function enqueueDueSealing(ctx: Context): Promise<void> {
  const next = await readNextSeal(ctx);
  if (next.isNeeded && next.at <= unixSeconds(ctx.now())) await ctx.queues.enqueue('make-seal', {}, { debounceId: 'make-seal' });
  await enqueueSigning(ctx);
}

/** Enqueues the signing of seals that have no signature yet. */
export async function enqueueSigning(ctx: Context): Promise<void> {
  const unsigned = await ctx.seals.listUnsigned(1);
  if (unsigned.length > 0) await ctx.queues.enqueue('sign-seals', {}, { debounceId: 'sign-seals' });
}

/** Enqueues a walk over the whole chain where the last one is too long ago. */
export async function enqueueChainCheck(ctx: Context): Promise<void> {
  const { walked_at: walkedAt } = await ctx.seals.readStatus();
  const ageMs = walkedAt === undefined ? Number.POSITIVE_INFINITY : ctx.now() - walkedAt * SECOND_MS;
  // A clock that was set back makes it walk once more.
  if (ageMs >= CHAIN_WALK_EVERY_MS || ageMs < -SECOND_MS) await ctx.queues.enqueue('check-chain', {}, { debounceId: 'check-chain' });
}
