import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { sendMonero as send } from '../../shared/payments/monero/monero-send.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function sendMonero(ctx: WorkerContext): Promise<void> {
  await send(requireMonero(ctx))
}
