import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { watchMonero as watch } from '../../shared/payments/monero/monero-watch.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function watchMonero(ctx: WorkerContext): Promise<void> {
  await watch(requireMonero(ctx))
}
