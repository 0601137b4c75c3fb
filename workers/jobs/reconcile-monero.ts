import { reconcileCoin } from '../../shared/payments/reconcile.ts'
import { moneroDriver } from '../../shared/payments/monero/monero-driver.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function reconcileMonero(ctx: WorkerContext): Promise<void> {
  await reconcileCoin(ctx, moneroDriver(requireMonero(ctx)))
}
