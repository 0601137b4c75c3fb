import { MONERO_JOBS } from '../../workers/jobs/coin.ts'

/** The jobs of Monero's queues, as a worker runs them. */
export const checkMonero = MONERO_JOBS.check
export const fillMonero = MONERO_JOBS.fill
export const reconcileMonero = MONERO_JOBS.reconcile
export const sendMonero = MONERO_JOBS.send
export const watchMonero = MONERO_JOBS.watch
