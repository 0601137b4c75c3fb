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
import type { Payload, QueueName } from '../shared/platform/queue-table.ts'
import { verifyBatch } from '../shared/passes/work-service.ts'
import { ring } from '../shared/doorbells/ring.ts'
import { checkChain } from './jobs/check-chain.ts'
import { MONERO_JOBS, NANO_JOBS } from './jobs/coin.ts'
import { findRingsSince } from './jobs/find-rings.ts'
import { sweep } from './jobs/sweep.ts'
import type { JobResult } from './job-result.ts'
import { requireRinger, type WorkerContext } from './worker-context.ts'

/**
 * How long a requested seal waits for a run of another process: that run began before the request and may
 * miss its entries. Longer than the lease of a dead process.
 */
const OTHERS_WAIT_MS = 15_000

/** The handler of each queue; a queue without one does not compile. */
export const HANDLERS: {
  [Name in QueueName]: (ctx: WorkerContext, payload: Payload<Name>) => Promise<JobResult>
} = {
  sweep,
  'verify-shares': (ctx, { batch_id: batchId }) => verifyBatch(ctx, batchId),

  async sequence(ctx) {
    // One question, and no look into each collection: an idle network gets each fifth job without one.
    const numbered = (await ctx.entries.hasPending()) ? await sequencePending(ctx) : 0
    await enqueueDueSealing(ctx)
    return { numbered }
  },
  async 'make-seal'(ctx) {
    const numbered = await sequencePending(ctx, { waitMs: OTHERS_WAIT_MS })
    const seal = await makeSeal(ctx, { waitMs: OTHERS_WAIT_MS })
    if (seal !== undefined) ctx.log.info({ seq: seal._id, count: seal.count }, 'a seal was made')
    await enqueueSigning(ctx)
    return { numbered, ...(seal === undefined ? {} : { seal: seal._id, entries: seal.count }) }
  },
  async 'sign-seals'(ctx) {
    const { signed, because } = await noteOutcome(ctx.signing, ctx.log, () => signSeals(ctx))
    const result = { signed, because }
    if (signed === 0) return result
    ctx.log.info({ signed }, 'seals were signed')
    if (ctx.signing.witnesses.length > 0) await ctx.queues.enqueue('cosign', {}, { debounceId: 'cosign' })
    return result
  },
  async cosign(ctx) {
    return { witnesses_asked: await requestCosignatures(ctx, ctx.signing.witnesses) }
  },
  async 'sign-announcement'(ctx, payload) {
    const signed = await signAnnouncement(ctx, payload.announcement_id)
    if (signed) ctx.log.info(payload, 'an announcement was signed')
    return { signed }
  },
  'check-chain': checkChain,

  /** Refreshes each coin's rate; with a new one, settles payments that waited for a rate. */
  async 'refresh-rates'(ctx) {
    const settleByNewRate = async (coin: Coin) => {
      const isNew = await refreshRate(ctx, coin)
      return { coin, isNew, settled: isNew ? await settleWaiting(ctx, coin) : 0 }
    }
    const coins = await Promise.all((await listCoinsInUse(ctx)).map(settleByNewRate))
    const renewed = coins.filter(({ isNew }) => isNew)
    return {
      rates: renewed.map(({ coin }) => coin).join(', ') || 0,
      payments_that_waited: renewed.reduce((all, { settled }) => all + settled, 0),
    }
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
  'find-rings': findRingsSince,
  doorbells: (ctx, { agent_id: agentId }) => ring(ctx, requireRinger(ctx), agentId),
  'slow-doorbells': (ctx, { agent_id: agentId }) => ring(ctx, requireRinger(ctx), agentId),
  async 'order-deadlines'(ctx, { due_at: dueAt }) {
    return { orders: await actOnDeadline(ctx, dueAt) }
  },
}
