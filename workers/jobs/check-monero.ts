import { checkCoin } from '../../shared/payments/coin-round.ts'
import { moneroDriver } from '../../shared/payments/monero/monero-driver.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import type { Payload } from '../../shared/queues.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function checkMonero(ctx: WorkerContext, payload: Payload<'check-monero'>): Promise<void> {
  await checkCoin(ctx, moneroDriver(requireMonero(ctx)), payload.invoice_id)
}
