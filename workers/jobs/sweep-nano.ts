import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { sweepNano as sweep } from '../../shared/payments/nano/nano-sweep.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function sweepNano(ctx: WorkerContext): Promise<void> {
  await sweep(requireNano(ctx))
}
