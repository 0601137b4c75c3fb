import { watchCoin } from '../../shared/payments/coin-round.ts'
import { moneroDriver } from '../../shared/payments/monero/monero-driver.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function watchMonero(ctx: WorkerContext): Promise<void> {
  await watchCoin(ctx, moneroDriver(requireMonero(ctx)))
}
