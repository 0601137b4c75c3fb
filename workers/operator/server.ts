import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { ExpressAdapter } from '@bull-board/express'
import express, { type RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { StartError } from '../../shared/process.ts'
import { QUEUE_NAMES } from '../../shared/queues.ts'

export interface OperatorServer {
  port: number
  close(): Promise<void>
}

/**
 * The operator's port: Bull Board at `/queues`, behind the token. Only `/healthz` answers without it.
 */
export async function startOperatorServer(ctx: Context): Promise<OperatorServer> {
  const { operatorPort, operatorHost, secrets } = ctx.config
  if (secrets.operatorToken === undefined) {
    throw new StartError(
      'OPERATOR_TOKEN is not set, and the operator port must not be open without it; set it, or OPERATOR_PORT=0 for no operator port',
    )
  }
  const app = express()
  app.disable('x-powered-by')
  app.get('/healthz', (_req, res) => {
    res.json({ ok: true })
  })
  app.use(requireToken(secrets.operatorToken))
  let board: RequestHandler = (_req, res) => {
    res.status(503).setHeader('Retry-After', '2')
    res.json({ ok: false, error: 'unavailable', message: 'Redis has not been reached yet; try again in a moment.' })
  }
  void ctx.queues.whenReady().then(() => {
    board = bullBoard(ctx)
  })
  app.use('/queues', (req, res, next) => board(req, res, next))
  app.get('/', (_req, res) => res.redirect('/queues'))
  app.use((_req, res) => {
    res.status(404).json({ ok: false, error: 'no_such_route', message: 'The operator port has /queues and /healthz.' })
  })
  const server = createServer(app)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        error.code === 'EADDRINUSE'
          ? new StartError(`Port ${operatorPort} on ${operatorHost} is taken by another program; set OPERATOR_PORT.`)
          : error,
      )
    })
    server.listen(operatorPort, operatorHost, resolve)
  })
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : operatorPort,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
}

function bullBoard(ctx: Context): RequestHandler {
  const adapter = new ExpressAdapter()
  adapter.setBasePath('/queues')
  createBullBoard({
    queues: QUEUE_NAMES.map((name) => new BullMQAdapter(ctx.queues.get(name))),
    serverAdapter: adapter,
    options: { uiConfig: { boardTitle: 'Agent network' } },
  })
  return adapter.getRouter() as RequestHandler
}

/** Bearer for programs; Basic with any user name for a browser, which asks for it by itself. Compared in constant time. */
function requireToken(expected: string): RequestHandler {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  const wanted = digest(expected)
  return (req, res, next) => {
    const [scheme = '', credentials = ''] = (req.headers.authorization ?? '').split(' ', 2)
    const given =
      scheme.toLowerCase() === 'basic'
        ? Buffer.from(credentials, 'base64')
            .toString('utf8')
            .replace(/^[^:]*:/, '')
        : scheme.toLowerCase() === 'bearer'
          ? credentials
          : ''
    if (timingSafeEqual(digest(given), wanted)) return next()
    res.status(401).setHeader('WWW-Authenticate', 'Basic realm="operator", charset="UTF-8"')
    res.json({
      ok: false,
      error: 'invalid_token',
      message: "The operator port needs the operator's token, as Bearer or as the password of Basic.",
    })
  }
}
