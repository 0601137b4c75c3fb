import express, { type RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { readBuild } from '../../shared/platform/build.ts'
import { isHostAllowed } from '../../shared/platform/hosts.ts'
import type { Health } from '../../shared/platform/health.ts'
import { closeNow, listen } from '../../shared/platform/listen.ts'
import { createBoundedServer, WATCHERS } from '../../shared/platform/limit-connections.ts'
import { collectProcessMetrics } from '../../shared/platform/metrics.ts'
import { openNetworkMetrics, SAMPLED_COLLECTORS } from './network-metrics.ts'
import { holdsToken, readAuthorization } from '../../shared/platform/operator-token.ts'
import { StartError } from '../../shared/platform/process.ts'
import { watchFindings } from './alarm.ts'
import { recordActions, showFailed, showQueues, showTrail } from './board.ts'
import { servePage, showOverview } from './overview.ts'
import { keepSampling } from './sampler.ts'

export interface OperatorServer {
  port: number
  close(): Promise<void>
}

/**
 * Serves the operator's port: a page with the network's verdict and figures at `/`, Bull Board at `/queues`,
 * `/failed`, `/show`, `/metrics` of this process and of the whole network, and `/readyz`, all behind the operator's token; METRICS_TOKEN opens `/metrics` as well.
 * Only `/healthz` answers without a token. Also starts watchFindings() and keepSampling().
 *
 * @returns the port, and a function that closes all three
 * @throws StartError without OPERATOR_TOKEN, or if the port can't be opened
 */
export async function startOperatorServer(ctx: Context, health: Health): Promise<OperatorServer> {
  const { operatorPort, operatorHost, secrets } = ctx.config
  if (secrets.operatorToken === undefined) {
    throw new StartError(
      'OPERATOR_TOKEN is not set, and the operator port must not be open without it; set it, or OPERATOR_PORT=0 for no operator port',
    )
  }
  const server = createBoundedServer(createOperatorApp(ctx, health, secrets.operatorToken), WATCHERS)
  const port = await listen(server, operatorPort, operatorHost, 'OPERATOR_PORT')
  const alarm = watchFindings(ctx)
  const sampling = keepSampling(ctx, openNetworkMetrics(ctx, SAMPLED_COLLECTORS))
  return {
    port,
    close() {
      alarm.close()
      sampling.close()
      return closeNow(server)
    },
  }
}

/** The Express app of the operator's port, from its headers and checks to its routes. */
function createOperatorApp(ctx: Context, health: Health, token: string): express.Express {
  const app = express()
  app.disable('x-powered-by')
  app.use(secureHeaders)
  app.get('/healthz', (_req, res) => {
    res.json({ ok: true, ...readBuild() })
  })
  app.use(refuseOtherHosts(ctx.config.operatorHosts))
  collectProcessMetrics(ctx.metrics)
  const readNetwork = openNetworkMetrics(ctx)
  const { metricsToken } = ctx.config.secrets
  app.get('/metrics', requireToken(token, metricsToken), async (_req, res) => {
    const { registry } = ctx.metrics
    const [own, { text: network }] = await Promise.all([registry.metrics(), readNetwork()])
    res.setHeader('Content-Type', registry.contentType)
    res.end(`${own}\n${network}`)
  })
  app.use(requireToken(token))
  app.use(refuseOtherSites)
  app.use('/queues', recordActions(ctx), showQueues(ctx))
  app.get('/failed', showFailed(ctx))
  app.get('/show/:word', showTrail(ctx))
  app.get('/readyz', async (req, res) => {
    const { ready, ...rest } = await health.readiness('deep' in req.query)
    res.status(ready ? 200 : 503).json({ ok: ready, ...rest })
  })
  app.get('/overview', showOverview(ctx))
  app.use(servePage())
  app.use((_req, res) => {
    res.status(404).json({
      ok: false,
      error: 'no_such_route',
      message:
        'The operator port has /, /overview, /queues, /failed, /show/ID, /metrics, /readyz and /healthz.',
    })
  })
  return app
}

/**
 * The board loads only its own scripts and styles, so no other site learns that an operator has it open, and
 * no other site can frame it.
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
 * Makes a handler that refuses requests whose `Host` is not among `allowed`, unless they send Bearer. This is
 * against DNS rebinding: a page under a foreign name that resolves to this server would count as our own
 * origin. No browser sends Bearer by itself, so a program may use any name.
 */
function refuseOtherHosts(allowed: readonly string[]): RequestHandler {
  return (req, res, next) => {
    if (/^bearer /i.test(req.headers.authorization ?? '') || isHostAllowed(req.headers.host, allowed))
      return next()
    res.status(403).json({
      ok: false,
      error: 'not_yours',
      message:
        'The operator port is not known by this name; use its address, or list the name in ALLOWED_HOSTS.',
    })
  }
}

/** Makes a handler that answers 401 to requests without the operator's token, or the other one if there is one. */
function requireToken(operatorToken: string, other?: string): RequestHandler {
  const tokens = [operatorToken, ...(other === undefined ? [] : [other])]
  return (req, res, next) => {
    if (holdsToken(req.headers.authorization, tokens)) return next()
    res.status(401).setHeader('WWW-Authenticate', 'Basic realm="operator", charset="UTF-8"')
    res.json({
      ok: false,
      error: 'invalid_token',
      message: "The operator port needs the operator's token, as Bearer or as the password of Basic.",
    })
  }
}

/**
 * Refuses requests that change something and come from another site's page. This is against cross-site
 * request forgery: a browser sends Basic credentials with any request to this port. So such a request is
 * accepted only from a page of this port, by headers that pages can't forge, or from a program, which sends
 * Bearer and no Origin.
 */
const refuseOtherSites: RequestHandler = (req, res, next) => {
  if (req.method === 'GET' || req.method === 'HEAD' || isOwnPage(req.headers) || isProgram(req.headers))
    return next()
  res.status(403).json({
    ok: false,
    error: 'other_site',
    message:
      'A request that changes something must come from a page of this port, or from a program that sends the token as Bearer, without Origin.',
  })
}

type Headers = Parameters<RequestHandler>[0]['headers']

/** Whether a request comes from a page of this port, by headers that the browser sets. */
function isOwnPage({ origin, host, 'sec-fetch-site': site }: Headers): boolean {
  if (site !== undefined && site !== 'same-origin') return false
  if (origin === undefined) return site === 'same-origin'
  return host !== undefined && (origin === `http://${host}` || origin === `https://${host}`)
}

/** Whether a request comes from a program: no browser sends Bearer without an Origin or Sec-Fetch-Site. */
function isProgram({ authorization, origin, 'sec-fetch-site': site }: Headers): boolean {
  return origin === undefined && site === undefined && readAuthorization(authorization).scheme === 'bearer'
}
