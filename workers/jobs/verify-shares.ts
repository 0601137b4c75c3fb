import type { Context } from '../../shared/context.ts'
import type { Payload } from '../../shared/queues.ts'
import { judgeBatch } from '../../shared/work/work-service.ts'

export function verifyShares(ctx: Context, payload: Payload<'verify-shares'>): Promise<void> {
  return judgeBatch(ctx, payload.batch_id)
}
