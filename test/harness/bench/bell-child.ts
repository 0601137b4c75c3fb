import { serveBell, serveTls, serveTcp } from '../../support/doorbell-receivers.ts'

/**
 * Receivers of doorbells: one that answers at once, one that does after 2.5 s, and one that takes the connection and
 * says nothing. Prints their ports, then a line for each post, as it comes: whose, and when.
 */

const good = await serveBell(({ atMs, body }) => {
  const { agent_id: id } = JSON.parse(body) as { agent_id: string }
  process.stdout.write(`${JSON.stringify({ id, at_ms: atMs })}\n`)
  good.got.length = 0
  return { status: 204 }
})
const slow = await serveTls((socket) => {
  socket.once('data', () => setTimeout(() => socket.end('HTTP/1.1 204 X\r\n\r\n'), 2_500))
})
const silent = await serveTcp(() => undefined)
process.stdout.write(`${JSON.stringify({ ports: [good.port, slow.port, silent.port] })}\n`)
