import http from 'node:http'
import type net from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { requestText, startLoad, type Load } from '../harness/bench/load.ts'

const ANSWER_MS = 5

/** Answers `/STATUS` with that status and a text in two pieces. */
const server = http.createServer((request, response) => {
  response.writeHead(Number(request.url?.slice(1)), { 'Content-Length': 8 })
  response.write('{"ok')
  setTimeout(() => response.end('":1}'), ANSWER_MS)
})
let load: Load

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  load = startLoad()
})
afterAll(() => {
  load.stop()
  server.closeAllConnections()
  server.close()
})

const run = (statuses: readonly number[], expected?: string) =>
  load.run({
    port: (server.address() as net.AddressInfo).port,
    connections: 1,
    durationMs: Number.POSITIVE_INFINITY,
    lanes: [statuses.map((status) => requestText('GET', `/${status}`))],
    repeat: false,
    mayFail: 1,
    ...(expected === undefined ? {} : { expect: expected }),
  })

it('counts each answer once that is not 2xx, whatever it contains', async () => {
  expect(await run([200, 503, 404])).toMatchObject({ answers: 3, failed: 2 })
  expect(await run([200, 503, 404], '"ok":1')).toMatchObject({ answers: 3, failed: 2 })
  expect(await run([200, 503, 404], '"ok":2')).toMatchObject({ answers: 3, failed: 3 })
})

it('finds the expected content in an answer that arrives in pieces', async () => {
  expect(await run([200, 200], '"ok":1')).toMatchObject({ answers: 2, failed: 0 })
})

it('sends all that was due, and counts how long it was due, to a service that is too slow for it', async () => {
  const due = 100
  const result = await load.run({
    port: (server.address() as net.AddressInfo).port,
    connections: 1,
    durationMs: due,
    ratePerSecond: 1_000,
    lanes: [[requestText('GET', '/200')]],
    repeat: true,
  })
  expect(result.answers).toBe(due)
  // The last one waited for all before it.
  expect(result.p99Ms).toBeGreaterThan(due * (ANSWER_MS - 1) - due)
})
