import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MAX_QUERY_PARAMETERS } from '../../shared/platform/limits.ts'
import { startService, WITHOUT_LEDGER, type TestService } from '../support/service.ts'
import { connectRaw, type RawConnection } from '../support/torture-sockets.ts'

/** Half of what a request's line and headers may be long (16 KB). */
const HEAD_BYTES = 7_500
/** Half of the longest body; an eighth of that shows a square just as well. */
const BODY_BYTES = 250_000
/** The least processor time of the tries counts, so that a busy machine changes nothing. */
const LEAST_TRIES = 5
/** So many if the first ones leave a doubt. */
const MOST_TRIES = 20
/** Requests that are sent before the time is read again. */
const REQUESTS = 8
/** A try goes on for so long, since a system may tell processor time in steps of 10 ms. */
const LEAST_MEASURED_US = 50_000

let service: TestService
let token: string

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  token = (await service.registerWithPass()).token
})
afterAll(() => service.stop())

/** Repeats a text until it has about so many bytes. */
const fill = (text: string, bytes: number): string => text.repeat(Math.floor(bytes / text.length))
/** Texts that begin alike and differ by a number, so many bytes of them. */
const count = (write: (at: number) => string, bytes: number): string => {
  let text = ''
  for (let at = 0; text.length < bytes; at++) text += write(at)
  return text
}

const get = (path: string, ...headers: string[]): string =>
  [`GET /api/v1${path} HTTP/1.1`, 'Host: a', ...headers, '', ''].join('\r\n')
const post = (path: string, body: string, ...headers: string[]): string =>
  [
    `POST /api/v1${path} HTTP/1.1`,
    'Host: a',
    `Authorization: Bearer ${token}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
    '',
    body,
  ].join('\r\n')
const JSON_TYPE = 'Content-Type: application/json'

/** Sends a request over a connection of its own, as often as said, each after the answer to the last. */
async function send(request: string, times: number): Promise<void> {
  let connection: RawConnection | undefined
  for (let sent = 0; sent < times; sent++) {
    if (connection === undefined || connection.socket.destroyed) connection = await connectRaw(service.url)
    const { socket } = connection
    const answered = new Promise<void>((resolve) => {
      socket.once('data', () => resolve())
      socket.once('close', () => resolve())
    })
    socket.write(request)
    await answered
  }
  connection?.socket.destroy()
}

/** The processor time, in microseconds, that this thread takes for a request and its answer. */
async function measure(request: string): Promise<number> {
  const before = process.threadCpuUsage()
  let sent = 0
  let taken = 0
  while (taken < LEAST_MEASURED_US) {
    await send(request, REQUESTS)
    sent += REQUESTS
    const { user, system } = process.threadCpuUsage(before)
    taken = user + system
  }
  return taken / sent
}

/** The least times of two requests, measured by turns until the second is clearly below three times the first. */
async function measureBoth(short: string, long: string): Promise<[number, number]> {
  let [once, twice] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let tries = 1; tries <= MOST_TRIES; tries++) {
    once = Math.min(once, await measure(short))
    twice = Math.min(twice, await measure(long))
    if (tries >= LEAST_TRIES && twice < 2.5 * once) break
  }
  return [once, twice]
}

describe('twice as long a request costs less than three times as much', () => {
  it.each<[string, number, (bytes: number) => string]>([
    ['a query of one name again and again', HEAD_BYTES, (bytes) => get(`/challenge?${fill('a&', bytes)}`)],
    ['a query of one known name', HEAD_BYTES, (bytes) => get(`/feed?${fill('limit&', bytes)}`)],
    ['a query of many names', HEAD_BYTES, (bytes) => get(`/feed?${count((at) => `n${at}&`, bytes)}`)],
    ['a query of escapes', HEAD_BYTES, (bytes) => get(`/feed?topic=${fill('%61', bytes)}`)],
    ['a path of many parts', HEAD_BYTES, (bytes) => get(`/tile${fill('/0', bytes)}`)],
    [
      'one header again and again',
      HEAD_BYTES,
      (bytes) => get('/limits', ...fill('A: b\n', bytes).split('\n').slice(0, -1)),
    ],
    [
      'many headers',
      HEAD_BYTES,
      (bytes) =>
        get(
          '/limits',
          ...count((at) => `A${at}: b\n`, bytes)
            .split('\n')
            .slice(0, -1),
        ),
    ],
    [
      'an Accept of many types',
      HEAD_BYTES,
      (bytes) => get('/'.slice(1), `Accept: ${count((at) => `a/b${at};q=0.5,`, bytes)}`),
    ],
    [
      'an Accept-Encoding of many codings',
      HEAD_BYTES,
      (bytes) => get('/limits', `Accept-Encoding: ${count((at) => `a${at};q=0.5,`, bytes)}`),
    ],
    [
      'an If-None-Match of many tags',
      HEAD_BYTES,
      (bytes) => get('/limits', `If-None-Match: ${fill('"a",', bytes)}`),
    ],
    [
      'an Authorization of many spaces',
      HEAD_BYTES,
      (bytes) => get('/me', `Authorization: Bearer${fill(' ', bytes)}a b`),
    ],
    [
      'a Content-Type of many parameters',
      HEAD_BYTES,
      (bytes) => post('/post', '{}', `Content-Type: application/json${fill(';a=b', bytes)}`),
    ],
    [
      'a body of lists in lists',
      BODY_BYTES,
      (bytes) => post('/post', `{"a":${fill('[', bytes / 2)}${fill(']', bytes / 2)}}`, JSON_TYPE),
    ],
    [
      'a body of objects in objects',
      BODY_BYTES,
      (bytes) => post('/post', `{"a":${fill('{"a":', bytes)}`, JSON_TYPE),
    ],
    [
      'a body of one name again and again',
      BODY_BYTES,
      (bytes) => post('/post', `{${fill('"a":1,', bytes)}"b":1}`, JSON_TYPE),
    ],
    [
      'a body of many names',
      BODY_BYTES,
      (bytes) => post('/post', `{${count((at) => `"n${at}":1,`, bytes)}"b":1}`, JSON_TYPE),
    ],
    [
      'a body of a long text',
      BODY_BYTES,
      (bytes) => post('/post', `{"body":"${fill('\\u00e9', bytes)}"}`, JSON_TYPE),
    ],
    [
      'a body of a long list',
      BODY_BYTES,
      (bytes) => post('/work/submit', `{"order_id":"wrk_x","nonces":[${fill('"a",', bytes)}"b"]}`, JSON_TYPE),
    ],
    [
      'a body of a long list of another type',
      BODY_BYTES,
      (bytes) => post('/profile', `{"capabilities":[${fill('1,', bytes)}1]}`, JSON_TYPE),
    ],
  ])('%s', async (_, bytes, write) => {
    const [once, twice] = await measureBoth(write(bytes), write(2 * bytes))
    expect(twice, `${once} µs, then ${twice} µs`).toBeLessThan(3 * once)
  })
})

describe('a query', () => {
  it(`has at most ${MAX_QUERY_PARAMETERS} parameters: more are refused with a sentence that says so`, async () => {
    const ask = (parameters: number) =>
      service.call('GET', `/feed?${Array.from({ length: parameters }, () => 'limit=5').join('&')}`)
    const refused = await ask(MAX_QUERY_PARAMETERS + 1)
    expect([refused.status, refused.json.error]).toEqual([400, 'invalid_field'])
    expect(refused.json.message).toContain(`at most ${MAX_QUERY_PARAMETERS}`)
    const many = await ask(MAX_QUERY_PARAMETERS)
    expect([many.status, many.json.error, many.json.field]).toEqual([400, 'invalid_field', 'limit'])
    expect((await ask(1)).status).toBe(200)
  })
})
