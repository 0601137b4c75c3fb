import { constants } from 'node:crypto'
import type net from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { checkDoorbellUrl } from '../../shared/doorbells/doorbell.ts'
import {
  createResolver,
  createTlsContext,
  postOnce,
  requirePublic,
  type Posted,
} from '../../shared/doorbells/https-post.ts'
import {
  BELL_CERTIFICATE,
  EXPIRED_CERTIFICATE,
  OTHER_CERTIFICATE,
  serveBell,
  serveTcp,
  serveTls,
  type Receiver,
} from '../support/doorbell-receivers.ts'

/*
 * Receivers that mean harm. Each is asked at the same time as all others, beside one that is as it should be; a
 * loopback service that nobody may reach notes each connection.
 */

const open: Receiver[] = []
const keep = async <R extends Receiver>(starting: Promise<R>): Promise<R> => {
  const receiver = await starting
  open.push(receiver)
  return receiver
}
afterAll(() => open.forEach((receiver) => receiver.close()))

/** Requests that reached what stands inside. */
const inside: string[] = []
const insideStarted = keep(serveTcp(() => inside.push('a connection')))

const post = (
  url: string,
  resolve: (host: string) => readonly string[],
  readsBody = false,
): Promise<Posted> =>
  postOnce(
    { resolve: (host) => Promise.resolve(resolve(host)), secureContext },
    { url, body: '{}', headers: {}, turn: 0 },
    readsBody,
  )
const secureContext = createTlsContext(BELL_CERTIFICATE.cert)
const loopback = () => ['127.0.0.1']

/** An answer in raw bytes, to whatever comes. */
const raw = (bytes: string) => (socket: net.Socket) =>
  void socket.once('data', () => socket.end(bytes, 'latin1'))
const keepSending = (socket: net.Socket, first: string, bytes: string, everyMs: number) => {
  socket.write(first)
  const timer = setInterval(() => socket.write(bytes), everyMs)
  socket.once('close', () => clearInterval(timer))
}
const OK = 'HTTP/1.1 200 OK\r\n'

type Case = [name: string, start: () => Promise<Receiver>, expected: RegExp | number, readsBody?: boolean]

const ANSWERS: Case[] = [
  ...[301, 302, 303, 307, 308].map((status): Case => [
    `a redirect ${status} to what stands inside`,
    async () => {
      const { port } = await insideStarted
      return serveTls(raw(`HTTP/1.1 ${status} X\r\nLocation: https://127.0.0.1:${port}/\r\n\r\n`))
    },
    status,
  ]),
  ['a redirect by Refresh', () => serveTls(raw(`${OK}Refresh: 0; url=https://127.0.0.1/\r\n\r\n`)), 200],
  [
    'an upgrade',
    () => serveTls(raw('HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')),
    /upgrade|101/,
  ],
  [
    'interim answers without end',
    () => serveTls((socket) => keepSending(socket, '', 'HTTP/1.1 100 Continue\r\n\r\n', 5)),
    /3 s/,
  ],
  [
    'early hints without end',
    () => serveTls((socket) => keepSending(socket, '', 'HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n', 5)),
    /3 s/,
  ],
  [
    'a byte of the status line a second',
    () => serveTls((socket) => keepSending(socket, 'H', 'T', 1_000)),
    /3 s|Parse/,
  ],
  [
    'a byte of a header now and then',
    () => serveTls((socket) => keepSending(socket, `${OK}X: `, 'x', 100)),
    /3 s/,
  ],
  [
    'headers without end',
    () => serveTls((socket) => keepSending(socket, OK, `X-A: ${'a'.repeat(1_000)}\r\n`, 1)),
    /overflow/i,
  ],
  ['one header of a MiB', () => serveTls(raw(`${OK}X: ${'a'.repeat(2 ** 20)}\r\n\r\n`)), /overflow/i],
  [
    'a body of a GiB, unread',
    () =>
      serveTls((socket) =>
        keepSending(socket, `${OK}Content-Length: 1073741824\r\n\r\n`, 'x'.repeat(65_536), 1),
      ),
    200,
  ],
  [
    'a body of a GiB, read',
    () =>
      serveTls((socket) =>
        keepSending(socket, `${OK}Content-Length: 1073741824\r\n\r\n`, 'x'.repeat(65_536), 1),
      ),
    200,
    true,
  ],
  [
    'a body of a byte a second, unread',
    () => serveTls((socket) => keepSending(socket, `${OK}Content-Length: 1024\r\n\r\n`, 'x', 1_000)),
    200,
  ],
  [
    'a body of a byte a second, read',
    () => serveTls((socket) => keepSending(socket, `${OK}Content-Length: 1024\r\n\r\n`, 'x', 1_000)),
    /3 s/,
    true,
  ],
  [
    'chunks without end',
    () =>
      serveTls((socket) =>
        keepSending(socket, `${OK}Transfer-Encoding: chunked\r\n\r\n`, `a\r\n${'x'.repeat(10)}\r\n`, 1),
      ),
    200,
    true,
  ],
  [
    'a chunk with a long extension',
    () =>
      serveTls((socket) =>
        keepSending(socket, `${OK}Transfer-Encoding: chunked\r\n\r\n1;`, 'x'.repeat(20_000), 5),
      ),
    /overflow|Parse|3 s/i,
    true,
  ],
  [
    'a body in gzip that grows',
    () => serveTls(raw(`${OK}Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00`)),
    200,
    true,
  ],
  [
    'both lengths',
    () => serveTls(raw(`${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`)),
    /Parse|Content-Length/i,
  ],
  [
    'a second answer behind the first',
    () => serveTls(raw(`${OK}Content-Length: 0\r\n\r\nHTTP/1.1 500 X\r\n\r\n`)),
    200,
  ],
  ['a negative length', () => serveTls(raw(`${OK}Content-Length: -1\r\n\r\n`)), /Parse|Content-Length/i],
  ['status 0', () => serveTls(raw('HTTP/1.1 000 X\r\n\r\n')), /Parse|Invalid|^0$|status/i],
  ['status 99999', () => serveTls(raw('HTTP/1.1 99999 X\r\n\r\n')), /Parse|Invalid/i],
  ['status 204', () => serveTls(raw('HTTP/1.1 204 X\r\n\r\n')), 204],
  [
    'status 401 with a demand',
    () => serveTls(raw('HTTP/1.1 401 X\r\nWWW-Authenticate: Negotiate\r\n\r\n')),
    401,
  ],
  ['status 407', () => serveTls(raw('HTTP/1.1 407 X\r\nProxy-Authenticate: Basic\r\n\r\n')), 407],
  [
    'status 429 with an hour to wait',
    () => serveTls(raw('HTTP/1.1 429 X\r\nRetry-After: 3600\r\n\r\n')),
    429,
  ],
  ['status 500', () => serveTls(raw('HTTP/1.1 500 X\r\n\r\n')), 500],
  ['cookies', () => serveTls(raw(`${OK}Set-Cookie: a=b; Domain=example\r\n\r\n`)), 200],
  ['HTTP/0.9', () => serveTls(raw('<html>hello</html>')), /Parse/],
  ['HTTP/2 without being asked', () => serveTls(raw('\0\0\x12\x04\0\0\0\0\0')), /Parse/],
  ['another protocol', () => serveTls(raw('220 mail.example ESMTP\r\n')), /Parse/],
  [
    'a control character in the status line',
    () => serveTls(raw('HTTP/1.1 200 O\0K\r\n\r\n')),
    /Parse|Invalid|^200$/i,
  ],
  ['line feeds alone', () => serveTls(raw('HTTP/1.1 200 OK\nX: y\n\n')), /Parse|200|Missing/i],
  [
    'nothing, and the end',
    () => serveTls((socket) => void socket.once('data', () => socket.end())),
    /hang up/,
  ],
  ['nothing at all', () => serveTls(() => undefined), /3 s/],
  ['half an answer, and the end', () => serveTls(raw('HTTP/1.1 20')), /hang up|Parse/],
  [
    'a reset after the request',
    () => serveTls((socket) => void socket.once('data', () => socket.destroy())),
    /hang up|RESET/,
  ],
  [
    'an end before the request',
    () => serveTls((socket) => void socket.destroy()),
    /hang up|RESET|disconnected|EPIPE/,
  ],
]

const CONNECTIONS: Case[] = [
  ['no TLS, HTTP in the clear', () => serveTcp(raw(`${OK}\r\n`)), /SSL|wrong version|packet length|record/i],
  ['no answer to the TLS hello', () => serveTcp(() => undefined), /3 s/],
  [
    'a byte of TLS a second',
    () => serveTcp((socket) => keepSending(socket, '\x16', '\x03', 1_000)),
    /3 s|SSL|version/i,
  ],
  [
    'a reset of the connection',
    () => serveTcp((socket) => void socket.resetAndDestroy()),
    /RESET|hang up|disconnected/,
  ],
  [
    'rubbish for TLS',
    () => serveTcp((socket) => void socket.write(Buffer.alloc(65_536, 0xff))),
    /SSL|version|record/i,
  ],
  [
    'TLS alerts',
    () => serveTcp((socket) => void socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 40]))),
    /alert|handshake|SSL/i,
  ],
  [
    'a certificate of another name',
    () => serveTls(raw(`${OK}\r\n`), OTHER_CERTIFICATE),
    /self-signed|altnames|unable/i,
  ],
  ['an expired certificate', () => serveTls(raw(`${OK}\r\n`), EXPIRED_CERTIFICATE), /expired/],
  [
    'TLS 1.1',
    () =>
      serveTls(raw(`${OK}\r\n`), {
        ...BELL_CERTIFICATE,
        minVersion: 'TLSv1',
        maxVersion: 'TLSv1.1',
        ciphers: 'DEFAULT@SECLEVEL=0',
      }),
    /version|protocol|alert|hang up|RESET/i,
  ],
  [
    'no ciphers in common',
    () =>
      serveTls(raw(`${OK}\r\n`), {
        ...BELL_CERTIFICATE,
        maxVersion: 'TLSv1.2',
        ciphers: 'AECDH-AES128-SHA@SECLEVEL=0:ADH-AES128-SHA@SECLEVEL=0',
      }),
    /handshake|alert|hang up|RESET/i,
  ],
  [
    'a renegotiation',
    () =>
      serveTls(
        (socket) => {
          socket.renegotiate({}, () => undefined)
          socket.once('data', () => undefined)
        },
        { ...BELL_CERTIFICATE, maxVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT },
      ),
    /3 s|hang up|renegotiation|RESET|alert/i,
  ],
  [
    'a demand for a client’s certificate',
    () => serveTls(raw(`${OK}\r\n`), { ...BELL_CERTIFICATE, requestCert: true, rejectUnauthorized: true }),
    /alert|hang up|certificate|RESET/i,
  ],
  [
    'another protocol by ALPN',
    () => serveTls(raw(`${OK}\r\n`), { ...BELL_CERTIFICATE, ALPNProtocols: ['h2'] }),
    /alert|protocol|200|hang up/i,
  ],
]

/** Names that mean something inside, and what they resolve to. */
const INSIDE: [name: string, addresses: readonly string[]][] = [
  ['loopback', ['127.0.0.1']],
  ['the metadata of a cloud', ['169.254.169.254']],
  ['a public address beside a private one', ['1.1.1.1', '10.0.0.1']],
  ['a v4-mapped loopback', ['::ffff:127.0.0.1']],
  ['NAT64 of a private address', ['64:ff9b::10.0.0.1']],
  ['6to4 of loopback', ['2002:7f00:1::']],
  ['Teredo', ['2001:0:7f00:1::']],
  ['a unique local address', ['fd00:ec2::254']],
  ['nothing', []],
]

/** Spellings of addresses, which are no host names; and what is no URL for a doorbell at all. */
const URLS = [
  ...['https://127.0.0.1/', 'https://127.1/', 'https://0/', 'https://0x7f.1/', 'https://0177.0.0.1/'],
  ...['https://2130706433/', 'https://[::1]/', 'https://[::ffff:127.0.0.1]/', 'https://①②⑦.0.0.1/'],
  ...['https://127。0。0。1/', 'https://localhost/', 'https://bell/', 'https://8.8.8.8/'],
  ...[
    'http://bell.example/',
    'https://bell.example:8443/',
    'https://user@bell.example/',
    'https://u:p@bell.example/',
  ],
  ...['https://bell.example/#x', 'ftp://bell.example/', 'file:///etc/passwd', 'https://', 'bell.example'],
  ...['https://bell.example:80/', 'javascript:alert(1)', 'https://bell.example./#'],
]

describe('hostile receivers', () => {
  const all = [...ANSWERS, ...CONNECTIONS]

  it('are 60 and more', () => {
    expect(all.length + INSIDE.length + 2).toBeGreaterThanOrEqual(60)
  })

  const asked = (async () => {
    const started = await Promise.all(all.map(([, start]) => keep(start())))
    const good = await keep(serveBell(() => ({ status: 200, text: 'fine' })))
    const timed = async (work: Promise<Posted>) => {
      const from = performance.now()
      return { posted: await work, tookMs: performance.now() - from }
    }
    const rings = started.map(({ port }, index) =>
      timed(post(`https://bell.example:${port}/`, loopback, all[index]?.[3])),
    )
    const goodRings = Array.from({ length: 20 }, () =>
      timed(post(`https://x.bell.example:${good.port}/`, loopback, true)),
    )
    return { rings: await Promise.all(rings), goodRings: await Promise.all(goodRings) }
  })()

  // holds: rules.doorbells.statements.answer_with_2xx_within_3_s
  it.each(all.map(([name], index) => [name, index] as const))(
    'fail or end in time: %s',
    async (_name, index) => {
      const { posted, tookMs } = (await asked).rings[index]!
      const expected = all[index]![2]
      if (typeof expected === 'number') expect(posted).toMatchObject({ kind: 'answered', status: expected })
      else expect(posted.kind === 'failed' ? posted.why : String(posted.status)).toMatch(expected)
      if (posted.kind === 'answered') expect(posted.text.length).toBeLessThanOrEqual(1_024)
      else expect(posted.why.length).toBeLessThanOrEqual(100)
      expect(tookMs).toBeLessThan(4_500)
    },
  )

  it('delay none that is as it should be', async () => {
    for (const { posted, tookMs } of (await asked).goodRings) {
      expect(posted).toEqual({ kind: 'answered', status: 200, text: 'fine' })
      expect(tookMs).toBeLessThan(2_500)
    }
  })

  it.each(INSIDE)('reach nothing by a name for %s', async (_name, addresses) => {
    const posted = await post('https://bell.example/', () => requirePublic(addresses))
    expect(posted).toMatchObject({ kind: 'failed', why: expect.stringMatching(/^the host has /) as string })
  })

  it('reach nothing by a name that means something else at the second look: it is looked up once', async () => {
    const { port } = await insideStarted
    const answers = [['203.0.113.7'], ['127.0.0.1']]
    const looked: string[] = []
    const posted = await post(`https://bell.example:${port}/`, (host) => {
      looked.push(host)
      return answers.shift() ?? ['127.0.0.1']
    })
    expect(posted.kind).toBe('failed')
    expect(looked).toEqual(['bell.example'])
  })

  it('that are not there cost a second', async () => {
    const from = performance.now()
    // Of the documentation's range: nobody answers.
    const posted = await post('https://bell.example/', () => ['192.0.2.1'])
    expect(posted.kind).toBe('failed')
    expect(performance.now() - from).toBeLessThan(2_000)
  })

  it('reached nothing inside', async () => {
    await asked
    expect(inside.length).toBeLessThanOrEqual(0)
  })

  it('get no proxy, no name of this machine and no cookie from the post before', async () => {
    const good = await keep(serveBell(() => ({ status: 200 })))
    const before = { ...process.env }
    Object.assign(process.env, {
      HTTPS_PROXY: 'http://127.0.0.1:9',
      https_proxy: 'http://127.0.0.1:9',
      NODE_USE_ENV_PROXY: '1',
    })
    try {
      const posted = await post(`https://bell.example:${good.port}/a?b=c`, loopback)
      expect(posted).toMatchObject({ status: 200 })
    } finally {
      for (const name of ['HTTPS_PROXY', 'https_proxy', 'NODE_USE_ENV_PROXY']) delete process.env[name]
      Object.assign(process.env, before)
    }
    expect(good.got[0]?.headers).toEqual({
      host: `bell.example:${good.port}`,
      'content-type': 'application/json',
      'content-length': '2',
      'user-agent': 'agent-network-doorbell',
      connection: 'close',
    })
  })
})

describe('the resolver', () => {
  it('gives a test its address and asks no file of this host: localhost has no address', async () => {
    const resolve = createResolver(new Map([['bell.example:8443', '127.0.0.1']]))
    expect(await resolve('bell.example', 8443)).toEqual(['127.0.0.1'])
    await expect(resolve('localhost', 443)).rejects.toThrow(/the host has/)
  })
})

describe('the URL of a doorbell', () => {
  const any = { hosts: undefined, testHosts: new Map<string, string>() }

  it.each(URLS)('is not %s', (url) => {
    expect(() => checkDoorbellUrl(url, any)).toThrow(/^url: expected an https/)
  })

  it('is kept as the parser writes it', () => {
    expect(checkDoorbellUrl('https://Bell.Example:443/a b?c', any)).toBe('https://bell.example/a%20b?c')
    expect(checkDoorbellUrl('https://bell.example\\@127.0.0.1:1/', any)).toBe(
      'https://bell.example/@127.0.0.1:1/',
    )
    expect(checkDoorbellUrl('https://bücher.example/', any)).toBe('https://xn--bcher-kva.example/')
  })

  it('lies at a host that the operator allows, or below it', () => {
    const some = { ...any, hosts: ['workers.example'] }
    expect(checkDoorbellUrl('https://a.b.workers.example/', some)).toBe('https://a.b.workers.example/')
    for (const url of ['https://badworkers.example/', 'https://workers.example.evil.example/'])
      expect(() => checkDoorbellUrl(url, some)).toThrow(/rings only at workers.example/)
  })

  it('may have another port only if a test says so', () => {
    const test = { ...any, testHosts: new Map([['bell.example:8443', '127.0.0.1']]) }
    expect(checkDoorbellUrl('https://bell.example:8443/', test)).toBe('https://bell.example:8443/')
    expect(() => checkDoorbellUrl('https://bell.example:8444/', test)).toThrow(/expected/)
  })
})
