import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createClient, RefusalError, TransportError, type WorkOrder } from '../../client/client.ts'
import { parseBaseUrl, pathSegment } from '../../client/http.ts'
import { mineDays, OrderUnderWayError, type MineDaysProgress } from '../../client/mine.ts'
import { readMiningState, writeMiningState } from '../../client/mining-state.ts'
import { registerAgent } from '../../client/register.ts'
import { isShare } from '../../shared/crypto/pow.ts'
import { refuse, sendJson, startBrokenPeer, type Behaviour } from '../support/broken-peer.ts'

const TOKEN = `sk_${'ab'.repeat(24)}`
const closers: (() => Promise<void>)[] = []

async function peer(behave: Behaviour) {
  const started = await startBrokenPeer(behave)
  closers.push(started.close)
  return started
}

afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

async function failureOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => expect.unreachable('the call was answered'),
    (error: unknown) => error,
  )
}

describe('the address of a service', () => {
  it('is taken with and without a slash and the base path', () => {
    for (const text of [
      'http://a.example',
      'http://a.example/',
      'http://a.example/api/v1',
      'http://a.example/api/v1/',
    ])
      expect(parseBaseUrl(text)).toBe('http://a.example')
    expect(parseBaseUrl('https://a.example:8443/agents/')).toBe('https://a.example:8443/agents')
  })

  it('is refused where it is none, with a sentence that does not repeat a password', () => {
    for (const text of [
      '',
      'a.example',
      'localhost:3000',
      'ftp://a.example',
      'http://a.example/?x=1',
      'http://a.example/#x',
    ])
      expect(() => parseBaseUrl(text), text).toThrow(/expected a URL such as/)
    expect(() => parseBaseUrl('http://me:hunter2@a.example')).toThrow(/^(?!.*hunter2).*without a user name/)
  })

  it('gets ids as one element of a path', () => {
    expect(pathSegment('a/b?c#d %')).toBe('a%2Fb%3Fc%23d%20%25')
    for (const text of ['', '.', '..', '\ud800']) expect(() => pathSegment(text)).toThrow(/cannot be an id/)
  })
})

describe('a refusal', () => {
  it('reaches the caller with all that the service said', async () => {
    const body = {
      ok: false,
      error: 'invalid_field',
      message: 'The field "days" is not usable.',
      field: 'days',
      more: [1],
    }
    const { url } = await peer((res) => sendJson(res, 400, body))
    const error = await failureOf(createClient({ baseUrl: url }).invoice({ currency: 'pow', days: 1 }))
    expect(error).toBeInstanceOf(RefusalError)
    expect(error).toMatchObject({
      status: 400,
      error: 'invalid_field',
      message: body.message,
      field: 'days',
      retryAfterSeconds: undefined,
      mayPass: false,
    })
    expect((error as RefusalError).body).toEqual(body)
  })

  it('of a POST is final, also where the service says when to come again', async () => {
    const { url, received } = await peer((res) => refuse(res, 503, 'unavailable', { 'Retry-After': '0' }))
    const error = await failureOf(createClient({ baseUrl: url }).post({ body: 'once' }))
    expect(error).toMatchObject({ status: 503, error: 'unavailable', retryAfterSeconds: 0, mayPass: true })
    expect(received).toHaveLength(1)
  })

  it('of a GET by a 503 that says when is tried again twice and then told', async () => {
    const { url, received } = await peer((res) => refuse(res, 503, 'unavailable', { 'Retry-After': '0' }))
    expect(await failureOf(createClient({ baseUrl: url }).feed())).toMatchObject({ error: 'unavailable' })
    expect(received).toHaveLength(3)
  })

  it('of a GET is final where nothing says when, or that is far off', async () => {
    const headers: Record<string, string>[] = [
      {},
      { 'Retry-After': '3600' },
      { 'Retry-After': new Date(Date.now() + 3_600_000).toUTCString() },
    ]
    for (const header of headers) {
      const { url, received } = await peer((res) => refuse(res, 503, 'unavailable', header))
      await failureOf(createClient({ baseUrl: url }).feed())
      expect(received).toHaveLength(1)
    }
  })

  it('of a GET that has an effect is final, and of the one that gives the same again is not', async () => {
    const { url, received } = await peer((res) => refuse(res, 503, 'unavailable', { 'Retry-After': '0' }))
    const client = createClient({ baseUrl: url, token: TOKEN })
    await failureOf(client.unreadMessages())
    expect(received.map((request) => request.path)).toEqual(['/api/v1/dm'])
    await failureOf(client.messagesAfter('0'))
    expect(received.slice(1).map((request) => request.path)).toEqual(Array(3).fill('/api/v1/dm?after=0'))
  })
})

describe('a broken transport', () => {
  const broken: Record<string, { behave: Behaviour; kind: string; status?: number }> = {
    'HTML in place of JSON': {
      behave: (res) => res.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>'),
      kind: 'bad_answer',
      status: 200,
    },
    'an empty answer': { behave: (res) => res.writeHead(200).end(), kind: 'bad_answer', status: 200 },
    'a list': { behave: (res) => sendJson(res, 200, []), kind: 'bad_answer', status: 200 },
    'an object without ok': {
      behave: (res) => sendJson(res, 200, { posts: [] }),
      kind: 'bad_answer',
      status: 200,
    },
    'ok with an error status': {
      behave: (res) => sendJson(res, 500, { ok: true }),
      kind: 'bad_answer',
      status: 500,
    },
    'a refusal with a good status': {
      behave: (res) => refuse(res, 200, 'internal'),
      kind: 'bad_answer',
      status: 200,
    },
    'a refusal without a code': {
      behave: (res) => sendJson(res, 400, { ok: false, message: 'no' }),
      kind: 'bad_answer',
      status: 400,
    },
    'half an answer': {
      behave: (res) => {
        res.writeHead(200, { 'Content-Length': '100' })
        res.write('{"ok":true,', () => res.destroy())
      },
      kind: 'cut_off',
      status: 200,
    },
    'a connection cut before the answer': { behave: (res) => res.destroy(), kind: 'unreachable' },
    'no answer in time': { behave: () => undefined, kind: 'timeout' },
    'half an answer and then silence': {
      behave: (res) => void res.writeHead(200, { 'Content-Length': '100' }).write('{"ok"'),
      kind: 'timeout',
      status: 200,
    },
  }

  for (const [name, { behave, kind, status }] of Object.entries(broken)) {
    it(`is told as ${kind}: ${name}`, async () => {
      const { url, received } = await peer(behave)
      // Long enough that a machine which stands still for a while has sent the request, and heard what there
      // is to hear.
      const timeoutMs = kind === 'timeout' ? 4_000 : 20_000
      const error = await failureOf(createClient({ baseUrl: url, timeoutMs }).post({ body: 'x' }))
      expect(error).toBeInstanceOf(TransportError)
      expect(error).toMatchObject({
        kind,
        status,
        mayHaveArrived: status === undefined || status === 200 || status >= 500,
      })
      expect(received).toHaveLength(1)
    })
  }

  it('ends at the time limit although the answer stands still and fetch has lost the signal', async () => {
    const cancelled: unknown[] = []
    const still = () =>
      new ReadableStream({ pull: () => new Promise(() => {}), cancel: () => void cancelled.push(true) })
    const client = createClient({
      baseUrl: 'http://127.0.0.1:1',
      timeoutMs: 50,
      fetch: () => Promise.resolve(new Response(still())),
    })
    expect(await failureOf(client.post({ body: 'x' }))).toMatchObject({ kind: 'timeout', status: 200 })
    expect(cancelled).toHaveLength(1)
    const stopped = client.with({ signal: AbortSignal.timeout(20), timeoutMs: 60_000 })
    expect(await failureOf(stopped.post({ body: 'x' }))).toMatchObject({ name: 'TimeoutError' })
  })

  it('before the request was sent leaves no doubt about what was done', async () => {
    const { url, close } = await startBrokenPeer(() => undefined)
    await close()
    expect(await failureOf(createClient({ baseUrl: url }).post({ body: 'x' }))).toMatchObject({
      kind: 'unreachable',
      mayHaveArrived: false,
    })
  })

  it('after a GET leaves no doubt either', async () => {
    const { url } = await peer((res) => res.destroy())
    expect(await failureOf(createClient({ baseUrl: url }).feed())).toMatchObject({
      kind: 'unreachable',
      mayHaveArrived: false,
    })
  })

  it('takes no token elsewhere: a redirection is told and not followed', async () => {
    const elsewhere = await peer((res) => sendJson(res, 200, { ok: true }))
    const { url } = await peer((res) => res.writeHead(307, { Location: `${elsewhere.url}/api/v1/me` }).end())
    const error = await failureOf(createClient({ baseUrl: url, token: TOKEN }).me())
    expect(error).toMatchObject({ kind: 'bad_answer', status: 307 })
    expect((error as Error).message).toContain(elsewhere.url)
    expect(elsewhere.received).toEqual([])
  })

  it('gives way to the reason of the signal', async () => {
    const stop = new AbortController()
    const reason = new Error('enough')
    const { url } = await peer(() => stop.abort(reason))
    expect(await failureOf(createClient({ baseUrl: url, signal: stop.signal }).me())).toBe(reason)
    expect(await failureOf(createClient({ baseUrl: url, signal: stop.signal }).me())).toBe(reason)
  })
})

describe('a document', () => {
  it('is given as it is, whatever stands in it', async () => {
    const document = {
      openapi: '3.1.0',
      info: { title: 'grün', version: '1' },
      paths: {},
      components: {},
      ok: false,
      error: 'x',
    }
    const { url } = await peer((res) => sendJson(res, 200, document))
    expect(await createClient({ baseUrl: url }).openApi()).toEqual(document)
  })

  it('that does not come is told as any answer is', async () => {
    const halfway: Behaviour = (res) => {
      res.writeHead(200, { 'Content-Length': '100' })
      res.write('{"openapi":', () => res.destroy())
    }
    const failures: [Behaviour, object][] = [
      [(res) => refuse(res, 503, 'unavailable'), { name: 'RefusalError', error: 'unavailable' }],
      [
        (res) => res.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>'),
        { name: 'TransportError', kind: 'bad_answer', status: 200 },
      ],
      [(res) => res.writeHead(200).end(), { name: 'TransportError', kind: 'bad_answer' }],
      [halfway, { name: 'TransportError', kind: 'cut_off', status: 200 }],
      [(res) => res.destroy(), { name: 'TransportError', kind: 'unreachable' }],
    ]
    for (const [behave, failure] of failures) {
      const { url } = await peer(behave)
      expect(await failureOf(createClient({ baseUrl: url }).openApi())).toMatchObject(failure)
    }
  })
})

describe('a call', () => {
  it('carries the token where the route needs one, and nowhere else', async () => {
    const { url, received } = await peer((res) => refuse(res, 401, 'invalid_token'))
    const client = createClient({ baseUrl: url }).with({ token: TOKEN })
    await Promise.all(
      [
        client.me(),
        client.currencies(),
        client.post({ body: 'x' }),
        client.feed(),
        client.agent('agt_1'),
        client.challenge(),
      ].map(failureOf),
    )
    const sent = Object.fromEntries(received.map((request) => [request.path, request.token]))
    const bearer = `Bearer ${TOKEN}`
    expect(sent).toEqual({
      '/api/v1/me': bearer,
      '/api/v1/currencies': bearer,
      '/api/v1/post': bearer,
      '/api/v1/feed': undefined,
      '/api/v1/agent/agt_1': undefined,
      '/api/v1/challenge': undefined,
    })
  })

  it('writes a query without what is undefined', async () => {
    const { url, received } = await peer((res) => refuse(res, 400, 'invalid_field'))
    const client = createClient({ baseUrl: url })
    await failureOf(client.feed({ topic: 'a&b=c', limit: undefined }))
    await failureOf(client.directory({ limit: 3 }))
    await failureOf(client.routes())
    expect(received.map((request) => request.path)).toEqual([
      '/api/v1/feed?topic=a%26b%3Dc',
      '/api/v1/directory?limit=3',
      '/api/v1',
    ])
  })
})

describe('a registration', () => {
  const puzzle = {
    kind: 'decode-hex',
    question: 'Which word is written in these hexadecimal bytes: 61 62',
    answer_format: 'a word',
  }
  const challenge = (index: number, more: object = {}) => ({
    ok: true,
    challenge_id: `c${index}`,
    puzzle,
    pow: { algorithm: 'sha256', prefix: '0'.repeat(32), difficulty_bits: 1, preimage: 'prefix:nonce' },
    expires_at: 1,
    ...more,
  })
  const refusingWith =
    (error: string, status: number): Behaviour =>
    (res, { path: requested }, index) =>
      requested.endsWith('/challenge') ? sendJson(res, 200, challenge(index)) : refuse(res, status, error)

  for (const [error, status] of [
    ['challenge_expired', 410],
    ['wrong_answer', 422],
  ] as const) {
    it(`that ends in ${error} is tried with three challenges`, async () => {
      const { url, received } = await peer(refusingWith(error, status))
      const reasons: string[] = []
      const call = registerAgent({
        client: createClient({ baseUrl: url }),
        handle: 'h',
        onProgress: (step) => void (step.step === 'refused' && reasons.push(step.reason)),
      })
      expect(await failureOf(call)).toMatchObject({ error })
      const handedIn = received
        .filter((request) => request.method === 'POST')
        .map(
          (request) => request.body as { challenge_id: string; answer: string; pow: string; handle: string },
        )
      expect(handedIn.map((body) => body.challenge_id)).toEqual(['c0', 'c2', 'c4'])
      expect(reasons).toHaveLength(2)
      for (const body of handedIn) {
        expect(body).toMatchObject({ answer: 'ab', handle: 'h' })
        expect(isShare('0'.repeat(32), body.pow, 1)).toBe(true)
      }
    })
  }

  it('that is refused for another reason is not tried again', async () => {
    const { url, received } = await peer(refusingWith('signups_closed', 403))
    expect(await failureOf(registerAgent({ client: createClient({ baseUrl: url }) }))).toMatchObject({
      error: 'signups_closed',
    })
    expect(received).toHaveLength(2)
  })

  it('whose answer is lost is not tried again', async () => {
    const { url, received } = await peer((res, { path: requested }, index) =>
      requested.endsWith('/challenge') ? sendJson(res, 200, challenge(index)) : res.destroy(),
    )
    expect(await failureOf(registerAgent({ client: createClient({ baseUrl: url }) }))).toMatchObject({
      kind: 'unreachable',
      mayHaveArrived: true,
    })
    expect(received).toHaveLength(2)
  })

  it('asks for another challenge where it cannot read the puzzle, and tells the question in the end', async () => {
    const { url, received } = await peer((res, _request, index) =>
      sendJson(res, 200, challenge(index, { puzzle: { ...puzzle, kind: 'riddle' } })),
    )
    expect(await failureOf(registerAgent({ client: createClient({ baseUrl: url }) }))).toMatchObject({
      message: expect.stringContaining(puzzle.question) as string,
    })
    expect(received).toHaveLength(3)
  })
})

describe('mining', () => {
  let dir: string
  let stateFile: string
  const order: WorkOrder = {
    order_id: 'wrk_1',
    currency: 'pow',
    days: 2,
    shares_required: 40,
    difficulty_bits: 14,
    prefix: 'a'.repeat(32),
    preimage: 'prefix:nonce',
    status: 'open',
    shares_accepted: 3,
    credited_days: 0,
    expires_at: Math.floor(Date.now() / 1000) + 86_400,
  }
  const backoffMs = { first: 1, longest: 4 }

  beforeEach(() => {
    dir = mkdtempSync(path.join(tmpdir(), 'agent-mine-'))
    stateFile = path.join(dir, 'work.json')
  })
  afterEach(() => rmSync(dir, { recursive: true }))

  const noncesOf = (body: unknown) => (body as { nonces: string[] }).nonces

  it('goes on with the order and the unsent shares of its state, and hands the same ones in until they are answered', async () => {
    writeMiningState(stateFile, { order, unsent: ['kept1', 'kept2'] })
    const { url, received } = await peer((res, _request, index) => {
      if (index === 0) refuse(res, 503, 'unavailable', { 'Retry-After': '0' })
      else if (index === 1) res.destroy()
      else if (index === 2) res.writeHead(502).end('<html>')
      else refuse(res, 404, 'no_such_work_order')
    })
    const steps: MineDaysProgress[] = []
    const error = await failureOf(
      mineDays({
        client: createClient({ baseUrl: url, token: TOKEN }),
        stateFile,
        backoffMs,
        onProgress: (step) => steps.push(step),
      }),
    )
    expect(error).toMatchObject({ error: 'no_such_work_order' })
    expect(received.map((request) => `${request.method} ${request.path}`)).toEqual(
      Array(4).fill('POST /api/v1/work/submit'),
    )
    for (const { body } of received) {
      expect(body).toMatchObject({ order_id: 'wrk_1' })
      expect(noncesOf(body).slice(0, 2)).toEqual(['kept1', 'kept2'])
      expect(
        noncesOf(body)
          .slice(2)
          .every((nonce) => isShare(order.prefix, nonce, order.difficulty_bits)),
      ).toBe(true)
    }
    // A day has 20 shares and 3 count: the day is handed in as soon as 17 more are there.
    expect(noncesOf(received[0]?.body).length).toBeGreaterThanOrEqual(17)
    expect(steps[0]).toMatchObject({ step: 'started', resumed: true, unsent: 2 })
    expect(steps.filter((step) => step.step === 'waiting')).toHaveLength(3)
    const kept = readMiningState(stateFile)
    expect(kept?.order).toEqual(order)
    expect(kept?.unsent.slice(0, noncesOf(received[0]?.body).length)).toEqual(noncesOf(received[0]?.body))
  })

  it('keeps what it found when it is stopped, and finds nothing twice', async () => {
    writeMiningState(stateFile, { order, unsent: [] })
    const found: string[][] = []
    for (let run = 0; run < 2; run++) {
      const stop = new AbortController()
      const reason = new Error('stopped by the test')
      const { url } = await peer((res) => {
        stop.abort(reason)
        refuse(res, 503, 'unavailable')
      })
      expect(
        await failureOf(
          mineDays({
            client: createClient({ baseUrl: url, token: TOKEN }),
            stateFile,
            backoffMs,
            signal: stop.signal,
          }),
        ),
      ).toBe(reason)
      const kept = readMiningState(stateFile)
      found.push(kept?.unsent ?? [])
    }
    const [first = [], second = []] = found
    expect(first.length).toBeGreaterThanOrEqual(17)
    expect(second.slice(0, first.length)).toEqual(first)
    expect(new Set(second).size).toBe(second.length)
  })

  it('goes on while the service takes no batch, and hands in with the next try what it found meanwhile', async () => {
    const { url, received } = await peer((res, _request, index) => {
      if (index === 0) refuse(res, 503, 'unavailable')
      else refuse(res, 404, 'no_such_work_order')
    })
    const steps: string[] = []
    await failureOf(
      mineDays({
        client: createClient({ baseUrl: url, token: TOKEN }),
        order,
        stateFile,
        batchSize: 5,
        backoffMs: { first: 300, longest: 300 },
        onProgress: ({ step }) => steps.push(step),
      }),
    )
    const [first = [], second = []] = received.map(({ body }) => noncesOf(body))
    expect(first).toHaveLength(5)
    expect(second.slice(0, 5)).toEqual(first)
    expect(new Set(second).size).toBe(second.length)
    expect(steps.slice(steps.indexOf('waiting'))).toContain('mining')
  })

  it('buys nothing else while an order is under way', async () => {
    writeMiningState(stateFile, { order, unsent: ['kept'] })
    const { url, received } = await peer((res) => refuse(res, 500, 'internal'))
    const client = createClient({ baseUrl: url, token: TOKEN })
    expect(await failureOf(mineDays({ client, stateFile, days: 3 }))).toBeInstanceOf(OrderUnderWayError)
    expect(
      await failureOf(mineDays({ client, stateFile, order: { ...order, order_id: 'wrk_2' } })),
    ).toBeInstanceOf(OrderUnderWayError)
    expect(received).toEqual([])
    expect(readMiningState(stateFile)?.unsent).toEqual(['kept'])
  })

  it('asks for a new order where the one kept is expired or credited, and passes its refusal on', async () => {
    const { url, received } = await peer((res) => refuse(res, 401, 'invalid_token'))
    for (const over of [{ expires_at: 1 }, { credited_days: 2 }]) {
      writeMiningState(stateFile, { order: { ...order, ...over }, unsent: [] })
      expect(
        await failureOf(
          mineDays({ client: createClient({ baseUrl: url, token: TOKEN }), stateFile, days: 5 }),
        ),
      ).toMatchObject({
        error: 'invalid_token',
      })
    }
    expect(received.map((request) => request.path)).toEqual(['/api/v1/invoice', '/api/v1/invoice'])
    expect(received[0]?.body).toEqual({ currency: 'pow', days: 5 })
  })

  it('does not take an order that is closed for credited before all its shares are handed in', async () => {
    const { url, received } = await peer((res) => refuse(res, 409, 'wrong_state'))
    expect(
      await failureOf(
        mineDays({
          client: createClient({ baseUrl: url, token: TOKEN }),
          order: { ...order, difficulty_bits: 18 },
          stateFile,
          batchSize: 1,
          backoffMs,
        }),
      ),
    ).toMatchObject({ error: 'wrong_state' })
    expect(received.map((request) => request.path)).toEqual(['/api/v1/work/submit'])
  })

  it('gives up where the service finds no work in what it found', async () => {
    const { url } = await peer((res, { body }) =>
      sendJson(res, 200, {
        ok: true,
        order_id: 'wrk_1',
        status: 'open',
        accepted: 0,
        rejected: [{ nonce: noncesOf(body)[0], reason: 'insufficient_work' }],
        shares_accepted: 3,
        shares_required: 40,
        credited_days: 0,
        pass_until: null,
      }),
    )
    expect(
      await failureOf(mineDays({ client: createClient({ baseUrl: url, token: TOKEN }), order, backoffMs })),
    ).toMatchObject({
      message: expect.stringContaining('insufficient_work') as string,
    })
  })

  it('ends with the failure of whoever watches it', async () => {
    const { url } = await peer((res) => refuse(res, 503, 'unavailable'))
    const reason = new Error('no more to be seen')
    const onProgress = (step: MineDaysProgress) => {
      if (step.step === 'mining') throw reason
    }
    expect(
      await failureOf(
        mineDays({ client: createClient({ baseUrl: url, token: TOKEN }), order, stateFile, onProgress }),
      ),
    ).toBe(reason)
  })

  it('says which file holds something else than its state', async () => {
    for (const text of [
      '',
      '[]',
      '{"order":{}}',
      JSON.stringify({ order: { ...order, prefix: 'x' }, unsent: [] }),
      JSON.stringify({ order, unsent: [1] }),
    ]) {
      writeFileSync(stateFile, text)
      expect(
        await failureOf(mineDays({ client: createClient({ baseUrl: 'http://127.0.0.1:1' }), stateFile })),
      ).toMatchObject({
        message: expect.stringContaining(stateFile) as string,
      })
      expect(readFileSync(stateFile, 'utf8')).toBe(text)
    }
  })
})
