import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { fillMoneroPool } from '../../shared/payments/monero/monero-pool.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function fillMonero(ctx: WorkerContext): Promise<void> {
  await fillMoneroPool(requireMonero(ctx))
}
