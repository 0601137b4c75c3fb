import type { Payload, QueueName } from '../shared/queues.ts'
import { MONERO_JOBS, NANO_JOBS } from './jobs/coin.ts'
import { checkChain } from './jobs/check-chain.ts'
import { makeSealJob } from './jobs/make-seal.ts'
import { sequence } from './jobs/sequence.ts'
import { signSealsJob } from './jobs/sign-seals.ts'
import { signAnnouncementJob } from './jobs/sign-announcement.ts'
import { sweep } from './jobs/sweep.ts'
import { verifyShares } from './jobs/verify-shares.ts'
import { refreshRates } from './jobs/refresh-rates.ts'
import { orderDeadlines } from './jobs/order-deadlines.ts'
import type { WorkerContext } from './worker-context.ts'

/** One handler for each queue; a queue without one does not compile. */
export const HANDLERS: { [Name in QueueName]: (ctx: WorkerContext, payload: Payload<Name>) => Promise<void> } = {
  sweep,
  'verify-shares': verifyShares,
  sequence,
  'make-seal': makeSealJob,
  'sign-seals': signSealsJob,
  'sign-announcement': signAnnouncementJob,
  'check-chain': checkChain,
  'check-monero': MONERO_JOBS.check,
  'check-nano': NANO_JOBS.check,
  'fill-monero': MONERO_JOBS.fill,
  'fill-nano': NANO_JOBS.fill,
  'reconcile-monero': MONERO_JOBS.reconcile,
  'reconcile-nano': NANO_JOBS.reconcile,
  'refresh-rates': refreshRates,
  'send-monero': MONERO_JOBS.send,
  'send-nano': NANO_JOBS.send,
  'sweep-nano': NANO_JOBS.sweep,
  'watch-monero': MONERO_JOBS.watch,
  'watch-nano': NANO_JOBS.watch,
  'order-deadlines': orderDeadlines,
}
