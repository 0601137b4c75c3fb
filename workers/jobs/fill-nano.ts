import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { fillNanoPool } from '../../shared/payments/nano/nano-pool.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function fillNano(ctx: WorkerContext): Promise<void> {
  await fillNanoPool(requireNano(ctx))
}
