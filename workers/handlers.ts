import { signAnnouncement } from '../shared/announcements/announcement-service.ts'
import { enqueueDueSealing, enqueueSigning } from '../shared/ledger/seal-service.ts'
import { makeSeal } from '../shared/ledger/sealer.ts'
import { sequencePending } from '../shared/ledger/sequencer.ts'
import { requestCosignatures } from '../shared/ledger/witnesses.ts'
import { signSeals } from '../shared/ledger/signing.ts'
import { noteOutcome } from '../shared/ledger/signing-state.ts'
import { actOnDeadline } from '../shared/market/order-deadlines.ts'
import type { Coin } from '../shared/money/coin.ts'
import { listCoinsInUse, refreshRate } from '../shared/money/rate.ts'
import { settleWaiting } from '../shared/money/settlement.ts'
import type { Payload, QueueName } from '../shared/platform/queues.ts'
import { verifyBatch } from '../shared/passes/work-service.ts'
import { checkChain } from './jobs/check-chain.ts'
import { MONERO_JOBS, NANO_JOBS } from './jobs/coin.ts'
import { sweep } from './jobs/sweep.ts'
import type { WorkerContext } from './worker-context.ts'

/**
 * How long a requested seal waits for a run of another process: that run began before the request and may
 * miss its entries. Longer than the lease of a dead process.
 */
const OTHERS_WAIT_MS = 15_000

/** The handler of each queue; a queue without one does not compile. */
export const HANDLERS: {
  [Name in QueueName]: (ctx: WorkerContext, payload: Payload<Name>) => Promise<void>
} = {
  sweep,
  'verify-shares': (ctx, { batch_id: batchId }) => verifyBatch(ctx, batchId),

  async sequence(ctx) {
    // One question, and no look into each collection: an idle network gets each fifth job without one.
    if (await ctx.entries.hasPending()) await sequencePending(ctx)
    await enqueueDueSealing(ctx)
  },
  async 'make-seal'(ctx) {
    await sequencePending(ctx, { waitMs: OTHERS_WAIT_MS })
    const seal = await makeSeal(ctx, { waitMs: OTHERS_WAIT_MS })
    if (seal !== undefined) ctx.log.info({ seq: seal._id, count: seal.count }, 'a seal was made')
    await enqueueSigning(ctx)
  },
  async 'sign-seals'(ctx) {
    const { signed } = await noteOutcome(ctx.signing, ctx.log, () => signSeals(ctx))
    if (signed === 0) return
    ctx.log.info({ signed }, 'seals were signed')
    if (ctx.signing.witnesses.length > 0) await ctx.queues.enqueue('cosign', {}, { debounceId: 'cosign' })
  },
  cosign: (ctx) => requestCosignatures(ctx, ctx.signing.witnesses),
  async 'sign-announcement'(ctx, payload) {
    if (await signAnnouncement(ctx, payload.announcement_id))
      ctx.log.info(payload, 'an announcement was signed')
  },
  'check-chain': checkChain,

  /** Refreshes each coin's rate; with a new one, settles payments that waited for a rate. */
  async 'refresh-rates'(ctx) {
    const settleByNewRate = async (coin: Coin): Promise<void> => {
      if (await refreshRate(ctx, coin)) await settleWaiting(ctx, coin)
    }
    await Promise.all((await listCoinsInUse(ctx)).map(settleByNewRate))
  },
  'watch-nano': NANO_JOBS.watch,
  'watch-monero': MONERO_JOBS.watch,
  'check-nano': NANO_JOBS.check,
  'check-monero': MONERO_JOBS.check,
  'fill-nano': NANO_JOBS.fill,
  'fill-monero': MONERO_JOBS.fill,
  'sweep-nano': NANO_JOBS.sweep,
  'send-nano': NANO_JOBS.send,
  'send-monero': MONERO_JOBS.send,
  'reconcile-nano': NANO_JOBS.reconcile,
  'reconcile-monero': MONERO_JOBS.reconcile,
  'order-deadlines': (ctx, { due_at: dueAt }) => actOnDeadline(ctx, dueAt),
}
