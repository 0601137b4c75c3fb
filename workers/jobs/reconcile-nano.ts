import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { reconcileNano as reconcile } from '../../shared/payments/nano/nano-reconcile.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function reconcileNano(ctx: WorkerContext): Promise<void> {
  await reconcile(requireNano(ctx))
}
