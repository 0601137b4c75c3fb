import { answerLookUp } from '../../shared/payments/look-up.ts'
import { nanoDriver } from '../../shared/payments/nano/nano-driver.ts'
import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { checkNanoInvoice } from '../../shared/payments/nano/nano-watch.ts'
import type { Payload } from '../../shared/queues.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function checkNano(ctx: WorkerContext, { invoice_id: invoiceId, tx }: Payload<'check-nano'>): Promise<void> {
  const own = requireNano(ctx)
  if (tx !== undefined) await answerLookUp(own, nanoDriver(own), tx)
  if (invoiceId !== undefined) await checkNanoInvoice(own, invoiceId)
}
