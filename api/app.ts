import type { RequestListener } from 'node:http'
import express from 'express'
import type { Context } from '../shared/context.ts'
import { createDiskGuard } from '../shared/platform/disk-guard.ts'
import { A2A_PATH, MCP_PATH } from '../shared/platform/limits.ts'
import { createAuthenticator } from './http/authenticate.ts'
import { createGate } from './gate/gate.ts'
import { ignoreLongPreferences, refuseSmuggling } from './http/request-head.ts'
import { answerErrors, listenWith, mountRoutes } from './http/mount.ts'
import { splitQuery } from './http/parse.ts'
import { messageClassesOf, type MessageClasses } from './http/messages.ts'
import { createRefusalLogger, type NoteRefusal } from './http/refusals.ts'
import type { Route } from './http/route.ts'
import { serveA2a } from './routes/a2a.ts'
import { aboutRoutes } from './routes/about.ts'
import { agentRoutes } from './routes/agents.ts'
import { claimRoutes } from './routes/claims.ts'
import { documentRoutes } from './routes/documents.ts'
import { eventRoutes } from './routes/events.ts'
import { logRoutes } from './routes/log.ts'
import { marketRoutes } from './routes/market.ts'
import { serveMcp } from './routes/mcp.ts'
import { messageRoutes } from './routes/messages.ts'
import { passRoutes } from './routes/passes.ts'
import { postRoutes } from './routes/posts.ts'
import { reportRoutes } from './routes/reports.ts'
import { sealRoutes } from './routes/seals.ts'
import { solvencyRoutes } from './routes/solvency.ts'
import { workRoutes } from './routes/work.ts'
import { createWaits, type Waits } from './waits.ts'

export interface App {
  /** Serves a request of a Node HTTP server. */
  listener: RequestListener
  /** With which the server makes requests and answers. */
  classes: MessageClasses
  /** Counts a connection that is refused before there is a request, for the log. */
  note: NoteRefusal
  /** Call it for each connection that is accepted. */
  noteConnection: () => void
  /** All routes, in order: the route table and the OpenAPI document are made of it. */
  routes: readonly Route[]
  /** The requests that wait for events. */
  waits: Waits
}

/**
 * Creates the API: middleware and routes from top to bottom. It doesn't listen.
 *
 * @throws TypeError if the settings have no CHALLENGE_SECRET
 */
export function createApp(ctx: Context): App {
  const { challengeSecret } = ctx.config.secrets
  if (challengeSecret === undefined) throw new TypeError('"ctx.config" expected a challengeSecret')
  const authenticator = createAuthenticator(ctx)
  const routes: Route[] = [
    ...agentRoutes(ctx, challengeSecret, authenticator),
    ...passRoutes(ctx),
    ...workRoutes(),
    ...claimRoutes(),
    ...postRoutes(),
    ...messageRoutes(),
    ...eventRoutes(),
    ...reportRoutes(),
    ...marketRoutes(ctx),
    ...sealRoutes(ctx),
    ...solvencyRoutes(),
    ...logRoutes(),
  ]
  routes.unshift(...aboutRoutes(() => routes), ...documentRoutes(() => routes))

  const note = createRefusalLogger(ctx.log)
  const gate = createGate()
  const waits = createWaits(ctx)
  ctx.metrics.watchWaiting(waits.count)
  const frame = { ctx, authenticator, gate, requireDisk: createDiskGuard(ctx), waits }
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('query parser', splitQuery)
  app.enable('case sensitive routing')
  app.use(refuseSmuggling(ctx.config.allowedHosts), ignoreLongPreferences)
  mountRoutes(app, frame, routes)
  app.all(MCP_PATH, serveMcp(frame, routes))
  app.all(A2A_PATH, serveA2a(frame, routes))
  const answerError = answerErrors(ctx, gate, note)
  app.use(answerError)
  return {
    routes,
    note,
    waits,
    noteConnection: gate.noteConnection,
    classes: messageClassesOf(app),
    listener: listenWith(app, ctx, answerError),
  }
}
