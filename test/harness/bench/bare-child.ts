/*
 * The least that this stack can do for an answer: Express 5 sends bytes from memory. A path that was stored with
 * tokens first looks the caller's token up, in memory too. PUT stores a path's bytes, and as `X-Tokens` the tokens
 * that open it.
 */
import { createServer } from 'node:http'
import express from 'express'

const answers = new Map<string, { bytes: Buffer; tokens: ReadonlySet<string> | undefined }>()

const app = express().disable('etag').disable('x-powered-by')

app.put('/{*path}', express.raw({ type: () => true, limit: '10mb' }), (req, res) => {
  const tokens = req.get('X-Tokens')?.split(',')
  answers.set(req.url, { bytes: req.body as Buffer, tokens: tokens && new Set(tokens) })
  res.end()
})

app.get('/{*path}', (req, res) => {
  const answer = answers.get(req.url)
  if (answer === undefined) return void res.sendStatus(404)
  const { bytes, tokens } = answer
  if (tokens?.has(String(req.headers.authorization).slice('Bearer '.length)) === false)
    return void res.sendStatus(401)
  res.type('application/json; charset=utf-8').send(bytes)
})

const server = createServer(app)
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(
    `${JSON.stringify({ msg: 'the API listens', port: (server.address() as { port: number }).port })}\n`,
  )
})
process.on('SIGTERM', () => process.exit(0))
