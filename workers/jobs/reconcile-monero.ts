import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { reconcileMonero as reconcile } from '../../shared/payments/monero/monero-reconcile.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function reconcileMonero(ctx: WorkerContext): Promise<void> {
  await reconcile(requireMonero(ctx))
}
