import type { RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { currentTracer } from '../../shared/platform/tracing.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'

/** Any other method is counted as `other`: a metric's labels must be few. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH'])

/**
 * Returns middleware that counts and logs each request when its answer is sent or its caller is gone, by its
 * route's template; with tracing, it also makes a span of it.
 */
export function measureRequests(ctx: Context): RequestHandler {
  return (req, res, next) => {
    const startedAt = performance.now()
    res.on('close', () => {
      // Without the time that the caller asked the service to wait.
      const milliseconds = performance.now() - startedAt - Number(res.locals['waitedMs'] ?? 0)
      const labels = {
        method: METHODS.has(req.method) ? req.method : 'other',
        route: templateOf(req.route),
        status: res.writableFinished ? res.statusCode : 0,
      }
      ctx.metrics.countRequest(labels, milliseconds / SECOND_MS)
      if (labels.status >= 500) ctx.metrics.countFailure(String(res.locals['error']))
      if (ctx.log.isLevelEnabled('debug'))
        ctx.log.debug(
          { request_id: String(res.locals['requestId']), ...labels, ms: Math.round(milliseconds) },
          'a request was answered',
        )
    })
    const tracer = currentTracer()
    if (tracer === undefined) return next()
    const { method } = req
    const span = tracer.inRequest(METHODS.has(method) ? method : 'other', next)
    res.once('close', () => {
      const route = templateOf(req.route)
      span.end(`${method} ${route}`, {
        'http.request.method': method,
        'http.route': route,
        'http.response.status_code': res.writableFinished ? res.statusCode : 0,
        request_id: String(res.locals['requestId']),
      })
    })
  }
}

/** Returns the path of the route that matched as `/agent/{agent_id}`; `unknown` if none did. */
function templateOf(route: unknown): string {
  const path = (route as { path?: unknown } | undefined)?.path
  return typeof path === 'string' ? path.replace(/:(\w+)/g, '{$1}') : 'unknown'
}
