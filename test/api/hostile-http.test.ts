import { randomInt } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { createSeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import { FULL } from '../support/full.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'
import { countStored } from '../support/stored.ts'
import { connectRaw, statusesOf } from '../support/torture-sockets.ts'

/** Changed requests that are tried, each from the seed and its number. */
const CHANGED = FULL ? 20_000 : 400
const SEED = Number(process.env['FUZZ_SEED'] ?? randomInt(1, 2 ** 31))
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 5 }

let service: TestService
let agent: TestAgent

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  agent = await service.registerWithPass()
})
afterAll(() => service.stop())

/** Sends bytes and gives back what came until the service closed the connection, or until `isEnough`. */
async function send(
  bytes: string | Buffer,
  isEnough: (received: string) => boolean = () => false,
): Promise<string> {
  const connection = await connectRaw(service.url)
  let isClosed = false
  void connection.closed.then(() => (isClosed = true))
  connection.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  await waitFor(
    'the end of the connection',
    () => (isClosed || isEnough(connection.received()) ? true : undefined),
    LIMIT,
  )
  connection.socket.destroy()
  return connection.received()
}

const post = (body: string, headers: readonly string[] = [], line = 'POST /api/v1/post HTTP/1.1'): string =>
  [
    line,
    'Host: a',
    `Authorization: Bearer ${agent.token}`,
    'Content-Type: application/json',
    ...headers,
    '',
    body,
  ].join('\r\n')

const smuggled = (): string => post('{"body":"smuggled"}', ['Content-Length: 19'])

/** Whatever was sent, a post with this text must not have been stored. */
async function expectNotStored(text: string): Promise<void> {
  expect(await service.ctx.posts.models.posts.countDocuments({ body: text })).toBe(0)
}

describe('a request that two readers could read as two', () => {
  it.each<[string, () => string]>([
    [
      'a length and chunks',
      () => post('0\r\n\r\n' + smuggled(), ['Content-Length: 5', 'Transfer-Encoding: chunked']),
    ],
    [
      'chunks and a length',
      () => post('0\r\n\r\n' + smuggled(), ['Transfer-Encoding: chunked', 'Content-Length: 5']),
    ],
    ['two lengths', () => post('{}' + smuggled(), ['Content-Length: 2', 'Content-Length: 200'])],
    ['a length of two numbers', () => post('{}' + smuggled(), ['Content-Length: 2, 200'])],
    ['a length with a sign', () => post('{}' + smuggled(), ['Content-Length: +2'])],
    ['a length in hex', () => post('{}' + smuggled(), ['Content-Length: 0x2'])],
    ['a length below 0', () => post('{}' + smuggled(), ['Content-Length: -2'])],
    ['a length that overflows', () => post('{}' + smuggled(), ['Content-Length: 18446744073709551618'])],
    [
      'chunks, obscured by a blank before the colon',
      () => post('0\r\n\r\n' + smuggled(), ['Transfer-Encoding : chunked']),
    ],
    [
      'chunks, obscured by a tab',
      () => post('0\r\n\r\n' + smuggled(), ['Transfer-Encoding:\x0bchunked', 'Content-Length: 5']),
    ],
    [
      'chunks, obscured by another coding behind',
      () => post('0\r\n\r\n' + smuggled(), ['Transfer-Encoding: chunked, identity', 'Content-Length: 5']),
    ],
    [
      'chunks on a folded line',
      () => post('0\r\n\r\n' + smuggled(), ['X: y', ' Transfer-Encoding: chunked', 'Content-Length: 5']),
    ],
    [
      'a chunk whose size is no number',
      () => post('zz\r\n{}\r\n0\r\n\r\n' + smuggled(), ['Transfer-Encoding: chunked']),
    ],
    [
      'a chunk whose size overflows',
      () => post('fffffffffffffffff\r\n{}\r\n0\r\n\r\n' + smuggled(), ['Transfer-Encoding: chunked']),
    ],
    [
      'a chunk whose size has a sign',
      () => post('-2\r\n{}\r\n0\r\n\r\n' + smuggled(), ['Transfer-Encoding: chunked']),
    ],
    [
      'a chunk longer than its size',
      () => post('1\r\n{}\r\n0\r\n\r\n' + smuggled(), ['Transfer-Encoding: chunked']),
    ],
    ['a header without a colon', () => post('{}' + smuggled(), ['Content-Length 2'])],
    ['a NUL in a header', () => post('{}' + smuggled(), ['X: a\0b', 'Content-Length: 2'])],
    [
      'a bare line feed in a header',
      () => post('{}' + smuggled(), ['X: a\nContent-Length: 200', 'Content-Length: 2']),
    ],
    [
      'a bare carriage return',
      () => post('{}' + smuggled(), ['X: a\rContent-Length: 200', 'Content-Length: 2']),
    ],
  ])('is refused, and what follows it is not looked at: %s', async (_, request) => {
    const received = await send(request())
    const statuses = statusesOf(received)
    expect(statuses, received).toEqual([400])
    expect(received).toContain('"ok":false')
    await expectNotStored('smuggled')
  })

  it('is not made out of a body that looks like one', async () => {
    const inner = smuggled()
    const received = await send(
      post(inner, [`Content-Length: ${inner.length}`]),
      (text) => statusesOf(text).length > 0,
    )
    expect(statusesOf(received)).toEqual([400])
    const chunked = `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`
    expect(
      statusesOf(
        await send(post(chunked, ['Transfer-Encoding: chunked']), (text) => statusesOf(text).length > 0),
      ),
    ).toEqual([400])
    await expectNotStored('smuggled')
  })
})

describe('a request line', () => {
  it.each(['', ' HTTP/2.0', ' HTTP/0.9', ' HTTP/1.2', ' http/1.1', ' HTTP/11'])(
    'that does not end in a version of HTTP/1 is refused, and its connection closes: GET /…%s',
    async (version) => {
      const received = await send(`GET /api/v1/limits${version}\r\nHost: a\r\n\r\n`)
      expect(statusesOf(received), received).toEqual([400])
      expect(received).toMatch(/connection: close/i)
      expect(received).toContain('"error":"invalid_field"')
    },
  )

  it('of HTTP/1.0 is answered, without Host too', async () => {
    const received = await send('GET /api/v1/limits HTTP/1.0\r\n\r\n')
    expect(statusesOf(received)).toEqual([200])
  })

  it('of HTTP/1.1 is refused without Host, and its connection closes', async () => {
    const received = await send('GET /api/v1/limits HTTP/1.1\r\n\r\n')
    expect(statusesOf(received)).toEqual([400])
    expect(received).toMatch(/connection: close/i)
    expect(received).toContain('must have the header Host')
  })
})

describe('a header of more than a kilobyte that says what a client prefers', () => {
  const prefers = (name: string, value: string, count: number) =>
    send(
      `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${name}: ${value}${', a/b;q=0.1'.repeat(count)}\r\n\r\n`,
      () => false,
    )

  it('counts as if it were not there, and a shorter one is followed', async () => {
    expect(await prefers('Accept', 'text/html', 10)).toMatch(/content-type: text\/html/i)
    expect(await prefers('Accept', 'text/html', 500)).toMatch(/content-type: application\/json/i)
    expect(await prefers('Accept-Encoding', 'gzip', 500)).not.toMatch(/content-encoding/i)
  })
})

describe('headers without end', () => {
  it.each<[string, () => string]>([
    ['one of 1 MB', () => `GET /api/v1/feed HTTP/1.1\r\nX: ${'a'.repeat(2 ** 20)}\r\n\r\n`],
    ['100,000 of them', () => `GET /api/v1/feed HTTP/1.1\r\n${'X: a\r\n'.repeat(100_000)}\r\n`],
    ['a path of 1 MB', () => `GET /api/v1/feed?${'a'.repeat(2 ** 20)} HTTP/1.1\r\nHost: a\r\n\r\n`],
    ['a method of 1 MB', () => `${'A'.repeat(2 ** 20)} / HTTP/1.1\r\n\r\n`],
  ])('are refused, and the connection is closed: %s', async (_, request) => {
    const received = await send(request())
    // A refusal that meets bytes still on their way may be lost with the connection.
    expect(statusesOf(received).every((status) => status === 400 || status === 431)).toBe(true)
    expect((await service.call('GET', '/feed')).status).toBe(200)
  })
})

describe('requests sent without waiting', () => {
  it('are answered in their order, each once', async () => {
    const count = 200
    const requests = Array.from({ length: count }, (_, index) =>
      post(`{"body":"piped ${index}"}`, [`Content-Length: ${`{"body":"piped ${index}"}`.length}`]),
    )
    // The last of them in full: a read may end behind its status line.
    const received = await send(
      requests.join(''),
      (text) => statusesOf(text).length >= count && text.endsWith('}}'),
    )
    expect(statusesOf(received)).toEqual(Array.from({ length: count }, () => 201))
    const answered = [...received.matchAll(/"body":"piped (\d+)"/g)].map(([, index]) => Number(index))
    expect(answered.filter((_, place) => place % (answered.length / count) === 0)).toEqual(
      Array.from({ length: count }, (_, index) => index),
    )
    expect(await service.ctx.posts.models.posts.countDocuments({ body: /^piped / })).toBe(count)
  })
})

describe('a request of which bytes were changed, left out or put in', () => {
  it(`is answered by the table or cut off, never with a defect (seed ${SEED}, ${CHANGED} requests)`, async () => {
    const numbers = createSeededNumbers('http', Buffer.from(String(SEED)))
    const insertions = [
      '\r\n',
      '\n',
      '\0',
      ' ',
      ':',
      '\t',
      '%',
      '/',
      '..',
      '{',
      '"',
      '\\',
      '\xff',
      'Content-Length: 0\r\n',
      'Transfer-Encoding: chunked\r\n',
      'Expect: 100-continue\r\n',
      'Upgrade: h2c\r\nConnection: Upgrade\r\n',
      'HTTP/1.1',
      '$ne',
    ]
    const bodies = [
      '{"body":"changed"}',
      '{"to":"agt_1","box":"changed"}',
      '{"currency":"pow","days":1}',
      '{"statement":"changed"}',
      '{"name":"changed"}',
    ]
    const paths = ['post', 'dm', 'invoice', 'claim', 'profile', 'register', 'work/submit', 'market/offer']
    const before = await countStored(service.ctx.database.connection)
    const answered: Record<string, number> = {}
    const change = (): Buffer => {
      const body = numbers.pick(bodies)
      let bytes = Buffer.from(
        post(body, [`Content-Length: ${body.length}`], `POST /api/v1/${numbers.pick(paths)} HTTP/1.1`),
        'latin1',
      )
      for (let changes = numbers.between(1, 4); changes > 0; changes--) {
        const at = numbers.below(bytes.length)
        const put =
          numbers.below(3) === 0
            ? Buffer.from([numbers.below(256)])
            : Buffer.from(numbers.pick(insertions), 'latin1')
        bytes = Buffer.concat([
          bytes.subarray(0, at),
          numbers.below(4) === 0 ? Buffer.alloc(0) : put,
          bytes.subarray(at + numbers.below(3)),
        ])
      }
      return bytes
    }
    for (let sent = 0; sent < CHANGED; sent += 50) {
      await Promise.all(
        Array.from({ length: 50 }, async () => {
          const bytes = change()
          const connection = await connectRaw(service.url)
          connection.socket.end(bytes) // what lacks its end can't come any more, so every one is answered or cut
          await waitFor(
            `the end of ${JSON.stringify(bytes.toString('latin1'))}`,
            () =>
              connection.socket.destroyed || statusesOf(connection.received()).length > 0 ? true : undefined,
            LIMIT,
          )
          connection.socket.destroy()
          for (const status of statusesOf(connection.received())) {
            answered[status] = (answered[status] ?? 0) + 1
            expect(status, bytes.toString('latin1')).toBeLessThan(500)
          }
        }),
      )
    }
    expect(service.logged()).not.toContain('a request ended in a defect')
    expect(Object.keys(answered)).toContain('400')
    const after = await countStored(service.ctx.database.connection)
    // What still was a good request was done; nothing else was.
    expect((after['agents'] ?? 0) - (before['agents'] ?? 0)).toBe(0)
    expect((await service.call('GET', '/feed')).status).toBe(200)
  }, 600_000)
})

describe('a path that leads out of what is served', () => {
  const TRICKS = [
    ...[
      '/seal-verify.mjs/../../package.json',
      '/seal-verify.mjs%2f..%2f..%2fpackage.json',
      '/..%2f..%2f..%2fetc%2fpasswd',
      '/%2e%2e/%2e%2e/etc/passwd',
    ],
    ...[
      '/..\\..\\package.json',
      '/....//....//etc/passwd',
      '//etc/passwd',
      '/api/v1/../../package.json',
      '/api/v1/%2e%2e%2fmain.ts',
      '/.git/config',
      '/.env',
    ],
    ...[
      '/seal-verify.mjs%00.txt',
      '/vectors/../../package.json',
      '/api/v1/vectors/..%2f..%2f..%2fpackage.json',
      '/;/package.json',
      '/%c0%ae%c0%ae/package.json',
    ],
    ...[
      '/.data/seal-key',
      '/client/seal-verify.mjs',
      '/node_modules/express/package.json',
      '/static/../api/main.ts',
      '/%252e%252e%252fpackage.json',
    ],
  ]

  it.each(TRICKS)('is a 404 or a 400 in JSON: %s', async (path) => {
    const received = await send(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    expect([400, 404], received.slice(0, 300)).toContain(statusesOf(received)[0])
    expect(received).toContain('"ok":false')
    expect(received).not.toMatch(/agent-network"|root:|createApp|\[core\]/)
  })
})
