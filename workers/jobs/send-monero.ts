import { payoutRound } from '../../shared/payments/payout-round.ts'
import { moneroDriver } from '../../shared/payments/monero/monero-driver.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function sendMonero(ctx: WorkerContext): Promise<void> {
  await payoutRound(ctx, moneroDriver(requireMonero(ctx)))
}
