import { compareBooks } from '../../shared/money/books.ts'
import { fillStocks } from '../../shared/money/address-pool.ts'
import { answerLookUp, checkInvoiceAddress, watchCoin } from '../../shared/money/watch-round.ts'
import { proveControl } from '../../shared/money/control-service.ts'
import type { CoinDriver } from '../../shared/money/driver.ts'
import { moneroDriver } from '../../shared/money/coins/monero/monero-driver.ts'
import { requireMonero } from '../../shared/money/coins/monero/monero-gateway.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { requireNano } from '../../shared/money/coins/nano/nano-gateway.ts'
import { payoutRound, sweepRound } from '../../shared/money/payout-round.ts'
import { reconcileCoin } from '../../shared/money/reconcile.ts'
import type { Payload } from '../../shared/platform/queue-table.ts'
import type { JobResult } from '../job-result.ts'
import type { CoinsContext } from '../worker-context.ts'

type Job = (ctx: CoinsContext) => Promise<JobResult>

/** The handlers of one coin's queues, by the queue's name without the coin. */
interface CoinJobs {
  watch: Job
  check(ctx: CoinsContext, payload: Payload<'check-nano' | 'check-monero'>): Promise<JobResult>
  fill(ctx: CoinsContext, payload: Payload<'fill-nano' | 'fill-monero'>): Promise<JobResult>
  send: Job
  reconcile(ctx: CoinsContext, payload: Payload<'reconcile-nano' | 'reconcile-monero'>): Promise<JobResult>
}

/**
 * The handlers of a coin's queues.
 *
 * @param open makes the coin's driver; it throws if the coin isn't set up here
 */
const jobsOf = (open: (ctx: CoinsContext) => CoinDriver): CoinJobs => ({
  async watch(ctx) {
    const driver = open(ctx)
    const result = await watchCoin(ctx, driver)
    await compareBooks(ctx, driver)
    return result
  },
  async check(ctx, { invoice_id: invoiceId, tx }) {
    if (tx !== undefined) await answerLookUp(ctx, open(ctx), tx)
    if (invoiceId !== undefined) await checkInvoiceAddress(ctx, open(ctx), invoiceId)
    return {}
  },
  fill: (ctx, { holder, given = -1 }) =>
    fillStocks(ctx, open(ctx), holder === undefined ? undefined : { holder, given }),
  async send(ctx) {
    const driver = open(ctx)
    const result = await payoutRound(ctx, driver)
    await proveControl(ctx, driver)
    return result
  },
  async reconcile(ctx, { reconciliation_id: id, take_over: takeOver }) {
    await reconcileCoin(ctx, open(ctx), takeOver, id)
    return {}
  },
})

export const NANO_JOBS = {
  ...jobsOf((ctx) => nanoDriver(requireNano(ctx))),
  sweep: (ctx: CoinsContext) => sweepRound(ctx, nanoDriver(requireNano(ctx))),
}
export const MONERO_JOBS = jobsOf((ctx) => moneroDriver(requireMonero(ctx)))
