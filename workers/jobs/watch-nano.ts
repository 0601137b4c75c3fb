import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { watchNano as watch } from '../../shared/payments/nano/nano-watch.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function watchNano(ctx: WorkerContext): Promise<void> {
  await watch(requireNano(ctx))
}
