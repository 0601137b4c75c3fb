import { setTimeout as sleep } from 'node:timers/promises'
import { readConfig } from '../shared/platform/config.ts'
import { closeContext, openContext } from '../shared/context.ts'
import { keepNumberingOverdueMarks } from '../shared/events/overdue-marks.ts'
import { startMetricsServer, watchHealth } from '../shared/platform/health.ts'
import { maxConnectionsFor, readDescriptorLimit } from '../shared/platform/limit-connections.ts'
import { listen } from '../shared/platform/listen.ts'
import { IDLE_DRAIN_MS } from '../shared/platform/limits.ts'
import { createLog } from '../shared/platform/log.ts'
import { startTracing } from '../shared/platform/start-tracing.ts'
import { keepHeartbeat } from '../shared/operation/heartbeat.ts'
import { prepareAddresses } from '../shared/money/invoice-service.ts'
import { runUntilStopped } from '../shared/platform/process.ts'
import { createApp } from './app.ts'
import { createLimitedServer } from './http/server.ts'

await runUntilStopped('api', async (stopping, allowMs) => {
  const config = readConfig(process.env, 'api')
  allowMs(config.drainMs)
  const log = createLog('api', config.logLevel)
  const tracer = await startTracing(process.env, 'api')
  const ctx = openContext(config, log)
  const metrics =
    config.metricsPort === 0 ? undefined : await startMetricsServer(ctx, watchHealth(ctx, stopping, false))
  const app = createApp(ctx)
  const endNumbering = keepNumberingOverdueMarks(ctx)
  const server = createLimitedServer(app.listener, app)
  const port = await listen(server.http, config.port, config.host)
  const openFiles = readDescriptorLimit()
  const maxConnections = maxConnectionsFor(openFiles)
  log.info(
    { port, host: config.host, max_connections: maxConnections, open_files: openFiles },
    'the API listens',
  )
  const endHeartbeat = keepHeartbeat(ctx, 'api')
  prepareAddresses(ctx).catch((error: unknown) =>
    log.warn({ err: error }, 'no addresses were asked for; the first buyer asks'),
  )
  // A database that can be reached but not used (an index that cannot be made) ends the process; one that is
  // away does not.
  await Promise.race([stopping, ctx.database.whenReady().then(() => stopping)])
  if (config.drainMs > 0) {
    log.info('the API is taken out: it says that it is not ready, and still serves')
    await sleep(config.drainMs)
  }
  log.info('the API stops: no new connections, requests under way are finished')
  app.waits.end()
  const connections = await server.close({ idleMs: IDLE_DRAIN_MS })
  if (connections > 0)
    log.warn(
      { connections },
      'connections were cut: their requests, or what their clients were to read, did not end in time',
    )
  endNumbering()
  await metrics?.close()
  await endHeartbeat()
  await closeContext(ctx)
  await tracer?.close()
})
