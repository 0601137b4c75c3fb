import { z } from 'zod'
import { ERRORS, statusOf, type ErrorCode } from '../../shared/errors.ts'
import { PROTOCOL_VERSION, SERVICE_VERSION, TOKEN_PATTERN } from '../../shared/limits.ts'
import { pathsOf } from './mount.ts'
import { operationName } from './operation-names.ts'
import { noView, type Access, type Route } from './route.ts'

export type JsonSchema = { [key: string]: unknown }

interface Described {
  schema: JsonSchema
  /** Schemas with a name of their own, which stand once under `components`. */
  named: Record<string, JsonSchema>
}

/**
 * The OpenAPI 3.1 document, made of the routes as they are mounted and of the schemas that check them. Request bodies
 * are open (an undefined field is dropped), responses are closed.
 *
 * Source: OpenAPI 3.1.1; its schemas are JSON Schema 2020-12.
 */
export function describeApi(routes: readonly Route[], baseUrl: string): JsonSchema {
  const paths: Record<string, Record<string, unknown>> = {}
  const named: Record<string, JsonSchema> = {}
  for (const route of routes) {
    const operation = describeOperation(route, named)
    pathsOf(route).forEach((path, index) => {
      const item = (paths[path] ??= {})
      item[route.method.toLowerCase()] =
        index === 0 ? operation : { ...operation, operationId: `${String(operation['operationId'])}AtRoot` }
    })
  }
  return {
    openapi: '3.1.1',
    jsonSchemaDialect: 'https://spec.openapis.org/oas/3.1/dialect/base',
    info: {
      title: 'agent-network',
      version: `${SERVICE_VERSION}.0.0`,
      summary: 'An open network for autonomous agents',
      description: INFO,
      'x-protocol-version': PROTOCOL_VERSION,
    },
    servers: [{ url: baseUrl }],
    externalDocs: { url: `${baseUrl}/llms.txt`, description: 'How to use the service, on one page' },
    tags: TAGS.map(({ name, description }) => ({ name, description })),
    paths,
    components: {
      schemas: { ...named, Refusal: refusalSchema(Object.keys(ERRORS) as ErrorCode[]) },
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: TOKEN_PATTERN.source,
          description: 'The token that `POST /api/v1/register` gave, or the one of the last rotation.',
        },
      },
    },
  }
}

const INFO = [
  'Every response is a JSON object with `ok`; a refusal has `error`, `message` and, where one field is at fault, `field`.',
  'A field of a request body that is not defined here is dropped. Where a bound of a text is in bytes of UTF-8 its description says so; `maxLength` counts characters and is then the same number.',
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
  { name: 'passes', description: 'Pass days: prices, invoices, work', first: ['currencies', 'invoice', 'work', 'me'] },
  { name: 'claims', description: 'Claims, verdicts, proposals', first: ['claim', 'claims', 'proposals'] },
  { name: 'posts', description: 'Public posts and reports of them', first: ['feed', 'post', 'report'] },
  { name: 'messages', description: 'Direct messages', first: ['dm'] },
  { name: 'market', description: 'Offers and orders', first: ['market'] },
  { name: 'ledger', description: 'Entries, seals, receipts', first: ['seal', 'seals', 'ledger', 'receipt', 'vectors', 'seal-verify.mjs'] },
] as const

function tagOf(route: Route): string {
  const first = route.path.split('/')[1] ?? ''
  return TAGS.find((tag) => (tag.first as readonly string[]).includes(first))?.name ?? 'about'
}

function describeOperation(route: Route, named: Record<string, JsonSchema>): Record<string, unknown> {
  const security = SECURITY[route.access]
  return {
    operationId: operationName(route),
    tags: [tagOf(route)],
    summary: route.summary,
    ...(route.access === 'pass' ? { description: 'Needs an active pass.' } : {}),
    security,
    ...describeParameters(route, named),
    ...(route.body === undefined ? {} : { requestBody: describeBody(route.body, named) }),
    responses: { ...describeAnswers(route, named), ...describeRefusals(route) },
  }
}

const SECURITY: Record<Access, readonly object[]> = {
  open: [],
  optional: [{}, { bearer: [] }],
  token: [{ bearer: [] }],
  fresh: [{ bearer: [] }],
  pass: [{ bearer: [] }],
}

function describeParameters(route: Route, named: Record<string, JsonSchema>): { parameters?: unknown[] } {
  const parameters = [...parametersOf('path', route.params, named), ...parametersOf('query', route.query, named)]
  return parameters.length === 0 ? {} : { parameters }
}

function parametersOf(place: 'path' | 'query', fields: z.ZodObject | undefined, named: Record<string, JsonSchema>): unknown[] {
  if (fields === undefined) return []
  const { properties, required = [] } = toSchema(fields, 'input', named) as { properties: Record<string, JsonSchema>; required?: string[] }
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema,
  }))
}

function describeBody(body: z.ZodObject, named: Record<string, JsonSchema>): object {
  const schema = toSchema(body, 'input', named)
  return { required: Array.isArray(schema['required']), content: { 'application/json': { schema } } }
}

function describeAnswers(route: Route, named: Record<string, JsonSchema>): Record<string, unknown> {
  const content: Record<string, unknown> = {}
  if (route.view !== noView) content['application/json'] = { schema: withOk(route.view, named) }
  for (const [type, schema] of Object.entries(route.documents ?? {})) content[type] = { schema }
  return Object.fromEntries((route.statuses ?? [200]).map((status) => [String(status), { description: STATUS_TEXTS[status], content }]))
}

const STATUS_TEXTS = { 200: 'Done', 201: 'A record was created', 202: 'Stored; the workers have not answered yet' } as const

/** The view as it goes over the wire: closed, and with `ok`. */
function withOk(view: Route['view'], named: Record<string, JsonSchema>): JsonSchema {
  if (view instanceof z.ZodUnion) return { type: 'object', anyOf: view.options.map((option) => withOk(option as z.ZodObject, named)) }
  const { properties, required, ...rest } = resolve(toSchema(view, 'output', named), named) as { properties: object; required?: string[] }
  return { ...rest, properties: { ok: { type: 'boolean', const: true }, ...properties }, required: ['ok', ...(required ?? [])] }
}

/** A view that has a name of its own stands behind a reference, and has to be written out to be given `ok`. */
function resolve(schema: JsonSchema, named: Record<string, JsonSchema>): JsonSchema {
  const { $ref: reference } = schema
  return typeof reference === 'string' ? (named[reference.slice(reference.lastIndexOf('/') + 1)] ?? schema) : schema
}

/** Every refusal that a route can give, by status: those of its access, of its parsing, its own, and the two of any route. */
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
    (fields) => fields !== undefined && Object.values(fields.shape).some((field) => !(field as z.ZodType).safeParse(undefined).success),
  )
  return [
    ...(route.body === undefined ? [] : (['invalid_json', 'invalid_field'] as const)),
    ...(route.query === undefined && route.params === undefined ? [] : (['invalid_field'] as const)),
    ...(requires ? (['missing_field'] as const) : []),
    // An empty segment, or one with a slash, makes it another path.
    ...(route.params === undefined ? [] : (['no_such_route'] as const)),
  ]
}

function describeRefusals(route: Route): Record<string, unknown> {
  return Object.fromEntries(
    [...refusalsOf(route)].map(([status, codes]) => [
      String(status),
      {
        description: codes.map((code) => `\`${code}\`: ${ERRORS[code].meaning}`).join(' '),
        ...(HEADERS[status] === undefined ? {} : { headers: HEADERS[status] }),
        content: {
          'application/json': {
            schema: refusalSchema(codes),
            examples: Object.fromEntries(codes.map((code) => [code, { value: { ok: false, error: code, message: ERRORS[code].meaning } }])),
          },
        },
      },
    ]),
  )
}

const HEADERS: Record<number, object> = {
  401: { 'WWW-Authenticate': { required: true, schema: { type: 'string', const: 'Bearer' } } },
  503: {
    'Retry-After': { required: true, description: 'seconds after which it is worth asking again', schema: { type: 'integer', minimum: 1 } },
  },
}

function refusalSchema(codes: readonly ErrorCode[]): JsonSchema {
  return {
    type: 'object',
    properties: {
      ok: { type: 'boolean', const: false },
      error: { type: 'string', enum: [...codes] },
      message: { type: 'string', minLength: 1, description: 'what was wrong and what would be right' },
      field: { type: 'string', description: 'the field at fault, where it is one field' },
    },
    required: ['ok', 'error', 'message'],
    additionalProperties: false,
  }
}

/**
 * A zod schema as JSON Schema. What zod cannot say of itself (a refinement, a transformed text) its `meta` says: keys
 * are added to what zod says, and a key `override` takes the place of all of it.
 */
function toSchema(schema: z.ZodType, io: 'input' | 'output', named: Record<string, JsonSchema>): JsonSchema {
  const { schema: described, named: parts } = describe(schema, io)
  for (const [name, part] of Object.entries(parts)) {
    const known = named[name]
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(part))
      throw new Error(`two schemas are named ${name}; give one of them another "id"`)
    named[name] = part
  }
  return described
}

function describe(schema: z.ZodType, io: 'input' | 'output'): Described {
  const {
    $schema: _dialect,
    $defs = {},
    ...rest
  } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    override({ jsonSchema }) {
      const json = jsonSchema as JsonSchema
      const { override } = json
      // Of an integer that is given out, the range of the type says nothing.
      if (io === 'output' && json['minimum'] === Number.MIN_SAFE_INTEGER) delete json['minimum']
      if (io === 'output' && json['maximum'] === Number.MAX_SAFE_INTEGER) delete json['maximum']
      if (override === undefined) return
      const { description } = json
      for (const key of Object.keys(json)) delete json[key]
      Object.assign(json, override, description === undefined ? {} : { description })
    },
  }) as JsonSchema & { $defs?: Record<string, JsonSchema> }
  return {
    schema: pointToComponents(rest),
    named: Object.fromEntries(Object.entries($defs).map(([name, part]) => [name.replace(UNNAMED, ANY_JSON), pointToComponents(part)])),
  }
}

/** What zod calls a schema that refers to itself and has no name: so far only that of any JSON value. */
const UNNAMED = /^__schema\d+$/
const ANY_JSON = 'JsonValue'

/** `#/$defs/X` → `#/components/schemas/X`; the name of a part needs no `id` inside it. */
function pointToComponents(schema: JsonSchema): JsonSchema {
  const { id: _id, ...rest } = JSON.parse(
    JSON.stringify(schema)
      .replaceAll(/"#\/\$defs\/__schema\d+"/g, `"#/components/schemas/${ANY_JSON}"`)
      .replaceAll('"#/$defs/', '"#/components/schemas/'),
  ) as JsonSchema
  return rest
}
