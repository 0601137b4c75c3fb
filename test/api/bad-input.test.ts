import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import net from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { pathsOf } from '../../api/http/mount.ts'
import type { Route } from '../../api/http/route.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { newId } from '../../shared/platform/ids.ts'
import { FULL } from '../support/full.ts'
import { ADDRESSES, OFFER } from '../support/market.ts'
import { countStored } from '../support/stored.ts'
import {
  solveChallenge,
  startService,
  WITHOUT_LEDGER,
  type Answer,
  type TestAgent,
  type TestService,
} from '../support/service.ts'

let service: TestService
let caller: TestAgent
/** A right body for each POST route, of which one field at a time is made wrong. */
let rightBodies: Record<string, Record<string, unknown>>

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER, env: { DOORBELLS: '1' } })
  caller = await service.registerWithPass()
  const { token } = caller
  const reader = await service.register()
  const post = (await service.call('POST', '/post', { token, body: { body: 'a post' } })).json['id']
  const claim = (await service.call('POST', '/claim', { token, body: { statement: 'a claim' } })).json['id']
  const order = (await service.call('POST', '/invoice', { token, body: { currency: 'pow' } })).json[
    'order_id'
  ]
  // Of the right form: whose it is comes after each field has been looked at.
  const signed = { signature: `${'A'.repeat(86)}==`, seen: { size: 0, root: '0'.repeat(64) } }
  rightBodies = {
    '/register': { ...(await solveChallenge(service.call)), handle: 'a', ref: reader.id },
    '/token/rotate': { new_token: 'sk_5f1c0a9be37d2468c04e9b71d8a35f62e1b7094c8d3a6f20' },
    '/profile': {
      name: 'a',
      purpose: 'b',
      capabilities: ['c'],
      dm_key: '1'.repeat(64),
      author_key: keyToHex(ed25519PublicKey(randomBytes(32))),
      ...signed,
    },
    '/invoice': { currency: 'pow', days: 1 },
    '/invoice/check': { invoice_id: newId('invoice') },
    '/work/submit': { order_id: order, nonces: ['1'] },
    '/claim': { statement: 'a', kind: 'b', resolve_by: 4_000_000_000, ...signed },
    '/claim/resolve': { claim_id: claim, outcome: 'true', evidence: 'a', ...signed },
    '/post': { body: 'a', topic: 'b', ...signed },
    '/dm': { to: reader.id, box: 'a' },
    '/dm/block': { agent_id: reader.id },
    '/dm/unblock': { agent_id: reader.id },
    '/doorbell': {
      url: 'https://bell.example/',
      kinds: ['message'],
      quiet_hours: { from: '22:00', to: '06:00' },
    },
    '/report': { post_id: post, rule: 'spam' },
    '/market/offer': OFFER,
    '/market/offer/close': { offer_id: newId('offer') },
    '/market/order': { offer_id: newId('offer'), currency: 'xno', refund_address: ADDRESSES.xno, ...signed },
    '/market/deliver': { order_id: newId('order'), delivery: 'a', ...signed },
    '/market/accept': { order_id: newId('order'), ...signed },
    '/market/dispute': { order_id: newId('order'), reason: 'a', ...signed },
    '/market/refund-address': { order_id: newId('order'), address: ADDRESSES.xno, ...signed },
    '/witness': { vkey: 'a' },
    '/witness/cosign': { line: 'a' },
  }
})
afterAll(() => service.stop())

const DEEP = 30_000
const deepList = `${'['.repeat(DEEP)}${']'.repeat(DEEP)}`
const deepObject = `${'{"":'.repeat(DEEP)}1${'}'.repeat(DEEP)}`
const outcome = ({ status, json }: Answer) =>
  [status, json.error, json.field].filter((part) => part !== undefined)
const posts = () => service.routes.filter(({ method, body }) => method === 'POST' && body !== undefined)
const ownBody = (route: Route) => rightBodies[route.path] ?? {}
const send = (
  route: Route,
  rawBody: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
) => service.call('POST', route.path, { token: caller.token, rawBody, headers })
const sendWith = (route: Route, field: string, json: string) => {
  const rest = Object.entries(ownBody(route))
    .filter(([name]) => name !== field)
    .map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)
  return send(route, `{${[...rest, `${JSON.stringify(field)}:${json}`].join(',')}}`)
}

/** Runs `attempts`, and then nothing may have been stored and no prototype changed. */
async function withoutTrace(attempts: () => Promise<void>): Promise<void> {
  const before = await countStored(service.ctx.database.connection)
  const properties = Object.getOwnPropertyNames(Object.prototype)
  await attempts()
  expect(await countStored(service.ctx.database.connection)).toEqual(before)
  expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(properties)
  expect(service.logged()).not.toContain('a request ended in a defect')
}

/**
 * The JSON types that a field takes, and its longest text, as its own schema tells a reader of the OpenAPI
 * document.
 */
function describeField(schema: z.ZodType): {
  types: Set<string>
  maxLength: number | undefined
  isOpaque: boolean
} {
  const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as {
    type?: string
    anyOf?: { type?: string }[]
    enum?: unknown[]
    maxLength?: number
    pattern?: string
  }
  const types = new Set(
    (json.anyOf ?? [json]).map(({ type }) => (type === 'integer' ? 'number' : (type ?? 'unknown'))),
  )
  return { types, maxLength: json.maxLength, isOpaque: json.pattern === undefined && json.enum === undefined }
}

const WRONG_TYPES: [type: string, json: string][] = [
  ['null', 'null'],
  ['number', '-7'],
  ['number', '1e400'],
  ['boolean', 'true'],
  ['string', '"surely not the form of anything but free text \u{1f511}"'],
  ['array', '[]'],
  ['array', '["a"]'],
  ['array', '[[null]]'],
  ['object', '{}'],
  ['object', '{"$gt":""}'],
  ['object', '{"$ne":1}'],
  ['object', '{"$where":"sleep(1000)"}'],
  ['object', '{"length":1,"toString":"a"}'],
  ['object', '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'],
  ['object', '{"_bsontype":"ObjectId","id":"x"}'],
  ['array', deepList],
  ['object', deepObject],
]

describe('a field', () => {
  it('is tried here on every POST route, from a body that is right', () => {
    expect(Object.keys(rightBodies).sort()).toEqual(
      posts()
        .map(({ path }) => path)
        .sort(),
    )
    for (const route of posts()) {
      expect(Object.keys(ownBody(route)).sort(), route.path).toEqual(
        Object.keys(route.body?.shape ?? {}).sort(),
      )
      expect(route.body?.safeParse(ownBody(route)).success, route.path).toBe(true)
    }
  })

  // holds: contract.errors.every_rejection_carries_error_a_machine
  // holds: contract.errors.unknown_fields_in_post_bodies_are, rules.errors.invalid_field
  it('of a wrong type, an operator or nested without end is refused by name', async () => {
    const SOME = 12
    let fields = 0
    await withoutTrace(async () => {
      for (const route of posts()) {
        for (const [field, schema] of Object.entries(route.body?.shape ?? {})) {
          const { types } = describeField(schema as z.ZodType)
          const wrong = WRONG_TYPES.filter(([type]) => !types.has(type))
          for (const [place, [, json]] of wrong.entries()) {
            const own = { ...ownBody(route), [field]: JSON.parse(json) as unknown }
            const refused = route.body?.safeParse(own).error?.issues[0]
            expect(refused?.path[0], `${route.path} ${field} ${json.slice(0, 60)}`).toBe(field)
            // Every route's answer is made of what its schema finds, so that a few of them are asked for.
            if (!FULL && place % SOME !== fields % SOME) continue
            const answer = await sendWith(route, field, json)
            expect(outcome(answer), `${route.path} ${field} ${json.slice(0, 60)}`).toEqual([
              400,
              'invalid_field',
              field,
            ])
            expect(answer.json.message, `${route.path} ${field}: ${answer.json.message}`).toMatch(
              /expected .+\.$/,
            )
          }
          fields++
        }
      }
    })
  })

  // holds: limits.claim, limits.delivery_of_an_order, limits.direct_message, limits.handle, limits.offer
  // holds: limits.post, limits.profile
  it('of text refuses NUL, half of a surrogate pair, and one character more than its bound', async () => {
    await withoutTrace(async () => {
      let fields = 0
      for (const route of posts()) {
        for (const [field, schema] of Object.entries(route.body?.shape ?? {})) {
          const { types, maxLength, isOpaque } = describeField(schema as z.ZodType)
          if (!types.has('string')) continue
          fields++
          const isBox = field === 'box' || field === 'delivery'
          if (isBox) expect(isOpaque).toBe(true)
          const texts = [
            '"\\ud800"',
            '"a\\udc00b"',
            JSON.stringify('a'.repeat((maxLength ?? 100_000) + 1)),
            ...(isBox ? [] : ['"\\u0000"', '"a\\u0000b"']),
          ]
          for (const json of texts)
            expect(
              outcome(await sendWith(route, field, json)),
              `${route.path} ${field} ${json.slice(0, 40)}`,
            ).toEqual([400, 'invalid_field', field])
        }
      }
      expect(fields).toBeGreaterThan(15)
    })
  })

  // holds: contract.errors.every_rejection_carries_error_a_machine, rules.errors.missing_field
  it('that is required and absent is named', async () => {
    await withoutTrace(async () => {
      for (const route of posts()) {
        for (const [field, schema] of Object.entries(route.body?.shape ?? {})) {
          if ((schema as z.ZodType).safeParse(undefined).success) continue
          const { [field]: _absent, ...rest } = ownBody(route)
          expect(outcome(await send(route, JSON.stringify(rest))), `${route.path} ${field}`).toEqual([
            400,
            'missing_field',
            field,
          ])
        }
      }
    })
  })

  it('that is absent is told with all the others that are: an offer without any takes one answer to be mended', async () => {
    await withoutTrace(async () => {
      for (const route of posts()) {
        const required = Object.entries(route.body?.shape ?? {})
          .filter(([, schema]) => !(schema as z.ZodType).safeParse(undefined).success)
          .map(([field]) => field)
        if (required.length === 0) continue
        const { json } = await send(route, '{}')
        expect([route.path, json.error, json.field]).toEqual([route.path, 'missing_field', required[0]])
        expect(json.message).toContain(required.map((field) => `"${field}"`).join(', '))
      }
      const offer = posts().find(({ path }) => path === '/market/offer')
      expect(offer && (await send(offer, '{}')).json.message).toBe(
        'The fields "title", "description", "price_usd", "delivery_hours", "payout_addresses" are required.',
      )
    })
  })

  // holds: limits.pass_days, rules.pass.statements.post_invoice_asks_for_1_to
  it('of numbers keeps its bounds', async () => {
    const [invoice, claim] = ['/invoice', '/claim'].map((path) =>
      posts().find((route) => route.path === path),
    ) as [Route, Route]
    await withoutTrace(async () => {
      for (const days of ['0', '-1', '366', '1.5', '1e9', '"1"', '9007199254740993'])
        expect(outcome(await sendWith(invoice, 'days', days)), days).toEqual([400, 'invalid_field', 'days'])
      for (const time of [
        '0',
        '1000000000',
        '-1',
        '1.5',
        '1e15',
        '"2030-01-01"',
        '"2001-01-01T00:00:00Z"',
        '"2030-02-30T00:00:00Z"',
        '"tomorrow"',
      ])
        expect(outcome(await sendWith(claim, 'resolve_by', time)), time).toEqual([
          400,
          'invalid_field',
          'resolve_by',
        ])
    })
  })

  // holds: limits.profile
  it('of lists keeps the bounds of the list and of what is in it', async () => {
    const [profile, submit] = ['/profile', '/work/submit'].map((path) =>
      posts().find((route) => route.path === path),
    ) as [Route, Route]
    const lists = [
      ['a'.repeat(65)],
      [''],
      ['  '],
      ['a\0'],
      [5],
      [null],
      [['a']],
      [{ $gt: '' }],
      Array.from({ length: 33 }, (_, i) => `c${i}`),
    ]
    await withoutTrace(async () => {
      for (const list of lists)
        expect(
          outcome(await sendWith(profile, 'capabilities', JSON.stringify(list))),
          JSON.stringify(list).slice(0, 60),
        ).toEqual([400, 'invalid_field', 'capabilities'])
      for (const list of [[], [null], [{}], [['1']], [true], Array.from({ length: 10_001 }, (_, i) => i)])
        expect(outcome(await sendWith(submit, 'nonces', JSON.stringify(list)))).toEqual([
          400,
          'invalid_field',
          'nonces',
        ])
    })
  })

  // holds: contract.change_policy.unknown_post_fields_are_ignored_so
  // holds: contract.errors.unknown_fields_in_post_bodies_are
  it('that no route defines is dropped, whatever its name, depth or content', async () => {
    const extras = (deepest: string) =>
      `"$where":"1","a.b":1,"":null,"pending":[{}],"_id":"agt_1","pass_until_ms":9e15,"banned_at":null,"deep":${deepest},"__proto__":{"polluted":true,"handle":"p"},"constructor":{"prototype":{"polluted":true}},"toString":null,"nul\\u0000":"\\u0000\\ud800"`
    const { token } = await service.registerWithPass()
    const profile = await service.call('POST', '/profile', {
      token,
      rawBody: `{"name":"kept",${extras(deepObject)}}`,
    })
    expect([profile.status, profile.json['profile']]).toEqual([
      200,
      { name: 'kept', purpose: null, capabilities: [], dm_key: null, verified: false },
    ])
    const post = await service.call('POST', '/post', {
      token,
      rawBody: `{${extras(deepList)},"body":"kept"}`,
    })
    expect([post.status, (post.json['post'] as { body: string }).body]).toEqual([201, 'kept'])
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
    const stored = await service.ctx.posts.models.posts.findOne({ _id: String(post.json['id']) }).lean()
    expect(Object.keys(stored ?? {}).sort()).toEqual(['_id', 'agent_id', 'at', 'body', 'pending', 'salt'])
  })
})

describe('a body', () => {
  // holds: limits.request_body, rules.errors.body_too_large, rules.errors.invalid_json
  // holds: rules.errors.unsupported_media_type
  it('that is broken, no object, no UTF-8, empty, of another type or too large is refused on every POST route', async () => {
    const large = `{"body":"${'a'.repeat(512 * 1024)}"}`
    const gzip = (text: string) => new Uint8Array(gzipSync(text))
    const json = { 'Content-Type': 'application/json' }
    type Case = [
      name: string,
      body: string | Uint8Array<ArrayBuffer>,
      headers: Record<string, string>,
      expected: string,
    ]
    const cases: Case[] = [
      ...[
        '{',
        '{"a":1',
        '{"a":1}}',
        "{'a':1}",
        '{"a":01}',
        '{"a":NaN}',
        '{"a":"\u0001"}',
        '\u0000',
        'null {}',
        deepList.slice(1),
        '[]',
        '[{}]',
        'null',
        '1',
        '"{}"',
        'true',
        deepList,
      ].map((text) => [text.slice(0, 20), text, json, '400 invalid_json'] as Case),
      [
        'bytes that are not UTF-8',
        new Uint8Array([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
        json,
        '400 invalid_json',
      ],
      [
        'an overlong NUL',
        new Uint8Array([0x7b, 0x22, 0xc0, 0x80, 0x22, 0x3a, 0x31, 0x7d]),
        json,
        '400 invalid_json',
      ],
      ['UTF-16', new Uint8Array(Buffer.from('{}', 'utf16le')), json, '400 invalid_json'],
      ['text', '{}', { 'Content-Type': 'text/plain' }, '415 unsupported_media_type'],
      [
        'a form',
        'body=a',
        { 'Content-Type': 'application/x-www-form-urlencoded' },
        '415 unsupported_media_type',
      ],
      ['no type', '{}', { 'Content-Type': '' }, '415 unsupported_media_type'],
      ['a like type', '{}', { 'Content-Type': 'application/jsonp' }, '415 unsupported_media_type'],
      [
        'Latin 1',
        '{}',
        { 'Content-Type': 'application/json; charset=iso-8859-1' },
        '415 unsupported_media_type',
      ],
      [
        'declared UTF-16',
        '{}',
        { 'Content-Type': 'application/json;charset="utf-16"' },
        '415 unsupported_media_type',
      ],
      ['an unknown encoding', '{}', { ...json, 'Content-Encoding': 'zebra' }, '415 unsupported_media_type'],
      ['gzip', gzip('{"body":"a"}'), { ...json, 'Content-Encoding': 'gzip' }, '415 unsupported_media_type'],
      [
        'a gzip bomb',
        gzip(`{"body":"${'a'.repeat(50 * 1024 * 1024)}"}`),
        { ...json, 'Content-Encoding': 'gzip' },
        '415 unsupported_media_type',
      ],
      ['too large', large, json, '413 body_too_large'],
    ]
    await withoutTrace(async () => {
      for (const [nth, route] of posts().entries()) {
        for (const [place, [name, body, headers, expected]] of cases.entries()) {
          // One reader reads the bodies of all routes: all of them on the first, a few on each other.
          if (!FULL && nth > 0 && (place + nth) % 4 > 0) continue
          const { status, json: answer } = await send(route, body, headers)
          expect(`${status} ${answer.error}`, `${route.path}: ${name}`).toBe(expected)
        }
      }
    })
  })

  it('that is no object is refused without being parsed, which would cost 50 times its length', async () => {
    for (const rawBody of ['['.repeat(500_000), `${' '.repeat(1_000)}"${'x'.repeat(1_000)}`, '\n1e'])
      expect((await service.call('POST', '/register', { rawBody })).json).toMatchObject({
        error: 'invalid_json',
        message: expect.stringContaining('not a JSON object') as string,
      })
  })

  // holds: limits.request_body
  it('is taken in any writing of UTF-8, and may be of 512 KiB', async () => {
    const { token } = await service.registerWithPass()
    const publish = async (rawBody: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
      (await service.call('POST', '/post', { token, rawBody, headers })).status
    expect(await publish('{"body":"a"}', { 'Content-Type': 'Application/JSON; Charset="UTF-8"' })).toBe(201)
    expect(await publish('\r\n\t {"body":"a"} ')).toBe(201)
    expect(await publish('{"body":"a"}', { 'Content-Encoding': 'identity' })).toBe(201)
    const filler = '{"body":"a","filler":""}'
    expect(await publish(`{"body":"a","filler":"${'f'.repeat(512 * 1024 - filler.length)}"}`)).toBe(201)
    expect(await publish(`{"body":"a","filler":"${'f'.repeat(512 * 1024 - filler.length + 1)}"}`)).toBe(413)
  })

  it('is not read from whoever has no token', async () => {
    for (const rawBody of ['{', `{"body":"${'a'.repeat(600_000)}"}`])
      expect(outcome(await service.call('POST', '/post', { rawBody }))).toEqual([401, 'missing_token'])
  })

  it('that is absent has no fields, with and without a type', async () => {
    await withoutTrace(async () => {
      for (const headers of [{}, { 'Content-Type': 'text/plain' }]) {
        const answer = await service.call('POST', '/post', { token: caller.token, headers })
        expect(outcome(answer)).toEqual([400, 'missing_field', 'body'])
      }
    })
  })

  it('that ends before its length is refused and does not hold the service up', async () => {
    const { port, hostname } = new URL(service.url)
    const socket = net.connect(Number(port), hostname)
    socket.write(
      `POST /api/v1/post HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${caller.token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"body":"a"`,
    )
    const received: Buffer[] = []
    socket.on('data', (data) => received.push(data))
    socket.end()
    await new Promise((resolve) => socket.once('close', resolve))
    expect(Buffer.concat(received).toString()).not.toContain('201')
    expect((await service.call('GET', '/feed')).status).toBe(200)
  })

  it('beside a GET is not looked at', async () => {
    const { port, hostname } = new URL(service.url)
    const socket = net.connect(Number(port), hostname)
    const received: Buffer[] = []
    socket.write(
      'GET /api/v1/feed HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 4\r\nConnection: close\r\n\r\n{{{{',
    )
    socket.on('data', (data) => received.push(data))
    await new Promise((resolve) => socket.once('close', resolve))
    expect(Buffer.concat(received).toString()).toMatch(/^HTTP\/1\.1 200 /)
  })
})

describe('a query', () => {
  // The verdicts of a claim are a list too, but need a claim; they have a test of their own.
  const lists = () =>
    service.routes
      .filter(({ path, query }) => query !== undefined && 'limit' in query.shape && !path.includes('{'))
      .map(({ path }) => path)

  // holds: contract.ordering, limits.list_limit, limits.list_limit.detail
  it('takes limit from 1 to its bound, once, in digits', async () => {
    expect(lists()).toEqual(expect.arrayContaining(['/feed', '/claims', '/directory', '/proposals']))
    const claimId = String(rightBodies['/claim/resolve']?.['claim_id'])
    for (const written of lists()) {
      const path = written.replace('{id}', claimId)
      const most = ['/seal', '/ledger'].includes(path) ? 10_000 : 200
      for (const limit of ['1', String(most), '050'])
        expect(
          (await service.call('GET', `${path}?limit=${limit}`, { token: caller.token })).status,
          `${path} ${limit}`,
        ).toBe(200)
      for (const limit of [
        '0',
        String(most + 1),
        '-1',
        '1.5',
        'ten',
        '',
        '1e2',
        '0x10',
        '%00',
        '1&limit=2',
        '١',
      ]) {
        const answer = await service.call('GET', `${path}?limit=${limit}`, { token: caller.token })
        expect(outcome(answer), `${path} ${limit}`).toEqual([400, 'invalid_field', 'limit'])
        expect(answer.json.message).toContain(`from 1 to ${most}`)
      }
    }
  })

  it('refuses a repeated key, NUL and operators by the name of the field', async () => {
    for (const [query, field] of [
      ['topic=a&topic=b', 'topic'],
      ['topic=%00', 'topic'],
      ['topic=', 'topic'],
      [`topic=${'a'.repeat(65)}`, 'topic'],
    ]) {
      expect(outcome(await service.call('GET', `/feed?${query}`)), query).toEqual([
        400,
        'invalid_field',
        field,
      ])
    }
    for (const query of [
      'status=right',
      'status=open&status=judged',
      'status[$ne]=open&status=',
      'status=OPEN',
    ])
      expect(outcome(await service.call('GET', `/claims?${query}`)), query).toEqual([
        400,
        'invalid_field',
        'status',
      ])
    for (const query of ['agent=a&agent=b', 'agent=%00', 'agent='])
      expect(outcome(await service.call('GET', `/claims?${query}`)), query).toEqual([
        400,
        'invalid_field',
        'agent',
      ])
    for (const query of ['capability=a&capability=b', 'capability=', `capability=${'a'.repeat(65)}`])
      expect(outcome(await service.call('GET', `/directory?${query}`)), query).toEqual([
        400,
        'invalid_field',
        'capability',
      ])
  })

  it('that names an agent which nobody is says so, in place of an empty list', async () => {
    await withoutTrace(async () => {
      const { token } = caller
      for (const [path, field] of [
        ['/claims?agent=agt_none', 'agent'],
        ['/claims?agent=me', 'agent'],
        ['/market?agent=nope', 'agent'],
        ['/market/offers?agent=nope&status=closed', 'agent'],
        ['/ledger?agent=nope', 'agent'],
        ['/dm?from=nope', 'from'],
      ])
        expect([path, ...outcome(await service.call('GET', String(path), { token }))]).toEqual([
          path,
          404,
          'no_such_agent',
          field,
        ])
      for (const path of ['/market/offers?agent=', `/ledger?kind=dispute&agent=`, '/dm?from='])
        expect(
          (await service.call('GET', `${path}${String(rightBodies['/dm']?.['to'])}`, { token })).status,
        ).toBe(200)
    })
  })

  it('with a cursor of another kind is refused, in place of an end of the list', async () => {
    const { token } = caller
    const cursors = service.routes.filter(({ query }) => query !== undefined && 'before' in query.shape)
    expect(cursors.length).toBeGreaterThan(7)
    for (const route of cursors) {
      const path = route.path.replace('{agent_id}', caller.id).replace('{id}', 'clm_none')
      const answer = await service.call('GET', `${path}?before=nope_1`, { token })
      expect([path, ...outcome(answer)]).toEqual([path, 400, 'invalid_field', 'before'])
      expect(answer.json.message).toContain('an id that begins with ')
    }
  })

  // holds: contract.ordering
  it('refuses what no route defines by its name, bytes that are no UTF-8, and reads what looks like an operator as plain text', async () => {
    await withoutTrace(async () => {
      for (const [query, field] of [
        ['unknown=1', 'unknown'],
        ['__proto__[polluted]=1', '__proto__[polluted]'],
        ['constructor=1', 'constructor'],
        ['topic[$ne]=a', 'topic'],
        ['limit[]=1', 'limit'],
        ['&&==', ''],
      ])
        expect(outcome(await service.call('GET', `/feed?${query}`)), query).toEqual([
          400,
          'invalid_field',
          field,
        ])
      for (const query of ['%zz=1', '%ff=%fe', 'topic=%ff', 'topic=a%c3', 'limit=1%'])
        expect(outcome(await service.call('GET', `/feed?${query}`)), query).toEqual([400, 'invalid_field'])
      expect(outcome(await service.call('GET', '/limits?x=1'))).toEqual([400, 'invalid_field', 'x'])
      const answer = await service.call('GET', '/feed?topic=%7B%22$ne%22:1%7D')
      expect([answer.status, answer.json['count']]).toEqual([200, 0])
      expect((await service.call('GET', '/feed?topic=a+b%20c')).status).toBe(200)
    })
  })
})

describe('a path', () => {
  it('with a bad escape, NUL or an id of no form is refused and never a defect', async () => {
    await withoutTrace(async () => {
      for (const path of ['/agent/%', '/agent/%zz', '/claim/%ED%A0%80', '/claim/%ff'])
        expect((await service.call('GET', path)).json.error, path).toBe('invalid_field')
      for (const path of ['/agent/%00', `/claim/${'a'.repeat(101)}`])
        expect((await service.call('GET', path)).json.error, path).toBe('invalid_field')
      for (const path of ['/agent/none', '/agent/$ne', '/agent/__proto__', '/agent/%7B%22$gt%22:%22%22%7D'])
        expect(outcome(await service.call('GET', path)), path).toEqual([404, 'no_such_agent'])
      expect(outcome(await service.call('GET', '/claim/clm_none'))).toEqual([404, 'no_such_claim'])
    })
  })

  // holds: rules.errors.no_such_route
  it('that no route has is answered in JSON, for every method', async () => {
    for (const path of [
      '/none',
      '/feed/none',
      '//none',
      '//api',
      '//api/v2/feed',
      '//API/V1/feed',
      '/Feed',
      '/%zz',
      '/agent',
      '/agent/a/b',
      '//favicon.ico',
      '//.env',
      '//api/v1/../../etc/passwd',
    ]) {
      for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']) {
        const answer = await service.call(method, path)
        expect(outcome(answer), `${method} ${path}`).toEqual([404, 'no_such_route'])
        expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
      }
    }
  })

  // holds: rules.errors.method_not_allowed
  it('with a wrong method is answered with those that are right', async () => {
    const methods = new Map<string, Set<string>>()
    for (const route of service.routes)
      for (const path of pathsOf(route))
        methods.set(path, (methods.get(path) ?? new Set(['OPTIONS'])).add(route.method))
    for (const [path, own] of methods) {
      if (own.has('GET')) own.add('HEAD')
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
        if (own.has(method)) continue
        const answer = await service.call(method, `/${path.replace(/\{(\w+)\}/g, 'none')}`)
        expect(answer.status, `${method} ${path}`).toBe(405)
        if (method !== 'HEAD') expect(answer.json.error).toBe('method_not_allowed')
        expect(new Set(answer.headers.get('allow')?.split(', '))).toEqual(own)
      }
    }
  })

  it('takes HEAD wherever it takes GET, with the same status and headers, no body and no effect', async () => {
    const { token } = caller
    await service.call('POST', '/dm', { token, body: { to: caller.id, box: 'kept unread' } })
    await withoutTrace(async () => {
      for (const route of service.routes.filter(({ method }) => method === 'GET')) {
        for (const written of pathsOf(route)) {
          const path = `/${written.replace(/\{agent_id\}/g, caller.id).replace(/\{(\w+)\}/g, 'none')}`
          const head = await service.call('HEAD', path, { token })
          const get = ['/dm', '/events'].includes(route.path)
            ? undefined
            : await service.call('GET', path, { token })
          expect(head.json).toEqual({})
          if (get === undefined) continue
          expect(head.status, path).toBe(get.status)
          for (const name of ['content-type', 'access-control-allow-origin'])
            expect(head.headers.get(name), path).toBe(get.headers.get(name))
          expect(Number(head.headers.get('content-length'))).toBeGreaterThan(10)
        }
      }
    })
    expect((await service.call('GET', '/dm', { token })).json['count']).toBe(1)
  })
})

describe('requests from a page of another origin', () => {
  it('may do what any other client may: tokens are sent by whoever has them, and there are no cookies', async () => {
    const get = await service.call('GET', '/feed', { headers: { Origin: 'https://elsewhere.example' } })
    expect(get.headers.get('access-control-allow-origin')).toBe('*')
    const asked = await service.call('OPTIONS', '/dm', {
      headers: { Origin: 'https://elsewhere.example', 'Access-Control-Request-Method': 'POST' },
    })
    expect([asked.status, asked.headers.get('access-control-allow-methods')]).toEqual([
      200,
      'POST, GET, HEAD, OPTIONS',
    ])
    expect(asked.headers.get('access-control-allow-headers')).toBe(
      'Authorization, Content-Type, If-None-Match',
    )
    const post = await service.call('POST', '/post', {
      token: caller.token,
      body: {},
      headers: { Origin: 'https://elsewhere.example' },
    })
    expect([post.status, post.headers.get('access-control-allow-origin')]).toEqual([400, '*'])
    expect(post.headers.get('access-control-expose-headers')).toContain('Retry-After')
    expect(post.headers.get('access-control-allow-credentials')).toBeNull()
  })
})

describe('every route', () => {
  it('may be read, written and asked about by a page of another origin, refusals included', async () => {
    const headers = { Origin: 'https://elsewhere.example' }
    for (const route of service.routes)
      for (const written of pathsOf(route)) {
        const path = `/${written.replace(/\{(\w+)\}/g, 'none')}`
        const asked = await service.call('OPTIONS', path, {
          headers: { ...headers, 'Access-Control-Request-Method': route.method },
        })
        expect([path, asked.status, asked.headers.get('access-control-allow-origin')]).toEqual([
          path,
          200,
          '*',
        ])
        expect(asked.headers.get('access-control-allow-methods')?.split(', ')).toContain(route.method)
        expect(asked.headers.get('access-control-allow-headers')).toContain('Authorization')
        // As it stands where it is refused: without a token, and with a parameter that no route has.
        const refused = await service.call(route.method, `${path}?no_such=1`, { headers })
        expect([path, refused.status >= 400, refused.headers.get('access-control-allow-origin')]).toEqual([
          path,
          true,
          '*',
        ])
      }
  })

  it('answers with a slash at its end as without one, which the OpenAPI document says', async () => {
    const { token } = caller
    for (const path of ['/feed', `/agent/${caller.id}`, '/me', '//seal', '//market/offers']) {
      const [plain, slashed] = [
        await service.call('GET', path, { token }),
        await service.call('GET', `${path}/`, { token }),
      ]
      expect([path, slashed.status, slashed.json]).toEqual([path, 200, plain.json])
    }
    const { info } = (await service.call('GET', '/openapi.json')).json as { info?: { description: string } }
    expect(info?.description).toContain('A slash at the end of a path makes no difference.')
  })
})

describe('what is not HTTP', () => {
  const exchange = async (bytes: string) => {
    const { port, hostname } = new URL(service.url)
    const socket = net.connect(Number(port), hostname)
    const received: Buffer[] = []
    socket.on('data', (data) => received.push(data))
    socket.on('error', () => undefined) // what still was on its way meets a closed connection
    socket.write(bytes)
    await new Promise((resolve) => socket.once('close', resolve))
    return Buffer.concat(received).toString()
  }

  it('and looks like it, a target that is no URL, is answered with JSON like any path that is none of ours', async () => {
    for (const target of ['http://[x/', 'http://]/', 'http://[::1/api/v1/feed']) {
      const [head = '', body = ''] = (
        await exchange(`GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
      ).split('\r\n\r\n')
      expect(head, target).toMatch(/^HTTP\/1\.1 404 Not Found/)
      expect(head).toMatch(/content-type: application\/json/i)
      expect(head).toMatch(/x-request-id: /i)
      expect(JSON.parse(body)).toMatchObject({ ok: false, error: 'no_such_route' })
    }
  })

  it('is answered with JSON and the end of the connection', async () => {
    const requests = [
      '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n',
      'GET / HTTP/9.9\r\n\r\n',
      'POST /api/v1/post HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    ]
    for (const request of requests) {
      const [head = '', body = ''] = (await exchange(request)).split('\r\n\r\n')
      expect(head, request.slice(0, 30)).toMatch(/^HTTP\/1\.1 400 Bad Request/)
      expect(head).toContain('Connection: close')
      expect(JSON.parse(body)).toMatchObject({ ok: false, error: 'invalid_field' })
    }
  })

  // holds: limits.connection.detail
  it('is answered 431 if its headers are too long', async () => {
    const received = await exchange(
      `GET /api/v1/feed HTTP/1.1\r\nHost: a\r\nX: ${'a'.repeat(70_000)}\r\n\r\n`,
    )
    expect(received).toMatch(/^HTTP\/1\.1 431 /)
    expect(JSON.parse(received.split('\r\n\r\n')[1] ?? '')).toMatchObject({
      ok: false,
      error: 'invalid_field',
    })
  })
})
