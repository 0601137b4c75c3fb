import { listCoinsInUse, refreshRate } from '../../shared/payments/rate.ts'
import { settleWaiting } from '../../shared/payments/settlement.ts'
import type { WorkerContext } from '../worker-context.ts'

/** Stores the rate of each coin in use, and settles the late money that waited for one. */
export async function refreshRates(ctx: WorkerContext): Promise<void> {
  await Promise.all(
    (await listCoinsInUse(ctx)).map(async (coin) => ((await refreshRate(ctx, coin)) ? settleWaiting(ctx, coin) : undefined)),
  )
}
