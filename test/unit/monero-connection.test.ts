import http from 'node:http'
import monero from 'monero-ts'
import { afterAll, expect, it } from 'vitest'
import { openMoneroConnection } from '../../shared/money/coins/monero/monero-connection.ts'
import { NodeUnreachable } from '../../shared/money/node-errors.ts'
import { listen } from '../../shared/platform/listen.ts'

const server = http.createServer((_, res) => res.end(JSON.stringify({ id: '0', jsonrpc: '2.0', result: {} })))
afterAll(() => server.close())

it('a call ends, and the next is answered, though a request of the library never does', async () => {
  const host = `127.0.0.1:${await listen(server, 0, '127.0.0.1')}`
  const limits = { timeoutMs: 1_000, maxAnswerBytes: 1_000 }
  const { call } = openMoneroConnection(`http://${host}`, limits)
  await call('get_height', {})
  // The library sends one request after the other.
  const queue = Reflect.get(monero.HttpClient['TASK_QUEUES'], host) as {
    submit(task: () => unknown): unknown
  }
  queue.submit(() => new Promise(() => {}))
  await expect(call('get_height', {})).rejects.toThrow(NodeUnreachable)
  expect(await call('get_height', {})).toEqual({})
})
