import path from 'node:path'
import { parseArgs } from 'node:util'
import { listSecretFiles, readConfig, type Config } from '../shared/platform/config.ts'
import { forkWarning } from '../shared/ledger/outsider.ts'
import { checkLedgerOrigin } from '../shared/ledger/checkpoint.ts'
import { startMetricsServer, watchHealth } from '../shared/platform/health.ts'
import { createLog } from '../shared/platform/log.ts'
import { startTracing } from '../shared/platform/start-tracing.ts'
import { runUntilStopped, StartError } from '../shared/platform/process.ts'
import { keepHeartbeat } from '../shared/operation/heartbeat.ts'
import { requireKeys } from '../shared/operation/require-keys.ts'
import {
  isOfDoorbells,
  QUEUE_NAMES,
  queueRow,
  QUEUES_TOGETHER,
  type QueueName,
} from '../shared/platform/queue-table.ts'
import { HOUR_MS, SECOND_MS } from '../shared/platform/time.ts'
import { startOperatorServer } from './operator/server.ts'
import { startPool } from './pool.ts'
import { openWorkerContext, servedQueues, type WorkerContext } from './worker-context.ts'
import { closeContext } from '../shared/context.ts'

/** Long enough for MongoDB to elect a primary: unlike the API, workers have no caller that waits. */
const DATABASE_PATIENCE_MS = 30 * SECOND_MS
const PUBLISH_KEY_EVERY_MS = HOUR_MS

await runUntilStopped('workers', async (stopping) => {
  const names = parseQueues()
  const part = names.every(isOfDoorbells) ? 'doorbells' : 'workers'
  const read = readConfig(process.env, part)
  const config = {
    ...(part === 'doorbells' ? withDoorbellKey(read) : read),
    secretFiles: listSecretFiles(process.env),
  }
  requireKeys(config)
  checkLedgerOrigin(config)
  const served = servedQueues(config, names)
  const log = createLog(part, config.logLevel)
  const tracer = await startTracing(process.env, part)
  const ctx = openWorkerContext(config, log, { databaseTimeoutMs: DATABASE_PATIENCE_MS })
  const health = watchHealth(ctx, stopping, true)
  // Of the pools, one serves the sweep; the others would only compete for the port.
  const opensOperatorPort = config.operatorPort !== 0 && (config.isOperatorPortSet || names.includes('sweep'))
  const operator = opensOperatorPort ? await startOperatorServer(ctx, health) : undefined
  const metrics = config.metricsPort === 0 ? undefined : await startMetricsServer(ctx, health)
  const stopped = stopping.then(() => 'stop' as const)
  const isStopped = (await Promise.race([ctx.database.whenReady(), stopped])) === 'stop'
  const endPublishing = isStopped ? undefined : await publishDoorbellKey(ctx)
  const pool = isStopped ? undefined : startPool(ctx, names)
  const leave = pool === undefined ? undefined : keepHeartbeat(ctx, 'workers', served)
  const left = names.filter((name) => !served.includes(name))
  const notServed = left.length === 0 ? {} : { not_served: left, for_want_of: needsOf(left) }
  const warning = served.includes('sign-seals') ? forkWarning(config) : undefined
  if (warning !== undefined) log.warn(warning)
  if (pool !== undefined && served.length > 0) log.info({ queues: served, ...notServed }, 'the workers work')
  if (pool !== undefined && served.length === 0) log.warn(notServed, 'the workers have nothing to do')
  await stopped
  log.info('the workers stop: they take no new jobs and finish those under way')
  endPublishing?.()
  await pool?.close()
  await Promise.all([operator?.close(), metrics?.close(), leave?.()])
  await closeContext(ctx)
  await tracer?.close()
})

/** The settings with the file of the doorbells' key, which lies in DATA_DIR if none is named. */
function withDoorbellKey(config: Config): Config {
  const doorbellKeyFile = config.secrets.doorbellKeyFile ?? path.join(config.dataDir, 'doorbell-key')
  return { ...config, secrets: { ...config.secrets, doorbellKeyFile } }
}

/**
 * Publishes the public half of the doorbells' key, if this process has one, before it signs anything; and again
 * each hour, since a key that is not in use is published no longer at some time.
 *
 * @returns a function that ends this
 */
async function publishDoorbellKey({ ringer, doorbells, log }: WorkerContext): Promise<() => void> {
  if (ringer === undefined) return () => undefined
  const publish = () => doorbells.noteKey(ringer.key.publicKey)
  await publish()
  const timer = setInterval(() => {
    publish().catch((error: unknown) =>
      log.warn({ err: error }, 'the doorbells’ key could not be published again; the next hour tries'),
    )
  }, PUBLISH_KEY_EVERY_MS).unref()
  return () => clearInterval(timer)
}

/** Lists what the jobs of these queues need, each once. */
function needsOf(names: readonly QueueName[]): string[] {
  return [...new Set(names.flatMap((name) => queueRow(name).needs ?? []))]
}

/** Parses the command line. @throws StartError for any other argument than --queues */
function readArguments() {
  try {
    return parseArgs({ options: { queues: { type: 'string' } } })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new StartError(`${message}. The workers take --queues NAME,NAME and nothing else.`, {
      cause: error,
    })
  }
}

/**
 * The queues that `--queues a,b` names; all of them but those of doorbells if it is absent.
 *
 * @throws StartError for an unknown name, and for doorbells beside others
 */
function parseQueues(): QueueName[] {
  const { values } = readArguments()
  if (values.queues === undefined) return QUEUES_TOGETHER
  const names = values.queues.split(',').map((name) => name.trim())
  const unknown = names.filter((name) => !QUEUE_NAMES.some((queue) => queue === name))
  if (unknown.length > 0)
    throw new StartError(`--queues names ${unknown.join(', ')}; the queues are ${QUEUE_NAMES.join(', ')}`)
  const known = names as QueueName[]
  if (known.some(isOfDoorbells) && !known.every(isOfDoorbells))
    throw new StartError(
      '--queues names doorbells and others: a process that rings doorbells does nothing else. Start one for each.',
    )
  return known
}
