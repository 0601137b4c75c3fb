import type { CoinsContext } from '../../workers/worker-context.ts'
import { requireMonero } from '../../shared/money/coins/monero/monero-gateway.ts'
import { MONERO_JOBS } from '../../workers/jobs/coin.ts'

/** The jobs of Monero's queues, as a worker runs them. */
export const checkMonero = MONERO_JOBS.check
export const fillMonero = (ctx: CoinsContext): Promise<unknown> =>
  MONERO_JOBS.fill(ctx, ctx.coins.addresses.stock('xmr'))
/** The operator names the primary address of this wallet. */
export const reconcileMonero = async (ctx: CoinsContext): Promise<unknown> =>
  MONERO_JOBS.reconcile(ctx, { take_over: await requireMonero(ctx).monero.wallet.primaryAddress() })
export const sendMonero = (ctx: CoinsContext): Promise<unknown> => MONERO_JOBS.send(ctx)
export const watchMonero = (ctx: CoinsContext): Promise<unknown> => MONERO_JOBS.watch(ctx)
