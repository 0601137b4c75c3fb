import type { Context } from '../shared/context.ts'
import type { Payload, QueueName } from '../shared/queues.ts'
import { adoptSealJob } from './jobs/adopt-seal.ts'
import { checkChain } from './jobs/check-chain.ts'
import { makeSealJob } from './jobs/make-seal.ts'
import { sequence } from './jobs/sequence.ts'
import { signSealsJob } from './jobs/sign-seals.ts'
import { sweep } from './jobs/sweep.ts'
import { verifyShares } from './jobs/verify-shares.ts'

/** One handler for each queue; a queue without one does not compile. */
export const HANDLERS: { [Name in QueueName]: (ctx: Context, payload: Payload<Name>) => Promise<void> } = {
  sweep,
  'verify-shares': verifyShares,
  sequence,
  'make-seal': makeSealJob,
  'sign-seals': signSealsJob,
  'adopt-seal': adoptSealJob,
  'check-chain': checkChain,
}
