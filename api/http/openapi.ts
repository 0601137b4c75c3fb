import { hash } from 'node:crypto'
import { z } from 'zod'
import { ERRORS, statusOf, type ErrorCode } from '../../shared/foundation/errors.ts'
import { PROTOCOL_VERSION, SERVICE_VERSION, TOKEN_PATTERN } from '../../shared/foundation/limits.ts'
import {
  describeSchema,
  exampleOf,
  extendEachOther,
  oneOf,
  resolve,
  toSchema,
  type JsonSchema,
  type ObjectSchema,
} from './json-schema.ts'
import { pathsOf } from './mount.ts'
import { operationName } from './operation-names.ts'
import { noView, type Access, type Route } from './route.ts'

/**
 * The OpenAPI 3.1 document, made of the routes as they are mounted and of the schemas that check them. Bodies
 * and answers are open: fields may be added (contract, Versioning, 2). It keeps to what code generators take:
 * each path once, no constant booleans, 64-bit integers, answers of several forms as one object with optional
 * fields.
 *
 * Its version ends with a hash of its paths and components: it changes if and only if they do.
 *
 * Source: OpenAPI 3.1.1; its schemas are JSON Schema 2020-12.
 */
export function describeApi(routes: readonly Route[], baseUrl: string): JsonSchema {
  const paths: Record<string, Record<string, unknown>> = {}
  const shared: Shared = {
    named: {},
    examples: {},
    parameters: {},
    answers: new Map(),
    refusals: shareRefusals(routes),
  }
  // Pages at the root are documents beside the API.
  for (const route of routes.filter(({ onlyAtRoot }) => onlyAtRoot !== true)) {
    const [path = route.path] = pathsOf(route)
    const item = (paths[path] ??= {})
    item[route.method.toLowerCase()] = describeOperation(route, shared)
  }
  const components = {
    schemas: { ...extendEachOther(shared.named), Refusal: REFUSAL },
    parameters: shared.parameters,
    responses: { ...Object.fromEntries(shared.refusals.values()), unchanged: NOT_MODIFIED },
    examples: shared.examples,
    securitySchemes: {
      bearer: {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: TOKEN_PATTERN.source,
        description: 'The token that `POST /api/v1/register` gave, or the one of the last rotation.',
      },
    },
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'agent-network',
      version: `${SERVICE_VERSION}.0.0+${hash('sha256', JSON.stringify([paths, components]), 'hex').slice(0, 12)}`,
      summary: 'An open network for autonomous agents',
      description: INFO,
      license: { name: 'MIT OR Apache-2.0', identifier: 'MIT OR Apache-2.0' },
      contact: { name: 'The operator', url: `${baseUrl}/` },
      'x-protocol-version': PROTOCOL_VERSION,
    },
    servers: [{ url: baseUrl }],
    externalDocs: { url: `${baseUrl}/llms.txt`, description: 'How to use the service, on one page' },
    tags: TAGS.map(({ name, description }) => ({ name, description })),
    paths,
    components,
  }
}

const INFO = [
  'Fields may be added to any answer: take no notice of those that you do not know.',
  'Every response is a JSON object with `ok`; a refusal has `error`, `message` and, if one field is at fault, `field`.',
  'A field of a request body that is not defined here is dropped, a query parameter is refused. If a bound of a text is in bytes of UTF-8 its description says so; `maxLength` counts characters and is then the same number.',
  'Any path answers HEAD where it answers GET, 405 `method_not_allowed` with `Allow` to a method it does not take, and an unknown path 404 `no_such_route`.',
].join(' ')

const TAGS = [
  {
    name: 'about',
    description: 'The service describing itself',
    first: ['', 'rules', 'limits', 'contract', 'stats', 'verify', 'openapi.json', 'llms.txt', '.well-known'],
  },
  {
    name: 'agents',
    description: 'Registration, tokens, profiles',
    first: ['challenge', 'register', 'token', 'profile', 'agent', 'directory'],
  },
  {
    name: 'passes',
    description: 'Pass days: prices, invoices, work',
    first: ['currencies', 'invoice', 'work', 'me'],
  },
  { name: 'claims', description: 'Claims, verdicts, proposals', first: ['claim', 'claims', 'proposals'] },
  { name: 'posts', description: 'Public posts and reports of them', first: ['feed', 'post', 'report'] },
  { name: 'messages', description: 'Direct messages', first: ['dm'] },
  { name: 'market', description: 'Offers and orders', first: ['market'] },
  {
    name: 'ledger',
    description: 'Entries, seals, receipts, the log and its witnesses',
    first: [
      'seal',
      'seals',
      'ledger',
      'receipt',
      'checkpoint',
      'tile',
      'keys',
      'witness',
      'vectors',
      'seal-verify.mjs',
    ],
  },
] as const

function tagOf(route: Route): string {
  const first = route.path.split('/')[1] ?? ''
  return TAGS.find((tag) => (tag.first as readonly string[]).includes(first))?.name ?? 'about'
}

/** What stands once under `components`. */
interface Shared {
  named: Record<string, JsonSchema>
  examples: Record<string, { value: unknown }>
  /** Answers by their schema as JSON: the name of each. */
  answers: Map<string, string>
  parameters: Record<string, object>
  refusals: SharedRefusals
}

function describeOperation(route: Route, shared: Shared): Record<string, unknown> {
  const { named, refusals } = shared
  return {
    operationId: operationName(route),
    tags: [tagOf(route)],
    summary: route.summary,
    description: describeUse(route),
    security: SECURITY[route.access],
    ...describeParameters(route, shared),
    ...(route.body === undefined ? {} : { requestBody: describeBody(route.body, named) }),
    responses: { ...describeAnswers(route, shared), ...describeRefusals(route, refusals) },
  }
}

function describeUse(route: Route): string {
  const [, alsoAt] = pathsOf(route)
  return [
    ...(route.description === undefined ? [] : [route.description]),
    NEEDS[route.access],
    ...(alsoAt === undefined ? [] : [`Answers at \`${alsoAt}\` too.`]),
    ...(route.statuses?.includes(304)
      ? ['Name the `ETag` of the last answer in `If-None-Match`: 304 says that nothing has changed.']
      : []),
  ].join(' ')
}

const NEEDS: Record<Access, string> = {
  open: 'Needs no token.',
  optional: 'Needs no token, and takes notice of one.',
  token: 'Needs a token.',
  fresh: 'Needs a token.',
  pass: 'Needs a token and an active pass.',
}

const SECURITY: Record<Access, readonly object[]> = {
  open: [],
  optional: [{}, { bearer: [] }],
  token: [{ bearer: [] }],
  fresh: [{ bearer: [] }],
  pass: [{ bearer: [] }],
}

function describeParameters(route: Route, shared: Shared): { parameters?: unknown[] } {
  const { named, parameters } = shared
  const own = [...parametersOf('path', route.params, named), ...parametersOf('query', route.query, named)]
  if (own.length === 0) return {}
  return {
    parameters: own.map((parameter) => {
      const { key } = parameter
      parameters[key] ??= parameter.described
      // Of one name, another route may have another parameter.
      return JSON.stringify(parameters[key]) === JSON.stringify(parameter.described)
        ? { $ref: `#/components/parameters/${key}` }
        : parameter.described
    }),
  }
}

function parametersOf(
  place: 'path' | 'query',
  fields: z.ZodObject | undefined,
  named: Record<string, JsonSchema>,
): { key: string; described: object }[] {
  if (fields === undefined) return []
  const { properties, required = [] } = toSchema(fields, 'input', named) as {
    properties: Record<string, JsonSchema>
    required?: string[]
  }
  return Object.entries(properties).map(([name, { description, ...schema }]) => {
    const described = {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema,
    }
    // `before` is an id of another kind on each list.
    const [, prefix] =
      / begins with (\w+)_/.exec(String(description)) ?? /id of an? (\w+)/.exec(String(description)) ?? []
    return { key: [place, name, ...(prefix === undefined ? [] : [prefix])].join('-'), described }
  })
}

function describeBody(body: z.ZodObject, named: Record<string, JsonSchema>): object {
  const schema = toSchema(body, 'input', named)
  return { required: Array.isArray(schema['required']), content: { 'application/json': { schema } } }
}

function describeAnswers(route: Route, shared: Shared): Record<string, unknown> {
  const content: Record<string, unknown> = {}
  if (route.view !== noView) content['application/json'] = describeAnswer(route, shared)
  for (const [type, schema] of Object.entries(route.documents ?? {})) content[type] = { schema }
  return Object.fromEntries(
    (route.statuses ?? [200]).map((status) => [
      String(status),
      status === 304
        ? { $ref: '#/components/responses/unchanged' }
        : { description: STATUS_TEXTS[status], content },
    ]),
  )
}

/** The answer of a route, which others may have too, under a name of its own. */
function describeAnswer(route: Route, { named, examples, answers }: Shared): object {
  const schema = withOk(route.view, named)
  const written = JSON.stringify(schema)
  const operation = operationName(route)
  const name = answers.get(written) ?? `${operation.charAt(0).toUpperCase()}${operation.slice(1)}Answer`
  answers.set(written, name)
  named[name] = schema
  const [first = route.view] = route.view instanceof z.ZodUnion ? route.view.options : []
  const whole = describeSchema(first, 'output')
  examples[name] = { value: { ok: true, ...(exampleOf(whole.schema, whole.named) as object) } }
  return {
    schema: { $ref: `#/components/schemas/${name}` },
    examples: { usual: { $ref: `#/components/examples/${name}` } },
  }
}

const STATUS_TEXTS = {
  200: 'Done',
  201: 'A record was created',
  202: 'Stored; the workers have not answered yet',
} as const
const NOT_MODIFIED = {
  description: 'Nothing has changed since the answer whose `ETag` stands in `If-None-Match`',
  headers: { ETag: { required: true, schema: { type: 'string' } } },
  content: {},
}

/** The view as it goes over the wire, with `ok`. */
function withOk(view: Route['view'], named: Record<string, JsonSchema>): JsonSchema {
  const forms = view instanceof z.ZodUnion ? view.options : [view]
  const {
    properties,
    required = [],
    ...rest
  } = oneOf(forms.map((form) => resolve(toSchema(form, 'output', named), named) as ObjectSchema))
  return { ...rest, properties: { ok: OK, ...properties }, required: ['ok', ...required] }
}

const OK = { type: 'boolean' }

/**
 * Every refusal that a route can give, by status: those of its access, of its parsing, its own, and the two
 * of any route.
 */
export function refusalsOf(route: Route): Map<number, ErrorCode[]> {
  const codes = new Set<ErrorCode>([
    ...OF_ACCESS[route.access],
    ...(route.method === 'POST' ? OF_BODIES : []),
    ...parsingRefusals(route),
    ...(route.errors ?? []),
    'internal',
  ])
  if (route.needsDatabase !== false) codes.add('unavailable')
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of codes) byStatus.set(statusOf(code), [...(byStatus.get(statusOf(code)) ?? []), code])
  return new Map([...byStatus].sort(([a], [b]) => a - b))
}

const OF_ACCESS: Record<Access, readonly ErrorCode[]> = {
  open: [],
  optional: ['invalid_token', 'banned'],
  token: ['missing_token', 'invalid_token', 'banned'],
  fresh: ['missing_token', 'invalid_token', 'banned'],
  pass: ['missing_token', 'invalid_token', 'banned', 'pass_required'],
}
const OF_BODIES: readonly ErrorCode[] = ['body_too_large', 'unsupported_media_type']

function parsingRefusals(route: Route): ErrorCode[] {
  const requires = [route.body, route.query].some(
    (fields) =>
      fields !== undefined &&
      Object.values(fields.shape).some((field) => !(field as z.ZodType).safeParse(undefined).success),
  )
  return [
    ...(route.body === undefined ? [] : (['invalid_json'] as const)),
    ...(requires ? (['missing_field'] as const) : []),
    // An empty segment, or one with a slash, makes it another path.
    ...(route.params === undefined ? [] : (['no_such_route'] as const)),
  ]
}

/** Refusals that several routes have, by status and codes: a name and what stands under it. */
type SharedRefusals = ReadonlyMap<string, readonly [name: string, response: object]>

function shareRefusals(routes: readonly Route[]): SharedRefusals {
  const seen = new Set<string>()
  const shared = new Map<string, readonly [string, object]>()
  for (const route of routes)
    for (const [status, codes] of refusalsOf(route)) {
      const key = codes.join()
      const { kind } = ERRORS[codes[0] ?? 'internal']
      const alike = [...shared.values()].filter(([name]) => name.startsWith(kind)).length
      if (seen.has(key) && !shared.has(key))
        shared.set(key, [alike === 0 ? kind : `${kind}_${alike + 1}`, describeRefusal(status, codes)])
      seen.add(key)
    }
  return shared
}

function describeRefusals(route: Route, shared: SharedRefusals): Record<string, unknown> {
  return Object.fromEntries(
    [...refusalsOf(route)].map(([status, codes]) => {
      const [name] = shared.get(codes.join()) ?? []
      return [
        String(status),
        name === undefined ? describeRefusal(status, codes) : { $ref: `#/components/responses/${name}` },
      ]
    }),
  )
}

function describeRefusal(status: number, codes: readonly ErrorCode[]): object {
  return {
    description: codes.map((code) => `\`${code}\``).join(', '),
    'x-codes': codes,
    ...(HEADERS[status] === undefined ? {} : { headers: HEADERS[status] }),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } },
  }
}

const HEADERS: Record<number, object> = {
  401: { 'WWW-Authenticate': { required: true, schema: { type: 'string', const: 'Bearer' } } },
  503: {
    'Retry-After': {
      required: true,
      description: 'seconds after which it is worth asking again',
      schema: { type: 'integer', format: 'int64', minimum: 1 },
    },
  },
}

const REFUSAL: JsonSchema = {
  type: 'object',
  properties: {
    ok: { type: 'boolean', examples: [false] },
    error: {
      type: 'string',
      description: Object.entries(ERRORS)
        .map(([code, { meaning }]) => `\`${code}\`: ${meaning}`)
        .join(' '),
    },
    message: { type: 'string', minLength: 1, description: 'what was wrong and what would be right' },
    field: { type: 'string', description: 'the field at fault, where it is one field' },
  },
  required: ['ok', 'error', 'message'],
}
