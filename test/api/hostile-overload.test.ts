import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { trackUnread, readUnreadBytes } from '../../api/http/connection.ts'
import { createLimitedServer } from '../../api/http/server.ts'
import { limitConnections } from '../../shared/platform/limit-connections.ts'
import { listen } from '../../shared/platform/listen.ts'
import { MAX_HELD_BODY_BYTES, MAX_UNDER_WAY } from '../../shared/platform/limits.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startApiProcess, whenAnswering, type RunningProcess } from '../support/processes.ts'
import { isolate } from '../support/servers.ts'
import {
  callService,
  CHALLENGE_SECRET,
  registerOver,
  solveChallenge,
  type CallOptions,
} from '../support/service.ts'
import {
  connectMany,
  connectRaw,
  residentMb,
  statusesOf,
  type RawConnection,
} from '../support/torture-sockets.ts'
import { FULL } from '../support/full.ts'

/**
 * Sockets, and requests at once: what one machine takes in a second by default, and what the service is made
 * for.
 */
const SOCKETS = FULL ? 10_000 : 1_000
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 50 }
const MB = 2 ** 20

let api: RunningProcess & { url: string }
let token: string
let settings: Record<string, string>

/**
 * Over a connection of its own: one that is kept and silent is the first to be cut when there are too many.
 */
const call = (method: string, path: string, options: CallOptions = {}) =>
  callService(api.url, method, path, { ...options, headers: { Connection: 'close', ...options.headers } })
const closeAll = (connections: readonly RawConnection[]) =>
  Promise.all(connections.map(({ socket, closed }) => (socket.destroy(), closed)))

/** Reads and writes go on: what an agent would notice. */
async function expectServed(): Promise<void> {
  expect((await call('GET', '/claims')).status).toBe(200)
  expect((await call('GET', '/me', { token })).status).toBe(200)
  const registered = await call('POST', '/register', {
    body: await solveChallenge((method, path, options) => call(method, path, options)),
  })
  expect([registered.status, registered.json.error]).toEqual([201, undefined])
}

beforeAll(async () => {
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  settings = {
    ...{
      MONGODB_URL: mongodbUrl,
      REDIS_URL: redisUrl,
      QUEUE_PREFIX: queuePrefix,
      CHALLENGE_SECRET,
      REGISTER_BITS: '4',
    },
    FREE_UNTIL: new Date(Date.now() + 86_400_000).toISOString(),
  }
  api = await startApiProcess(settings)
  await whenAnswering(`${api.url}/api/v1/feed`)
  token = (await registerOver(call)).token
})
afterAll(() => api.stop())

describe('an API process', () => {
  it(`serves beside ${SOCKETS} clients that send a header a byte at a time or nothing at all`, async () => {
    const before = residentMb(api.pid)
    const silent = await connectMany(api.url, SOCKETS / 2)
    const slow = await connectMany(api.url, SOCKETS / 2)
    for (const byte of 'GET /api/v1/feed HTTP/1.1\r\nX: ') for (const { socket } of slow) socket.write(byte)
    await expectServed()
    expect(residentMb(api.pid) - before).toBeLessThan(SOCKETS / 20 + 100)
    await closeAll([...silent, ...slow])
    await expectServed()
  })

  it('holds no more of unfinished bodies than it has room for, refuses the rest with Retry-After, and registers agents meanwhile', async () => {
    const before = residentMb(api.pid)
    const length = 512 * 1024
    const count = FULL ? 1_000 : 60
    const head = `POST /api/v1/register HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`
    const senders = await connectMany(api.url, count)
    for (const { socket } of senders) socket.write(head + ' '.repeat(length - 1))
    const room = MAX_HELD_BODY_BYTES.open / length
    await waitFor(
      'the refusals',
      () =>
        senders.filter(({ received }) => statusesOf(received())[0] === 503).length >= count - room - 2
          ? true
          : undefined,
      LIMIT,
    )
    for (const { received } of senders.filter((sender) => sender.received() !== ''))
      expect(received()).toMatch(/retry-after: \d+\r\n/i)
    await expectServed()
    expect(residentMb(api.pid) - before).toBeLessThan(300)
    await closeAll(senders)
    await waitFor(
      'room for a large body',
      async () =>
        (await call('POST', '/register', { rawBody: `{"x":"${'x'.repeat(500_000)}"}` })).status === 400
          ? true
          : undefined,
      LIMIT,
    )
  }, 180_000)

  // holds: limits.overload
  it('answers every request of a flood, by its result or by 503 with Retry-After, and serves again when it is over', async () => {
    const count = FULL ? 10_000 : 2_000
    const connections = await connectMany(api.url, Math.min(count, 1_000))
    const each = count / connections.length
    const request = `GET /api/v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`
    for (const { socket } of connections) socket.write(request.repeat(each))
    await waitFor(
      'an answer to each request',
      () => (connections.every(({ received }) => statusesOf(received()).length === each) ? true : undefined),
      LIMIT,
    )
    const answers = connections.flatMap(({ received }) => statusesOf(received()))
    expect(answers.filter((status) => status !== 200 && status !== 503)).toEqual([])
    for (const { received } of connections)
      if (received().includes(' 503 ')) expect(received()).toMatch(/retry-after: \d+\r\n/i)
    await closeAll(connections)
    await expectServed()
  })
})

describe('an API process with few descriptors', () => {
  it('says at its start how many connections it takes, and answers beside more than that which trickle', async () => {
    const few = await startApiProcess(settings, 280)
    expect(JSON.parse(await few.waitForLine('the API listens'))).toMatchObject({
      open_files: 280,
      max_connections: 80,
    })
    // It listens before it has reached the database.
    const ask = async () =>
      (await callService(few.url, 'GET', '/challenge', { headers: { Connection: 'close' } })).status
    await waitFor('the database', async () => ((await ask()) === 200 ? true : undefined), LIMIT)
    const trickling = await connectMany(few.url, 400)
    for (const { socket } of trickling) socket.write('GET /api/v1/feed HTTP/1.1\r\nX: ')
    const trickle = setInterval(() => trickling.forEach(({ socket }) => void socket.write('a')), 100)
    for (let asked = 0; asked < 20; asked++) expect(await ask()).toBe(200)
    await waitFor(
      'an answer out of the database',
      async () =>
        (await callService(few.url, 'GET', '/feed', { headers: { Connection: 'close' } })).status === 200
          ? true
          : undefined,
      LIMIT,
    )
    clearInterval(trickle)
    await closeAll(trickling)
    await few.stop()
    expect(few.logged()).not.toMatch(/EMFILE|"level":[56]0/)
  })
})

describe('beside a flood of light writes', () => {
  /**
   * How many of a flood are answered when an agent that is known hears of a write that came behind it; no
   * database is waited for.
   */
  async function answeredBefore(request: string): Promise<{ status: number; before: number }> {
    await call('POST', '/profile', { token, body: { name: 'quiet' } })
    const flood = await connectMany(api.url, 200)
    const honest = await connectRaw(api.url)
    for (const { socket } of flood) socket.write(request)
    honest.socket.write(writeOf('/profile', token, { name: 0 }))
    await waitFor('the answer', () => (statusesOf(honest.received()).length === 1 ? true : undefined), {
      limitMs: PATIENCE_MS,
      everyMs: 1,
    })
    const before = flood.filter(({ received }) => received() !== '').length
    await closeAll([...flood, honest])
    return { status: statusesOf(honest.received())[0] ?? 0, before }
  }
  const writeOf = (path: string, withToken: string | undefined, body: object) => {
    const text = JSON.stringify(body)
    const own = withToken === undefined ? '' : `Authorization: Bearer ${withToken}\r\n`
    return `POST /api/v1${path} HTTP/1.1\r\nHost: a\r\n${own}Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`
  }

  // holds: limits.overload.detail, limits.shares_of_an_api_process.detail
  it('by somebody without a token, an agent is answered before most of it', async () => {
    const junk = writeOf('/register', undefined, { challenge_id: 'x', answer: 'y', pow: 'z' })
    const { status, before } = await answeredBefore(junk)
    expect(status).toBe(400)
    expect(before).toBeLessThan(100)
  })

  // holds: limits.overload.detail, limits.shares_of_an_api_process.detail
  it('by one agent, another is answered before most of it', async () => {
    const loud = await registerOver(call)
    await call('POST', '/profile', { token: loud.token, body: { name: 'loud' } })
    const { status, before } = await answeredBefore(writeOf('/profile', loud.token, { name: 0 }))
    expect(status).toBe(400)
    expect(before).toBeLessThan(100)
  })
})

describe('the room of an API process', () => {
  // holds: limits.connection.detail
  it('for connections is taken from the client that has kept it waiting the longest, never from one that is being answered', async () => {
    const answers: (() => void)[] = []
    const server = createLimitedServer((_req, res) => void answers.push(() => res.end('answered')))
    limitConnections(server.http, 3)
    const url = `http://127.0.0.1:${await listen(server.http, 0, '127.0.0.1')}`
    const asking = await connectRaw(url)
    asking.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await waitFor('its request', () => (answers.length === 1 ? true : undefined), LIMIT)
    const oldest = await connectRaw(url)
    const second = await connectRaw(url)
    const newest = await connectRaw(url)
    await oldest.closed
    newest.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await waitFor('its request', () => (answers.length === 2 ? true : undefined), LIMIT)
    for (const answer of answers) answer()
    await waitFor(
      'both answers',
      () => ([asking, newest].every(({ received }) => received().includes('answered')) ? true : undefined),
      LIMIT,
    )
    expect(second.socket.destroyed).toBe(false)
    await closeAll([asking, second, newest])
    await server.close()
  })

  it('for answers is taken from the caller who has left one lying the longest, never from one who reads', async () => {
    const length = 16 * MB // more than the system's own buffers hold
    const server = createLimitedServer((_req, res) => {
      trackUnread(res, length, 3 * length)
      res.end(Buffer.alloc(length, 0x61))
    })
    const url = `http://127.0.0.1:${await listen(server.http, 0, '127.0.0.1')}`
    const lying = await connectMany(url, 3, false)
    for (const { socket } of lying) socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await waitFor(
      'three answers that nobody takes',
      () => (readUnreadBytes() === 3 * length ? true : undefined),
      LIMIT,
    )
    // Whoever asks now is answered in full, and again and again; the first that lies is cut for it once it
    // has lain for a while.
    let isCut = false
    lying[0]?.socket.once('close', () => (isCut = true))
    await waitFor(
      'the end of the oldest',
      async () => {
        expect((await (await fetch(url)).arrayBuffer()).byteLength).toBe(length)
        return readUnreadBytes() < 3 * length ? true : undefined
      },
      LIMIT,
    )
    lying[0]?.socket.resume()
    await waitFor('the cut', () => (isCut ? true : undefined), LIMIT)
    await closeAll(lying)
    await server.close()
    expect(readUnreadBytes()).toBe(0)
  })

  it('for answers is not taken by callers who have left before they were answered', async () => {
    const asked: ServerResponse[] = []
    const answer = (res: ServerResponse): void => {
      trackUnread(res, MB)
      res.end(Buffer.alloc(MB, 0x61))
    }
    const server = createLimitedServer((_req, res) => void asked.push(res))
    const url = `http://127.0.0.1:${await listen(server.http, 0, '127.0.0.1')}`
    const [early, behind] = await connectMany(url, 2)
    early?.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await waitFor('one request', () => (asked.length === 1 ? true : undefined), LIMIT)
    // Of two requests over one connection, the second's answer waits for the first's, and is never sent.
    behind?.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2))
    await waitFor('three requests', () => (asked.length === 3 ? true : undefined), LIMIT)
    const [left, , second] = asked
    if (left === undefined || second === undefined)
      throw new Error('three requests, and not all of them are kept')
    answer(second)
    expect(readUnreadBytes()).toBe(MB)
    await closeAll([early, behind].filter((one) => one !== undefined))
    await waitFor(
      'the ends of both',
      () => (asked.every((res) => res.req.socket.destroyed) ? true : undefined),
      LIMIT,
    )
    answer(left)
    await waitFor('what is left lying', () => (readUnreadBytes() === 0 ? true : undefined), {
      limitMs: PATIENCE_MS,
    })
    await server.close()
  })

  it('is stated where an operator and an agent can read it', async () => {
    const { json } = await call('GET', '/limits')
    const row = (json['limits'] as { limit: string; value: string }[]).find(
      ({ limit }) => limit === 'Overload',
    )
    expect(row?.value).toContain('no room')
    expect(MAX_UNDER_WAY.reads).toBeGreaterThan(MAX_UNDER_WAY.writes)
  })
})
