import type { IncomingMessage, ServerResponse } from 'node:http'
import { readBuild } from './build.ts'
import { withDeadline } from './deadline.ts'
import { createBoundedServer, WATCHERS } from './limit-connections.ts'
import { closeNow, listen } from './listen.ts'
import type { Config } from './config.ts'
import type { Database } from './database.ts'
import type { Log } from './log.ts'
import { collectProcessMetrics, type Metrics } from './metrics.ts'
import { holdsToken } from './operator-token.ts'
import { StartError } from './process.ts'
import type { Queues } from './queues.ts'
import { SECOND_MS } from './time.ts'

/** What it needs of a process to say how that is. */
interface Watched {
  readonly config: Config
  readonly log: Log
  readonly database: Database
  readonly queues: Queues
  readonly metrics: Metrics
}

export interface Readiness {
  /** Whether a load balancer is to send requests to this process. */
  ready: boolean
  mongodb: boolean
  redis: boolean
  stopping: boolean
}

export interface Health {
  /**
   * Ready from when the database is reached for the first time until the process stops. A later outage of
   * MongoDB or Redis is told but does not make it unready: else no API process would be left to tell clients.
   *
   * @param isDeep ready only if this process can do its work now
   */
  readiness(isDeep?: boolean): Promise<Readiness>
}

/** Shorter than a load balancer waits. */
const PING_LIMIT_MS = SECOND_MS / 2

/**
 * Watches whether this process can serve.
 *
 * @param needsRedis false for the API, which goes on without its queues
 */
export function watchHealth(ctx: Watched, stopping: Promise<void>, needsRedis: boolean): Health {
  let isStopping = false
  void stopping.then(() => (isStopping = true))
  return {
    async readiness(isDeep = false) {
      const mongodb = await canWrite(ctx)
      const redis = ctx.queues.isConnected()
      const isUp = isDeep ? mongodb && (redis || !needsRedis) : ctx.database.isReady()
      return { ready: isUp && !isStopping, mongodb, redis, stopping: isStopping }
    },
  }
}

/** Whether the database has a primary that answers in time, and so takes writes. */
async function canWrite({ database }: Watched): Promise<boolean> {
  if (!database.isReady()) return false
  const ping = database.connection.getClient().db('admin').command({ ping: 1 })
  return withDeadline(ping, PING_LIMIT_MS, () => new Error('MongoDB did not answer')).then(
    () => true,
    () => false,
  )
}

export interface MetricsServer {
  port: number
  close(): Promise<void>
}

/**
 * Opens this process's own port for whoever watches it: `/healthz` (alive) and `/readyz` (can serve) for
 * anyone who can reach it (`/readyz?deep`: with the servers that it needs), `/metrics` behind METRICS_TOKEN,
 * or behind the operator's token in a process that has that one.
 *
 * @throws StartError with neither token, or if the port can't be opened
 */
export async function startMetricsServer(ctx: Watched, health: Health): Promise<MetricsServer> {
  const { metricsPort, operatorHost, secrets } = ctx.config
  const tokens = [secrets.metricsToken, secrets.operatorToken].filter((token) => token !== undefined)
  if (tokens.length === 0) {
    throw new StartError(
      'METRICS_TOKEN is not set, and metrics must not be open without it; set it, or METRICS_PORT=0 for no metrics port',
    )
  }
  collectProcessMetrics(ctx.metrics)
  const server = createBoundedServer((req, res) => {
    answer(ctx, health, tokens, req, res).catch((error: unknown) => {
      ctx.log.error({ err: error }, 'the metrics could not be told')
      send(res, 500, {
        ok: false,
        error: 'internal',
        message: 'The metrics could not be told; the reason is logged.',
      })
    })
  }, WATCHERS)
  const port = await listen(server, metricsPort, operatorHost, 'METRICS_PORT')
  return { port, close: () => closeNow(server) }
}

/** Answers a request to the metrics port. */
async function answer(
  ctx: Watched,
  health: Health,
  tokens: readonly string[],
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  req.resume()
  const refuse = (status: number, error: string, message: string, headers: Record<string, string> = {}) =>
    send(res, status, { ok: false, error, message }, headers)
  const [path, query] = (req.url ?? '').split('?')
  if (req.method !== 'GET' && req.method !== 'HEAD')
    return refuse(405, 'method_not_allowed', 'This port takes GET.', { Allow: 'GET, HEAD' })
  if (path === '/healthz') return send(res, 200, { ok: true, ...readBuild() })
  if (path === '/readyz') {
    const { ready, ...rest } = await health.readiness(query === 'deep')
    return send(res, ready ? 200 : 503, { ok: ready, ...rest })
  }
  if (path !== '/metrics')
    return refuse(404, 'no_such_route', 'This port has /healthz, /readyz and /metrics.')
  if (!holdsToken(req.headers.authorization, tokens)) {
    const message = 'The metrics need the token of METRICS_TOKEN, as Bearer or as the password of Basic.'
    const headers = { 'WWW-Authenticate': 'Basic realm="metrics", charset="UTF-8"' }
    return refuse(401, 'invalid_token', message, headers)
  }
  const { registry } = ctx.metrics
  res.writeHead(200, { 'Content-Type': registry.contentType, 'Cache-Control': 'no-store' })
  res.end(await registry.metrics())
}

function send(res: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  res.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Cache-Control': 'no-store',
    ...headers,
  })
  res.end(JSON.stringify(body))
}
