import { StartError } from '../../shared/process.ts'
import { fillCoinPool } from '../../shared/payments/address-pool.ts'
import { checkCoin, noteProblem, watchCoin } from '../../shared/payments/coin-round.ts'
import type { CoinDriver } from '../../shared/payments/driver.ts'
import { moneroDriver } from '../../shared/payments/monero/monero-driver.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { nanoDriver } from '../../shared/payments/nano/nano-driver.ts'
import { sweepNano } from '../../shared/payments/nano/nano-sweep.ts'
import { payoutRound } from '../../shared/payments/payout-round.ts'
import { reconcileCoin } from '../../shared/payments/reconcile.ts'
import type { WorkerContext } from '../worker-context.ts'

type Job<Payload> = (ctx: WorkerContext, payload: Payload) => Promise<void>

/** A job of a coin. A wallet that cannot be opened keeps the coin from being ready, and stops nothing else. */
function job<Payload>(
  open: (ctx: WorkerContext) => CoinDriver,
  work: (ctx: WorkerContext, driver: CoinDriver, payload: Payload) => Promise<void>,
): Job<Payload> {
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
  watch: job<object>(open, watchCoin),
  check: job<{ invoice_id: string }>(open, (ctx, driver, { invoice_id: id }) => checkCoin(ctx, driver, id)),
  fill: job<object>(open, (ctx, driver) => fillCoinPool(ctx, driver)),
  send: job<object>(open, payoutRound),
  reconcile: job<object>(open, reconcileCoin),
})

const openNano = (ctx: WorkerContext): CoinDriver => nanoDriver(requireNano(ctx))

/** The jobs of each coin, by what they do. */
export const NANO_JOBS = { ...jobsOf(openNano), sweep: job<object>(openNano, (ctx) => sweepNano(requireNano(ctx))) }
export const MONERO_JOBS = jobsOf((ctx) => moneroDriver(requireMonero(ctx)))
