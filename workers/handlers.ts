import type { Payload, QueueName } from '../shared/queues.ts'
import { checkChain } from './jobs/check-chain.ts'
import { makeSealJob } from './jobs/make-seal.ts'
import { sequence } from './jobs/sequence.ts'
import { signSealsJob } from './jobs/sign-seals.ts'
import { signAnnouncementJob } from './jobs/sign-announcement.ts'
import { sweep } from './jobs/sweep.ts'
import { verifyShares } from './jobs/verify-shares.ts'
import { checkMonero } from './jobs/check-monero.ts'
import { checkNano } from './jobs/check-nano.ts'
import { fillMonero } from './jobs/fill-monero.ts'
import { fillNano } from './jobs/fill-nano.ts'
import { reconcileMonero } from './jobs/reconcile-monero.ts'
import { reconcileNano } from './jobs/reconcile-nano.ts'
import { refreshRates } from './jobs/refresh-rates.ts'
import { sendMonero } from './jobs/send-monero.ts'
import { sendNano } from './jobs/send-nano.ts'
import { sweepNano } from './jobs/sweep-nano.ts'
import { watchMonero } from './jobs/watch-monero.ts'
import { watchNano } from './jobs/watch-nano.ts'
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
  'check-monero': checkMonero,
  'check-nano': checkNano,
  'fill-monero': fillMonero,
  'fill-nano': fillNano,
  'reconcile-monero': reconcileMonero,
  'reconcile-nano': reconcileNano,
  'refresh-rates': refreshRates,
  'send-monero': sendMonero,
  'send-nano': sendNano,
  'sweep-nano': sweepNano,
  'watch-monero': watchMonero,
  'watch-nano': watchNano,
  'order-deadlines': orderDeadlines,
}
