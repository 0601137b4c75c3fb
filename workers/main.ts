import { parseArgs } from 'node:util'
import { readConfig } from '../shared/foundation/config.ts'
import { assertOrigin } from '../shared/ledger/checkpoint.ts'
import { startMetricsServer, watchHealth } from '../shared/servers/health.ts'
import { createLog } from '../shared/foundation/log.ts'
import { assertPrivate } from '../shared/foundation/private-file.ts'
import { runUntilStopped, StartError } from '../shared/foundation/process.ts'
import { QUEUE_NAMES, type QueueName } from '../shared/servers/queues.ts'
import { SECOND_MS } from '../shared/foundation/time.ts'
import { startOperatorServer } from './operator/server.ts'
import { startPool } from './pool.ts'
import { openWorkerContext } from './worker-context.ts'

/** Workers can wait for a database that is electing a primary; nobody holds a connection open for them. */
const DATABASE_PATIENCE_MS = 30 * SECOND_MS

await runUntilStopped('workers', async (stopping) => {
  const names = parseQueues()
  const config = readConfig(process.env, 'workers')
  assertPrivate('SEAL_KEY_FILE', config.secrets.sealKeyFile)
  assertPrivate('SEAL_MEMORY_FILE', config.secrets.sealMemoryFile)
  assertPrivate('NANO_SEED_FILE', config.nano.seedFile)
  assertOrigin(config)
  const log = createLog('workers', config.logLevel)
  const ctx = openWorkerContext(config, log, { databaseTimeoutMs: DATABASE_PATIENCE_MS })
  const health = watchHealth(ctx, stopping, true)
  const operator = config.operatorPort === 0 ? undefined : await startOperatorServer(ctx, health)
  const metrics = config.metricsPort === 0 ? undefined : await startMetricsServer(ctx, health)
  const stopped = stopping.then(() => 'stop' as const)
  const pool =
    (await Promise.race([ctx.database.whenReady(), stopped])) === 'stop' ? undefined : startPool(ctx, names)
  if (pool !== undefined) log.info({ queues: names }, 'the workers work')
  await stopped
  log.info('the workers stop: no new jobs, those under way are finished')
  await pool?.close()
  await Promise.all([operator?.close(), metrics?.close()])
  await ctx.close()
})

/** `--queues a,b` picks what this process serves; all of them if it is absent. */
function parseQueues(): QueueName[] {
  const { values } = parseArgs({ options: { queues: { type: 'string' } } })
  if (values.queues === undefined) return [...QUEUE_NAMES]
  const names = values.queues.split(',').map((name) => name.trim())
  const unknown = names.filter((name) => !QUEUE_NAMES.some((known) => known === name))
  if (unknown.length > 0)
    throw new StartError(`--queues names ${unknown.join(', ')}; the queues are ${QUEUE_NAMES.join(', ')}`)
  return names as QueueName[]
}
