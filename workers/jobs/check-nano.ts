import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { checkNanoInvoice } from '../../shared/payments/nano/nano-watch.ts'
import type { Payload } from '../../shared/queues.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function checkNano(ctx: WorkerContext, payload: Payload<'check-nano'>): Promise<void> {
  await checkNanoInvoice(requireNano(ctx), payload.invoice_id)
}
