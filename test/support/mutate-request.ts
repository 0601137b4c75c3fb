/** A request as it goes over the wire, before it is mutated. */
export interface RawRequest {
  method: string
  target: string
  headers: [name: string, value: string][]
  body: Record<string, unknown> | undefined
}

/** A generator of whole numbers below `limit`, the same for the same seed (mulberry32). */
export type Random = (limit: number) => number

export function createRandom(seed: number): Random {
  let state = seed >>> 0
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit
  }
}

const pick = <T>(random: Random, list: readonly T[]): T => list[random(list.length)] as T

/** JSON texts that a reader may stumble over. */
const VALUES = [
  ...[
    'null',
    'true',
    '0',
    '-1',
    '1e400',
    '9007199254740993',
    '0.1',
    '""',
    '[]',
    '{}',
    '"\\u0000"',
    '"\\ud800"',
    '"__proto__"',
  ],
  ...[
    '{"$ne":1}',
    '{"$gt":""}',
    '{"$where":"1"}',
    '["a",{"$in":[]}]',
    '{"__proto__":{"x":1}}',
    '{"_bsontype":"ObjectId"}',
    '"\\u202e"',
  ],
  JSON.stringify('x'.repeat(70_000)),
  `${'['.repeat(2_000)}${']'.repeat(2_000)}`,
  `[${'1,'.repeat(20_000)}1]`,
]
const QUERIES = [
  'limit=0',
  'limit=1e3',
  'limit[]=1',
  'limit=1&limit=2',
  'a=%ff',
  '%00=1',
  'before=$ne',
  'agent[$ne]=1',
  '=',
  '&&',
  'x='.repeat(500),
]
const HEADERS: [string, string][] = [
  ...['chunked', 'gzip, chunked', 'identity', 'chunked, chunked'].map((value): [string, string] => [
    'Transfer-Encoding',
    value,
  ]),
  ...['0', '-1', '1e3', '0x10', '999999999', '5, 5', '+5'].map((value): [string, string] => [
    'Content-Length',
    value,
  ]),
  ...['100-continue', 'nothing'].map((value): [string, string] => ['Expect', value]),
  ...['text/plain', 'application/json; charset=utf-16', 'multipart/form-data'].map(
    (value): [string, string] => ['Content-Type', value],
  ),
  ...['gzip', 'br', 'identity'].map((value): [string, string] => ['Content-Encoding', value]),
  ...['Bearer', 'Bearer sk_', 'Basic eDp4', `Bearer sk_${'0'.repeat(48)}`].map((value): [string, string] => [
    'Authorization',
    value,
  ]),
  ...['close', 'Upgrade', 'keep-alive, x'].map((value): [string, string] => ['Connection', value]),
  ['Host', 'b'],
  ['Upgrade', 'h2c'],
  ['If-None-Match', '*, W/"x", "'],
  ['Range', 'bytes=0-1'],
  ['Accept', '*/*;q=x'],
  ['X', 'y'.repeat(17_000)],
]
const METHODS = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'OPTIONS',
  'PATCH',
  'TRACE',
  'CONNECT',
  'PROPFIND',
  'get',
  'G\u0000T',
  '',
]
const VERSIONS = ['HTTP/1.0', 'HTTP/1.1', 'HTTP/2.0', 'HTTP/0.9', 'HTTP/1.1.1', '']
const TARGETS = [
  '*',
  '//',
  '/..',
  '/%2e%2e/',
  'http://a/api/v1',
  '/api/v1/%',
  '/api//v1/feed',
  '/API/V1',
  'a',
  '/\u0001',
  `/${'a'.repeat(9_000)}`,
]

/** One request, changed in one to three places: in its fields, its target, its headers, or its bytes. */
export function mutate(base: RawRequest, others: readonly RawRequest[], random: Random): Buffer {
  const request = { ...base, headers: [...base.headers] }
  let [body, version] = [base.body === undefined ? '' : JSON.stringify(base.body), 'HTTP/1.1']
  let isLengthRight = true
  const atBytes: ((bytes: Buffer) => Buffer)[] = []
  for (let left = 1 + random(3); left > 0; left--)
    pick(random, [
      () => (body = mutateField(base.body ?? {}, random)),
      () => (body = mutateField(base.body ?? {}, random)),
      () => (request.target += (request.target.includes('?') ? '&' : '?') + pick(random, QUERIES)),
      () => (request.target = random(3) === 0 ? pick(random, TARGETS) : mutateText(request.target, random)),
      () => (request.method = pick(random, METHODS)),
      () => (version = pick(random, VERSIONS)),
      () => request.headers.splice(random(request.headers.length + 1), 0, pick(random, HEADERS)),
      () => request.headers.splice(random(request.headers.length), 1),
      () => (isLengthRight = false),
      () => atBytes.push((bytes) => mutateBytes(bytes, random)),
      () => atBytes.push((bytes) => Buffer.concat([bytes, serialize(pick(random, others), undefined)])),
    ])()
  const length = isLengthRight ? Buffer.byteLength(body) : random(2 * Buffer.byteLength(body) + 2)
  return atBytes.reduce((bytes, change) => change(bytes), serialize(request, { body, version, length }))
}

function serialize(
  request: RawRequest,
  changed: { body: string; version: string; length: number } | undefined,
): Buffer {
  const { method, target, headers } = request
  const { body, version, length } = changed ?? {
    body: JSON.stringify(request.body ?? {}),
    version: 'HTTP/1.1',
    length: undefined,
  }
  const lines = headers.map(([name, value]) => `${name}: ${value}`)
  const hasLength = method === 'POST' || body !== ''
  return Buffer.from(
    [
      `${method} ${target} ${version}`,
      ...lines,
      ...(hasLength ? [`Content-Length: ${length ?? Buffer.byteLength(body)}`] : []),
      '',
      hasLength ? body : '',
    ].join('\r\n'),
  )
}

/** The body with one field of another value, twice, gone, or beside a new one. */
function mutateField(body: Record<string, unknown>, random: Random): string {
  const fields = Object.entries(body).map(
    ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
  )
  const name = JSON.stringify(pick(random, [...Object.keys(body), '__proto__', 'constructor', '$where', 'x']))
  const at = random(fields.length + 1)
  if (random(4) > 0) fields.splice(at, random(2), `${name}:${pick(random, VALUES)}`)
  else fields.splice(at, 1)
  return `{${fields.join(',')}}`
}

function mutateText(text: string, random: Random): string {
  return mutateBytes(Buffer.from(text), random).toString('latin1')
}

/** A byte changed, put in or taken out; a part twice or gone; the end gone. */
function mutateBytes(bytes: Buffer, random: Random): Buffer {
  const at = random(bytes.length + 1)
  const end = Math.min(bytes.length, at + 1 + random(20))
  return Buffer.concat(
    pick(random, [
      () => [bytes.subarray(0, at), Buffer.of(random(256)), bytes.subarray(at + 1)],
      () => [
        bytes.subarray(0, at),
        Buffer.of(pick(random, [0, 9, 10, 13, 32, 127, 128, 255])),
        bytes.subarray(at),
      ],
      () => [bytes.subarray(0, at), bytes.subarray(end)],
      () => [bytes.subarray(0, end), bytes.subarray(at)],
      () => [bytes.subarray(0, at)],
    ])(),
  )
}
