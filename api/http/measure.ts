import type { RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { recordAvailability } from '../../shared/market/outage-service.ts'
import { currentTracer, type Tracer } from '../../shared/platform/tracing.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'

/** Any other method is counted as `other`: a metric's labels must be few. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH'])

/**
 * Returns middleware that counts and logs each request when its answer is sent or its caller is gone, by its
 * route's template; with tracing, it also makes a span of it.
 */
export function measureRequests(ctx: Context): RequestHandler {
  const noteServed = recordAvailability(ctx)
  return (req, res, next) => {
    const startedAt = performance.now()
    const method = METHODS.has(req.method) ? req.method : 'other'
    let span: ReturnType<Tracer['inRequest']> | undefined
    res.on('close', () => {
      // Without the time that the caller asked the service to wait.
      const milliseconds = performance.now() - startedAt - Number(res.locals['waitedMs'] ?? 0)
      const route = String(res.locals['path'] ?? 'unknown')
      const status = res.writableFinished ? res.statusCode : 0
      const requestId = String(res.locals['requestId'])
      ctx.metrics.countRequest({ method, route, status }, milliseconds / SECOND_MS)
      if (status >= 500) ctx.metrics.countFailure(String(res.locals['error']))
      else if (status > 0) noteServed()
      if (ctx.log.isLevelEnabled('debug'))
        ctx.log.debug(
          { request_id: requestId, method, route, status, ms: Math.round(milliseconds) },
          'a request was answered',
        )
      span?.end(`${req.method} ${route}`, {
        'http.request.method': req.method,
        'http.route': route,
        'http.response.status_code': status,
        request_id: requestId,
      })
    })
    const tracer = currentTracer()
    if (tracer === undefined) next()
    else span = tracer.inRequest(method, next)
  }
}
