import { createServer } from 'node:http'
import express, { type RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { readBuild } from '../../shared/foundation/build.ts'
import { isHostAllowed } from '../../shared/foundation/hosts.ts'
import type { Health } from '../../shared/servers/health.ts'
import { closeNow, listen } from '../../shared/servers/listen.ts'
import { countProcess } from '../../shared/servers/metrics.ts'
import { openNetworkMetrics } from './network-metrics.ts'
import { isOperator, readAuthorization } from '../../shared/foundation/operator-token.ts'
import { StartError } from '../../shared/foundation/process.ts'
import { watchFindings } from './alarm.ts'
import { recordPresses, showFailed, showQueues, showStory } from './board.ts'

export interface OperatorServer {
  port: number
  close(): Promise<void>
}

/**
 * The operator's port: Bull Board at `/queues`, `/metrics` of this process and of the whole network,
 * `/readyz`; all behind the token. Only `/healthz` answers without it.
 */
export async function startOperatorServer(ctx: Context, health: Health): Promise<OperatorServer> {
  const { operatorPort, operatorHost, secrets } = ctx.config
  if (secrets.operatorToken === undefined) {
    throw new StartError(
      'OPERATOR_TOKEN is not set, and the operator port must not be open without it; set it, or OPERATOR_PORT=0 for no operator port',
    )
  }
  const server = createServer(createOperatorApp(ctx, health, secrets.operatorToken))
  const port = await listen(server, operatorPort, operatorHost, 'OPERATOR_PORT')
  const alarm = watchFindings(ctx)
  return {
    port,
    close() {
      alarm.close()
      return closeNow(server)
    },
  }
}

function createOperatorApp(ctx: Context, health: Health, token: string): express.Express {
  const app = express()
  app.disable('x-powered-by')
  app.use(secureHeaders)
  app.get('/healthz', (_req, res) => {
    res.json({ ok: true, ...readBuild() })
  })
  app.use(refuseOtherHosts(ctx.config.operatorHosts))
  app.use(requireToken(token))
  app.use(refuseOtherSites)
  app.use('/queues', recordPresses(ctx), showQueues(ctx))
  app.get('/failed', showFailed(ctx))
  app.get('/show/:word', showStory(ctx))
  countProcess(ctx.metrics)
  const readNetwork = openNetworkMetrics(ctx)
  app.get('/metrics', async (_req, res) => {
    const { registry } = ctx.metrics
    const [own, network] = await Promise.all([registry.metrics(), readNetwork()])
    res.setHeader('Content-Type', registry.contentType)
    res.end(`${own}\n${network}`)
  })
  app.get('/readyz', async (req, res) => {
    const { ready, ...rest } = await health.readiness('deep' in req.query)
    res.status(ready ? 200 : 503).json({ ok: ready, ...rest })
  })
  app.get('/', (_req, res) => res.redirect('/queues'))
  app.use((_req, res) => {
    res.status(404).json({
      ok: false,
      error: 'no_such_route',
      message: 'The operator port has /queues, /failed, /show/ID, /metrics, /readyz and /healthz.',
    })
  })
  return app
}

/**
 * The board needs its own scripts and styles and nothing from elsewhere: no other site learns that an
 * operator has it open, or can frame it.
 */
const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

const secureHeaders: RequestHandler = (_req, res, next) => {
  res.setHeader('Content-Security-Policy', CONTENT_POLICY)
  res.setHeader('X-Content-Type-Options', 'nosniff')
  res.setHeader('X-Frame-Options', 'DENY')
  res.setHeader('Referrer-Policy', 'no-referrer')
  res.setHeader('Cache-Control', 'no-store')
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin')
  next()
}

/**
 * A page under a name that its owner points here (DNS rebinding) would be of our own origin, and have the
 * browser ask for the password. No browser sends Bearer by itself, so a scraper may call us by any name.
 */
function refuseOtherHosts(allowed: readonly string[]): RequestHandler {
  return (req, res, next) => {
    if (/^bearer /i.test(req.headers.authorization ?? '') || isHostAllowed(req.headers.host, allowed))
      return next()
    res.status(403).json({
      ok: false,
      error: 'not_yours',
      message:
        'The operator port is not known by this name; use its address, or list the name in OPERATOR_HOSTS.',
    })
  }
}

function requireToken(token: string): RequestHandler {
  return (req, res, next) => {
    if (isOperator(req.headers.authorization, token)) return next()
    res.status(401).setHeader('WWW-Authenticate', 'Basic realm="operator", charset="UTF-8"')
    res.json({
      ok: false,
      error: 'invalid_token',
      message: "The operator port needs the operator's token, as Bearer or as the password of Basic.",
    })
  }
}

/**
 * A browser that knows Basic credentials sends them with any request to this port, also with one that another
 * site's page makes. What changes something is taken from a page of this port, by what browsers themselves
 * say of where a request comes from and no page can forge, or from a program, which sends Bearer and no
 * origin.
 */
const refuseOtherSites: RequestHandler = (req, res, next) => {
  if (req.method === 'GET' || req.method === 'HEAD' || isOwnPage(req.headers) || isProgram(req.headers))
    return next()
  res.status(403).json({
    ok: false,
    error: 'other_site',
    message:
      'This changes something, and it was not asked for by a page of this port; a program sends the token as Bearer, without Origin.',
  })
}

type Headers = Parameters<RequestHandler>[0]['headers']

function isOwnPage({ origin, host, 'sec-fetch-site': site }: Headers): boolean {
  if (site !== undefined && site !== 'same-origin') return false
  if (origin === undefined) return site === 'same-origin'
  return host !== undefined && (origin === `http://${host}` || origin === `https://${host}`)
}

function isProgram({ authorization, origin, 'sec-fetch-site': site }: Headers): boolean {
  return origin === undefined && site === undefined && readAuthorization(authorization).scheme === 'bearer'
}
