import { StartError } from '../../shared/process.ts'
import { compareBooks } from '../../shared/payments/books.ts'
import { fillCoinPool } from '../../shared/payments/address-pool.ts'
import { checkCoin, noteProblem, watchCoin } from '../../shared/payments/coin-round.ts'
import type { CoinDriver } from '../../shared/payments/driver.ts'
import { moneroDriver } from '../../shared/payments/monero/monero-driver.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { answerLookUp } from '../../shared/payments/look-up.ts'
import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { nanoDriver } from '../../shared/payments/nano/nano-driver.ts'
import { sweepNano } from '../../shared/payments/nano/nano-sweep.ts'
import { payoutRound } from '../../shared/payments/payout-round.ts'
import { reconcileCoin } from '../../shared/payments/reconcile.ts'
import type { Payload } from '../../shared/queues.ts'
import type { WorkerContext } from '../worker-context.ts'

type Job<P> = (ctx: WorkerContext, payload: P) => Promise<void>

/** A job of a coin. A wallet that cannot be opened keeps the coin from being ready, and stops nothing else. */
function job<P>(
  open: (ctx: WorkerContext) => CoinDriver,
  work: (ctx: WorkerContext, driver: CoinDriver, payload: P) => Promise<void>,
): Job<P> {
  return async (ctx, payload) => {
    const driver = open(ctx)
    try {
      await work(ctx, driver, payload)
    } catch (error) {
      if (!(error instanceof StartError)) throw error
      await noteProblem(ctx, driver.coin, 'wallet', error.message)
    }
  }
}

const jobsOf = (open: (ctx: WorkerContext) => CoinDriver) => ({
  watch: job<object>(open, async (ctx, driver) => {
    await watchCoin(ctx, driver)
    await compareBooks(ctx, driver.coin, () => driver.holdings())
  }),
  check: job<Payload<'check-nano' | 'check-monero'>>(open, async (ctx, driver, { invoice_id: invoiceId, tx }) => {
    if (tx !== undefined) await answerLookUp(ctx, driver, tx)
    if (invoiceId !== undefined) await checkCoin(ctx, driver, invoiceId)
  }),
  fill: job<object>(open, (ctx, driver) => fillCoinPool(ctx, driver)),
  send: job<object>(open, payoutRound),
  reconcile: job<object>(open, reconcileCoin),
})

const openMonero = (ctx: WorkerContext): CoinDriver => moneroDriver(requireMonero(ctx))
const openNano = (ctx: WorkerContext): CoinDriver => nanoDriver(requireNano(ctx))

/** The jobs of each coin, by what they do. */
export const NANO_JOBS = { ...jobsOf(openNano), sweep: job<object>(openNano, (ctx) => sweepNano(requireNano(ctx))) }
export const MONERO_JOBS = jobsOf(openMonero)
