import { checkCoin } from '../../shared/payments/coin-round.ts'
import { answerLookUp } from '../../shared/payments/look-up.ts'
import { moneroDriver } from '../../shared/payments/monero/monero-driver.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import type { Payload } from '../../shared/queues.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function checkMonero(ctx: WorkerContext, { invoice_id: invoiceId, tx }: Payload<'check-monero'>): Promise<void> {
  const driver = moneroDriver(requireMonero(ctx))
  if (tx !== undefined) await answerLookUp(ctx, driver, tx)
  if (invoiceId !== undefined) await checkCoin(ctx, driver, invoiceId)
}
