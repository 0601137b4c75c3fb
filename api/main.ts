import { readConfig } from '../shared/config.ts'
import { openContext } from '../shared/context.ts'
import { createLog } from '../shared/log.ts'
import { runUntilStopped } from '../shared/process.ts'
import { createApp } from './app.ts'
import { createLimitedServer, listen } from './http/server.ts'

await runUntilStopped('api', async (stopping) => {
  const config = readConfig(process.env, 'api')
  const log = createLog('api', config.logLevel)
  const ctx = openContext(config, log)
  const server = createLimitedServer(createApp(ctx).express)
  const port = await listen(server.http, config.port, config.host)
  log.info({ port, host: config.host }, 'the API listens')
  // A database that can be reached and not used (an index that cannot be made) ends the process; one that is away does not.
  await Promise.race([stopping, ctx.database.whenReady().then(() => stopping)])
  log.info('the API stops: no new requests, those under way are finished')
  await server.close()
  await ctx.close()
})
