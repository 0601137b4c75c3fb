import type { WatchStep } from '../../shared/platform/step.ts'
import { fillStocks } from '../../shared/money/address-pool.ts'
import { checkInvoiceAddress, watchCoin } from '../../shared/money/watch-round.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import type { NanoContext } from '../../shared/money/coins/nano/nano-gateway.ts'
import { payoutRound, sweepRound } from '../../shared/money/payout-round.ts'
import { reconcileCoin } from '../../shared/money/reconcile.ts'

/** What the jobs of Nano's queues do, each by itself. */
export const watchNano = (ctx: NanoContext): Promise<unknown> => watchCoin(ctx, nanoDriver(ctx))
export const checkNanoInvoice = (ctx: NanoContext, invoiceId: string): Promise<unknown> =>
  checkInvoiceAddress(ctx, nanoDriver(ctx), invoiceId)
export const fillNanoPool = (ctx: NanoContext, watch?: WatchStep): Promise<unknown> =>
  fillStocks(ctx, nanoDriver(ctx), ctx.coins.addresses.stock('xno'), watch)
export const sendNano = (ctx: NanoContext): Promise<unknown> => payoutRound(ctx, nanoDriver(ctx))
export const sweepNano = (ctx: NanoContext): Promise<unknown> => sweepRound(ctx, nanoDriver(ctx))
/** The operator names the treasury of this wallet. */
export const reconcileNano = (ctx: NanoContext): Promise<unknown> =>
  reconcileCoin(ctx, nanoDriver(ctx), ctx.nano.wallet().treasury.address)
