import { once } from 'node:events'
import http from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pathsOf } from '../../api/http/mount.ts'
import { describeApi } from '../../api/openapi/document.ts'
import { createLimitedServer } from '../../api/http/server.ts'
import { maxConnectionsFor } from '../../shared/platform/limit-connections.ts'
import { listen } from '../../shared/platform/listen.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { MAX_BODY_BYTES, MAX_PIPELINED, MAX_PIPELINED_OF_CONNECTION } from '../../shared/platform/limits.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'
import { connectMany, connectRaw, statusesOf, type RawConnection } from '../support/torture-sockets.ts'

const LIMIT = { limitMs: PATIENCE_MS, everyMs: 10 }

let service: TestService
let agent: TestAgent

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  agent = await service.registerWithPass()
})
afterAll(() => service.stop())

const post = (body: string, headers: readonly string[], path = 'post'): string =>
  [
    `POST /api/v1/${path} HTTP/1.1`,
    `Authorization: Bearer ${agent.token}`,
    'Content-Type: application/json',
    ...headers,
    '',
    body,
  ].join('\r\n')

async function ask(
  bytes: string,
  isEnough: (received: string) => boolean = (received) => statusesOf(received).length > 0,
): Promise<RawConnection> {
  const connection = await connectRaw(service.url)
  connection.socket.write(bytes)
  await waitFor(
    `an answer to ${bytes.slice(0, 300)}`,
    () => (isEnough(connection.received()) || connection.socket.destroyed ? true : undefined),
    LIMIT,
  )
  return connection
}

/** Of the one answer on a connection that closes after it. */
function expectRefused({ received }: RawConnection, status: number, error: string): void {
  const [head = '', body = ''] = received().split('\r\n\r\n')
  expect(statusesOf(received()), received()).toEqual([status])
  expect(head).toMatch(/content-type: application\/json/i)
  expect(head).toMatch(/connection: close/i)
  expect(JSON.parse(body)).toMatchObject({
    ok: false,
    error,
    message: expect.stringMatching(/^[A-Z].*\.$/) as string,
  })
}

describe('a connection', () => {
  // holds: limits.connection, limits.connection.detail
  it('that sends its headers or its body too slowly is told 408 and soon destroyed, though its client keeps it', async () => {
    const headers = await connectRaw(service.url)
    const startedAt = performance.now()
    const headersToldMs = once(headers.socket, 'data').then(() => performance.now() - startedAt)
    headers.socket.write('GET /api/v1/feed HTTP/1.1\r\nX: ')
    const body = await connectRaw(service.url)
    body.socket.write(post('{', ['Host: a', 'Content-Length: 1000']))
    const trickle = setInterval(() => {
      headers.socket.write('a')
      body.socket.write(' ')
    }, 100)
    for (const connection of [body, headers]) {
      connection.socket.setKeepAlive(true)
      await waitFor('a refusal', () => (connection.received() === '' ? undefined : true), LIMIT)
      const toldAt = performance.now()
      await connection.closed
      expect(performance.now() - toldAt).toBeLessThan(15_000)
      expectRefused(connection, 408, 'unavailable')
    }
    clearInterval(trickle)
    // Their deadline is 10 s, and that of the whole request 30 s.
    expect(await headersToldMs).toBeLessThan(25_000)
    expect(service.logged()).toContain('"slow_request"')
  })

  it('that does not say how long its body is is refused once that is too long', async () => {
    const chunk = 'a'.repeat(MAX_BODY_BYTES + 1)
    const body = `${chunk.length.toString(16)}\r\n${chunk}\r\n0\r\n\r\n`
    const { received, socket } = await ask(post(body, ['Host: a', 'Transfer-Encoding: chunked']))
    expect([statusesOf(received()), received()]).toEqual([[413], expect.stringContaining('body_too_large')])
    socket.destroy()
  })

  it('is destroyed after a refusal even if its client never closes its side', async () => {
    const server = createLimitedServer(() => undefined)
    const port = await listen(server.http, 0, '127.0.0.1')
    const left = () =>
      new Promise<number>((resolve) => server.http.getConnections((_error, count) => resolve(count)))
    const lying = await connectMany(`http://127.0.0.1:${port}`, 20, false)
    for (const { socket } of lying) socket.write('no HTTP\r\n\r\n')
    await waitFor('their ends', async () => ((await left()) === 0 ? true : undefined), LIMIT)
    for (const { socket } of lying) socket.destroy()
    await server.close()
  })

  it('is one of at most 20,000, and of so many that 200 descriptors are left', () => {
    expect([undefined, 1_048_576, 10_200, 1_024, 300, 100].map(maxConnectionsFor)).toEqual([
      20_000, 20_000, 10_000, 824, 100, 1,
    ])
  })

  // holds: limits.connection
  it('has one answer under way: requests behind it wait unread until it is taken, and then are answered in order', async () => {
    const asked: string[] = []
    const { listener } = await import('../../api/http/connection.ts').then(({ answerInTurn }) => ({
      listener: answerInTurn((req, res) => {
        asked.push(req.url ?? '')
        res.end(Buffer.alloc(8 * 2 ** 20, 0x61)) // more than the system's own buffers hold
      }),
    }))
    const server = createLimitedServer(listener)
    const connection = await connectRaw(
      `http://127.0.0.1:${await listen(server.http, 0, '127.0.0.1')}`,
      false,
    )
    for (let at = 0; at < 20; at++) connection.socket.write(`GET /${at} HTTP/1.1\r\nHost: a\r\n\r\n`)
    await waitFor('the first', () => (asked.length > 0 ? true : undefined), LIMIT)
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(asked).toEqual(['/0'])
    connection.socket.resume()
    await waitFor('all of them', () => (asked.length === 20 ? true : undefined), LIMIT)
    expect(asked).toEqual(Array.from({ length: 20 }, (_, at) => `/${at}`))
    connection.socket.destroy()
    await server.close()
  })

  it('that sends thousands of requests at once is cut for them, and no other that sends a few', async () => {
    const { answerInTurn } = await import('../../api/http/connection.ts')
    const open: (() => void)[] = []
    const server = createLimitedServer(answerInTurn((_req, res) => void open.push(() => res.end('answered'))))
    const url = `http://127.0.0.1:${await listen(server.http, 0, '127.0.0.1')}`
    const request = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
    // One of each is under way, and all others wait: as many as there is room for.
    const loud = await connectMany(url, 20)
    for (const { socket } of loud) socket.write(request.repeat(MAX_PIPELINED / loud.length + 1))
    await waitFor('one request of each', () => (open.length >= loud.length ? true : undefined), LIMIT)
    // What comes now is at the expense of those that have the most.
    const modest = await connectMany(url, 50)
    const each = MAX_PIPELINED_OF_CONNECTION + 1
    for (const { socket } of modest) socket.write(request.repeat(each))
    await waitFor(
      'an answer to each request of the modest',
      () => {
        for (const answer of open.splice(0)) answer()
        return modest.every(({ received }) => statusesOf(received()).length === each) ? true : undefined
      },
      LIMIT,
    )
    expect(modest.filter(({ socket }) => socket.destroyed)).toEqual([])
    for (const { socket } of [...loud, ...modest]) socket.destroy()
    await server.close()
  })
})

describe('a request', () => {
  it.each([
    [
      'two tokens',
      () => post('{}', ['Host: a', `Authorization: Bearer ${agent.token}`, 'Content-Length: 2']),
    ],
    ['two hosts', () => post('{}', ['Host: a', 'host: b', 'Content-Length: 2'])],
    ['a coding besides chunks', () => post('0\r\n\r\n', ['Host: a', 'Transfer-Encoding: gzip, chunked'])],
  ])('with %s is refused, and its connection closes', async (_, request) => {
    const connection = await ask(request())
    await connection.closed
    expectRefused(connection, 400, 'invalid_field')
  })

  it('that expects 100 Continue gets it after authentication and length alone', async () => {
    const expects = (length: number, ...more: string[]) =>
      post('', ['Host: a', `Content-Length: ${length}`, 'Expect: 100-continue', ...more])
    const good = await ask(expects(15), (received) => received.includes('\r\n\r\n'))
    expect(good.received()).toMatch(/^HTTP\/1\.1 100 Continue/)
    good.socket.write('{"body":"good"}')
    await waitFor('its answer', () => (statusesOf(good.received()).includes(201) ? true : undefined), LIMIT)
    good.socket.destroy()
    const long = await ask(expects(MAX_BODY_BYTES + 1))
    expect(statusesOf(long.received())).toEqual([413])
    const unknown = await ask(expects(15).replace(agent.token, `sk_${'0'.repeat(48)}`))
    expect(statusesOf(unknown.received())).toEqual([401])
    for (const { socket } of [long, unknown]) socket.destroy()
  })

  it('that expects anything else is refused, behind the answer to the one before', async () => {
    const expects = post('{}', ['Host: a', 'Content-Length: 2', 'Expect: something'])
    const connection = await ask(
      `GET /api/v1/limits HTTP/1.1\r\nHost: a\r\n\r\n${expects}`,
      (received) => statusesOf(received).length === 2,
    )
    expect(statusesOf(connection.received())).toEqual([200, 400])
    expect(connection.received()).toContain('The header Expect may only be 100-continue.')
    connection.socket.destroy()
  })

  it('that has bytes behind it which are no request is answered, and then its connection closes', async () => {
    const connection = await ask(post('{"body":"of no length"}', ['Host: a'], 'token/rotate'))
    await connection.closed
    const [first] = statusesOf(connection.received())
    expect(first).toBe(200)
    agent = { ...agent, token: /sk_[0-9a-f]{48}/.exec(connection.received())?.[0] ?? '' }
  })

  it('goes to a host by any name, unless the operator has named some', async () => {
    const named = await startService({ queues: [], env: { ALLOWED_HOSTS: 'agents.example' } })
    const statusOf = (host: string) =>
      new Promise<number>((resolve, reject) =>
        http
          .get(`${named.url}/api/v1/limits`, { headers: { host } }, (res) =>
            resolve(res.resume().statusCode ?? 0),
          )
          .on('error', reject),
      )
    for (const [host, status] of [
      ['agents.example', 200],
      ['Agents.Example:443', 200],
      ['127.0.0.1:1', 200],
      ['[::1]:1', 200],
      ['localhost', 200],
      ['evil.example', 400],
      ['agents.example.evil.example', 400],
    ] as const)
      expect(await statusOf(host), host).toBe(status)
    await named.stop()
  })
})

describe('what is refused for lack of room or time', () => {
  it('leaves one line a second with counts by kind, and no stack for each request', async () => {
    const before = service.logged().length
    const startedAt = Date.now()
    const connections = await connectMany(service.url, 300)
    const request = `GET /api/v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${agent.token}\r\n\r\n`
    const spy = service.ctx.agents.findCaller
    service.ctx.agents.findCaller = () =>
      Promise.reject(Object.assign(new Error('away'), { name: 'MongoServerSelectionError' }))
    for (const { socket } of connections) socket.write(request)
    await waitFor(
      'their refusals',
      () => (connections.every(({ received }) => received().includes(' 503 ')) ? true : undefined),
      LIMIT,
    )
    service.ctx.agents.findCaller = spy
    await new Promise((resolve) => setTimeout(resolve, 1_200))
    const lines = service
      .logged()
      .slice(before)
      .split('\n')
      .filter((line) => line.includes('"refused"'))
      .map((line) => JSON.parse(line) as { refused: { database?: number }; error?: string; err?: unknown })
    expect(lines.length).toBeLessThanOrEqual(1 + Math.ceil((Date.now() - startedAt) / 1_000))
    expect(lines.reduce((sum, { refused }) => sum + (refused.database ?? 0), 0)).toBe(300)
    expect(lines[0]?.error).toBe('MongoServerSelectionError: away')
    for (const { socket } of connections) socket.destroy()
  })

  // holds: limits.overload, rules.errors.unavailable
  it('is told why: a deadline is not an outage of the database', async () => {
    const hung = service.ctx.posts.listFeed
    service.ctx.posts.listFeed = () => new Promise(() => undefined)
    const { status, json } = await service.call('GET', '/feed?topic=hung')
    service.ctx.posts.listFeed = hung
    expect([status, json.error]).toEqual([503, 'unavailable'])
    expect(json.message).toContain('did not finish this request in time')
    expect(json.message).not.toContain('cannot reach')
  }, 60_000)
})

describe('a disk that is nearly full', () => {
  // holds: limits.disk
  it('has writes answered 503 and reads served, with a trace and a gauge', async () => {
    const full = await startService({ queues: [], env: { MIN_FREE_DISK_GB: '0' } })
    const writer = await full.registerWithPass()
    Object.assign(full.ctx.config, { minFreeDiskBytes: 1e18 })
    const post = () => full.call('POST', '/post', { token: writer.token, body: { body: 'no room' } })
    await waitFor('a refusal', async () => ((await post()).status === 503 ? true : undefined), LIMIT)
    expect((await post()).json.message).toContain('disk is nearly full')
    expect((await full.call('GET', '/feed')).status).toBe(200)
    expect(full.logged()).toContain('"disk"')
    expect(await full.ctx.database.freeDiskBytes()).toBeGreaterThan(0)
    await full.stop()
  })
})

describe('the OpenAPI document', () => {
  it('says 304 of each route that answers it, and of no other', () => {
    const { paths } = describeApi(service.routes, service.url) as {
      paths: Record<string, { get?: { responses: object } }>
    }
    const says = Object.entries(paths).filter(([, { get }]) => get !== undefined && '304' in get.responses)
    // What anyone may read, and is not another each time.
    const open = service.routes.filter(
      ({ method, access, path, onlyAtRoot }) =>
        method === 'GET' && access === 'open' && path !== '/challenge' && !onlyAtRoot,
    )
    expect(says.map(([path]) => path).toSorted()).toEqual(open.map((route) => pathsOf(route)[0]).toSorted())
  })
})
