import type { Payload, QueueName } from '../shared/queues.ts'
import { adoptSealJob } from './jobs/adopt-seal.ts'
import { NANO_JOBS } from './jobs/coin.ts'
import { checkChain } from './jobs/check-chain.ts'
import { makeSealJob } from './jobs/make-seal.ts'
import { sequence } from './jobs/sequence.ts'
import { signSealsJob } from './jobs/sign-seals.ts'
import { signAnnouncementJob } from './jobs/sign-announcement.ts'
import { sweep } from './jobs/sweep.ts'
import { verifyShares } from './jobs/verify-shares.ts'
import { checkMonero } from './jobs/check-monero.ts'
import { fillMonero } from './jobs/fill-monero.ts'
import { reconcileMonero } from './jobs/reconcile-monero.ts'
import { refreshRates } from './jobs/refresh-rates.ts'
import { sendMonero } from './jobs/send-monero.ts'
import { watchMonero } from './jobs/watch-monero.ts'
import { orderDeadlines } from './jobs/order-deadlines.ts'
import type { WorkerContext } from './worker-context.ts'

/** One handler for each queue; a queue without one does not compile. */
export const HANDLERS: { [Name in QueueName]: (ctx: WorkerContext, payload: Payload<Name>) => Promise<void> } = {
  sweep,
  'verify-shares': verifyShares,
  sequence,
  'make-seal': makeSealJob,
  'sign-seals': signSealsJob,
  'adopt-seal': adoptSealJob,
  'sign-announcement': signAnnouncementJob,
  'check-chain': checkChain,
  'check-monero': checkMonero,
  'check-nano': NANO_JOBS.check,
  'fill-monero': fillMonero,
  'fill-nano': NANO_JOBS.fill,
  'reconcile-monero': reconcileMonero,
  'reconcile-nano': NANO_JOBS.reconcile,
  'refresh-rates': refreshRates,
  'send-monero': sendMonero,
  'send-nano': NANO_JOBS.send,
  'sweep-nano': NANO_JOBS.sweep,
  'watch-monero': watchMonero,
  'watch-nano': NANO_JOBS.watch,
  'order-deadlines': orderDeadlines,
}
