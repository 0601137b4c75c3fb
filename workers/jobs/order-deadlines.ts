import type { Context } from '../../shared/context.ts'
import { passDeadline } from '../../shared/market/order-deadlines.ts'
import type { Payload } from '../../shared/queues.ts'

export function orderDeadlines(ctx: Context, payload: Payload<'order-deadlines'>): Promise<void> {
  return passDeadline(ctx, payload.due_at)
}
