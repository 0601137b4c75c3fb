import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { checkMoneroInvoice } from '../../shared/payments/monero/monero-watch.ts'
import type { Payload } from '../../shared/queues.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function checkMonero(ctx: WorkerContext, payload: Payload<'check-monero'>): Promise<void> {
  await checkMoneroInvoice(requireMonero(ctx), payload.invoice_id)
}
