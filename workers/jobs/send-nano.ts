import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { sendNano as send } from '../../shared/payments/nano/nano-send.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function sendNano(ctx: WorkerContext): Promise<void> {
  await send(requireNano(ctx))
}
