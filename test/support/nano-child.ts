/*
 * A worker of the Nano wallet for tests that dies at one call: looks, sweeps and sends, in a process of its
 * own. CRASH_CALL, CRASH_PHASE and CRASH_COUNT name the place; without them it runs to its end. ROUNDS is how
 * often it does all of it.
 */
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { requireNano } from '../../shared/money/coins/nano/nano-gateway.ts'
import { openWorkerContext } from '../../workers/worker-context.ts'
import { watched } from './crash-point.ts'
import { sendNano, sweepNano, watchNano } from './nano-jobs.ts'
import { closeContext } from '../../shared/context.ts'

const { ROUNDS = '1' } = process.env

const opened = requireNano(
  openWorkerContext(readConfig(process.env, 'workers'), createLog('test', 'silent'), {
    databaseTimeoutMs: 30_000,
  }),
)
await opened.database.whenReady()
const ctx = {
  ...opened,
  database: watched(opened.database, 'transaction'),
  invoices: { ...opened.invoices, arrivals: watched(opened.invoices.arrivals, 'setSwept') },
  nano: { ...opened.nano, rpc: watched(watched(opened.nano.rpc, 'process'), 'generateWork') },
}
for (let round = 0; round < Number(ROUNDS); round++) {
  await watchNano(ctx)
  await sweepNano(ctx)
  await sendNano(ctx)
}
await closeContext(opened)
process.exit(0)
