/*
 * A bare HTTP server that answers each path with bytes from memory, to measure the most that Node can serve.
 * PUT stores a path's bytes.
 */
import { createServer } from 'node:http'

const answers = new Map<string, Buffer>()

const server = createServer((req, res) => {
  if (req.method === 'PUT') {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => parts.push(part))
    req.on('end', () => {
      answers.set(String(req.url), Buffer.concat(parts))
      res.end()
    })
    return
  }
  const bytes = answers.get(String(req.url))
  res.writeHead(bytes === undefined ? 404 : 200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': bytes?.length ?? 0,
  })
  res.end(bytes)
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(
    `${JSON.stringify({ msg: 'the API listens', port: (server.address() as { port: number }).port })}\n`,
  )
})
process.on('SIGTERM', () => process.exit(0))
