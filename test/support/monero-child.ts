/*
 * A worker of the Monero wallet for tests that dies at one call: looks and sends, in a process of its own.
 * CRASH_CALL, CRASH_PHASE and CRASH_COUNT name the place; without them it runs to its end.
 */
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { requireMonero } from '../../shared/money/coins/monero/monero-gateway.ts'
import { openWorkerContext } from '../../workers/worker-context.ts'
import { sendMonero, watchMonero } from './monero-jobs.ts'
import { watched } from './crash-point.ts'
import { closeContext } from '../../shared/context.ts'

const opened = requireMonero(
  openWorkerContext(readConfig(process.env, 'workers'), createLog('test', 'silent'), {
    databaseTimeoutMs: 30_000,
  }),
)
await opened.database.whenReady()
const ctx = {
  ...opened,
  database: watched(opened.database, 'transaction'),
  monero: { ...opened.monero, wallet: watched(watched(opened.monero.wallet, 'prepareTransfer'), 'relay') },
}
await watchMonero(ctx)
await sendMonero(ctx)
await closeContext(opened)
process.exit(0)
