import type { Context } from '../shared/context.ts';
import type { Payload, QueueName } from '../shared/queues.ts';
import { sweep } from './jobs/sweep.ts';
import { verifyShares } from './jobs/verify-shares.ts';

/** One handler for each queue; a queue without one does not compile. */
export const HANDLERS: { [Name in QueueName]: (ctx: Context, payload: Payload<Name>) => Promise<void> } = {
  sweep,
  'verify-shares': verifyShares,
};
