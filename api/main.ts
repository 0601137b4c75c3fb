import { setTimeout as sleep } from 'node:timers/promises'
import { readConfig } from '../shared/config.ts'
import { openContext } from '../shared/context.ts'
import { startMetricsServer, watchHealth } from '../shared/health.ts'
import { IDLE_DRAIN_MS } from '../shared/limits.ts'
import { createLog } from '../shared/log.ts'
import { runUntilStopped } from '../shared/process.ts'
import { createApp } from './app.ts'
import { createLimitedServer, listen } from './http/server.ts'

await runUntilStopped('api', async (stopping, allowMs) => {
  const config = readConfig(process.env, 'api')
  allowMs(config.drainMs)
  const log = createLog('api', config.logLevel)
  const ctx = openContext(config, log)
  const metrics = config.metricsPort === 0 ? undefined : await startMetricsServer(ctx, watchHealth(ctx, stopping, false))
  const server = createLimitedServer(createApp(ctx).listener)
  const port = await listen(server.http, config.port, config.host)
  log.info({ port, host: config.host }, 'the API listens')
  // A database that can be reached and not used (an index that cannot be made) ends the process; one that is away does not.
  await Promise.race([stopping, ctx.database.whenReady().then(() => stopping)])
  if (config.drainMs > 0) {
    log.info('the API is taken out: it says that it is not ready, and still serves')
    await sleep(config.drainMs)
  }
  log.info('the API stops: no new connections, requests under way are finished')
  const connections = await server.close({ idleMs: IDLE_DRAIN_MS })
  if (connections > 0)
    log.warn({ connections }, 'connections were cut: their requests, or what their clients were to read, did not end in time')
  await metrics?.close()
  await ctx.close()
})
