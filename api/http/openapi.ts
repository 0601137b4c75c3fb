import { hash } from 'node:crypto'
import { z } from 'zod'
import { ERRORS, statusOf, type ErrorCode } from '../../shared/platform/errors.ts'
import { PROTOCOL_VERSION, SERVICE_VERSION, TOKEN_PATTERN } from '../../shared/platform/limits.ts'
import {
  describeSchema,
  exampleOf,
  shareBases,
  mergeForms,
  resolveReference,
  toOpenApiSchema,
  type JsonSchema,
  type ObjectSchema,
} from './json-schema.ts'
import { pathsOf } from './mount.ts'
import { noView, type Access, type Route } from './route.ts'

/**
 * Returns the OpenAPI 3.1 document, made of the mounted routes and the schemas that check them. Bodies and
 * answers may have further fields. For the sake of code generators it has each path once, no constant
 * booleans, 64-bit integers, and one object with optional fields for an answer of several forms.
 *
 * Its version ends with a hash of its paths and components: it changes if and only if they do.
 *
 * Source: OpenAPI 3.1.1; its schemas are JSON Schema 2020-12.
 */
export function describeApi(routes: readonly Route[], baseUrl: string): JsonSchema {
  const paths: Record<string, Record<string, Operation>> = {}
  const shared: Shared = {
    named: {},
    parameters: {},
    answers: new Map(),
  }
  // Pages at the root are documents beside the API.
  for (const route of routes.filter(({ onlyAtRoot }) => onlyAtRoot !== true)) {
    const [path = route.path] = pathsOf(route)
    const item = (paths[path] ??= {})
    item[route.method.toLowerCase()] = describeOperation(route, shared)
  }
  const responses = shareResponses(Object.values(paths).flatMap((item) => Object.values(item)))
  const components = {
    schemas: { ...shareBases(shared.named), Refusal: REFUSAL },
    parameters: shared.parameters,
    responses,
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
    // The default; see SECURITY.
    security: [{ bearer: [] }],
    paths,
    components,
  }
}

const INFO = [
  'Fields may be added to any answer: take no notice of those that you do not know.',
  '201 says that a record was created, 202 that what was sent is stored and the workers have not answered yet.',
  'Every response is a JSON object with `ok`; a refusal has `error`, `message` and, if one field is at fault, `field`.',
  'A field of a request body that is not defined here is dropped, a query parameter is refused. If a bound of a text is in bytes of UTF-8 its description says so; `maxLength` counts characters and is then the same number.',
  'If an operation can answer 304, name the `ETag` of its last answer in `If-None-Match`.',
  'Any path answers HEAD where it answers GET, 405 `method_not_allowed` with `Allow` to a method it does not take, and an unknown path 404 `no_such_route`.',
  'A slash at the end of a path makes no difference.',
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
    first: ['challenge', 'register', 'token', 'profile', 'agent', 'directory', 'events'],
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

/** Returns the tag of a route, by the first word of its path; `about` if no tag has that word. */
function tagOf(route: Route): string {
  const firstWord = route.path.split('/')[1] ?? ''
  return TAGS.find((tag) => (tag.first as readonly string[]).includes(firstWord))?.name ?? 'about'
}

/** What is collected for `components` while the routes are described. */
interface Shared {
  /** Schemas by name. */
  named: Record<string, JsonSchema>
  /** The name of each answer's schema, by the schema as JSON. */
  answers: Map<string, string>
  /** By key: the first parameter that was described under it. */
  parameters: Record<string, object>
}

interface Operation {
  operationId: string
  responses: Record<string, Response>
  [part: string]: unknown
}

interface Response {
  'x-codes'?: readonly ErrorCode[]
  [part: string]: unknown
}

/** Describes a route; its named schemas, parameters and answers are added to `shared`. */
function describeOperation(route: Route, shared: Shared): Operation {
  const { named } = shared
  return {
    operationId: operationOf(route),
    tags: [tagOf(route)],
    summary: route.summary,
    description: writeDescription(route),
    ...SECURITY[route.access],
    ...describeParameters(route, shared),
    ...(route.body === undefined ? {} : { requestBody: describeBody(route.body, named) }),
    responses: { ...describeAnswers(route, shared), ...describeRefusals(route) },
  }
}

/** @throws TypeError if the route has no operation */
function operationOf({ path, operation }: Route): string {
  if (operation === undefined) throw new TypeError(`the route ${path} needs an operation`)
  return operation
}

/** Returns sentences: the route's description, what its caller needs, and its other path, if it has one. */
function writeDescription(route: Route): string {
  const [, alsoAt] = pathsOf(route)
  const sentences = [NEEDS[route.access]]
  if (route.description !== undefined) sentences.unshift(route.description)
  if (alsoAt !== undefined) sentences.push(`Answers at \`${alsoAt}\` too.`)
  return sentences.join(' ')
}

const NEEDS: Record<Access, string> = {
  open: 'Needs no token.',
  optional: 'Needs no token, and takes notice of one.',
  token: 'Needs a token.',
  fresh: 'Needs a token.',
  pass: 'Needs a token and an active pass.',
}

const SECURITY: Record<Access, { security?: readonly object[] }> = {
  open: { security: [] },
  optional: { security: [{}, { bearer: [] }] },
  token: {},
  fresh: {},
  pass: {},
}

/**
 * Describes a route's parameters as references to `shared.parameters`, or in place if another route has a
 * different parameter under the same key. No field if the route has none.
 */
function describeParameters(route: Route, shared: Shared): { parameters?: unknown[] } {
  const { named, parameters: sharedParameters } = shared
  const parameters = [
    ...parametersOf('path', route.params, named),
    ...parametersOf('query', route.query, named),
  ]
  if (parameters.length === 0) return {}
  return {
    parameters: parameters.map(({ key, described }) => {
      sharedParameters[key] ??= described
      const isShared = JSON.stringify(sharedParameters[key]) === JSON.stringify(described)
      return isShared ? { $ref: `#/components/parameters/${key}` } : described
    }),
  }
}

/** Describes the fields of a path or a query, each with the key under which it may be shared. */
function parametersOf(
  place: 'path' | 'query',
  fields: z.ZodObject | undefined,
  named: Record<string, JsonSchema>,
): { key: string; described: object }[] {
  if (fields === undefined) return []
  const { properties, required = [] } = toOpenApiSchema(fields, 'input', named) as {
    properties: Record<string, JsonSchema>
    required?: string[]
  }
  return Object.entries(properties).map(([name, { description, ...schema }]) => {
    const described = {
      name,
      in: place,
      ...(place === 'path' || required.includes(name) ? { required: true } : {}),
      ...(description === undefined ? {} : { description }),
      schema,
    }
    // The id's prefix goes into the key: `before`, for example, is another kind of id in each list.
    const [, prefix] =
      / begins with (\w+)_/.exec(String(description)) ?? /id of an? (\w+)/.exec(String(description)) ?? []
    return { key: [place, name, ...(prefix === undefined ? [] : [prefix])].join('-'), described }
  })
}

function describeBody(body: z.ZodObject, named: Record<string, JsonSchema>): object {
  const schema = toOpenApiSchema(body, 'input', named)
  return { required: Array.isArray(schema['required']), content: { 'application/json': { schema } } }
}

/** Describes a route's good answers, by status. */
function describeAnswers(route: Route, shared: Shared): Record<string, Response> {
  const content: Record<string, unknown> = {}
  if (route.view !== noView) content['application/json'] = describeAnswer(route, shared)
  // A text has no schema: tools would take an answer with one for JSON.
  for (const [type, schema] of Object.entries(route.documents ?? {}))
    content[type] = type.startsWith('text/') ? {} : { schema }
  return Object.fromEntries(
    (route.statuses ?? [200]).map((status) => [
      String(status),
      status === 304 ? NOT_MODIFIED : { description: 'Done', content },
    ]),
  )
}

/**
 * Describes a route's answer: a reference to its schema, which is named after the first route with that
 * answer, and an example.
 */
function describeAnswer(route: Route, { named, answers }: Shared): object {
  const schema = withOk(route.view, named)
  const schemaJson = JSON.stringify(schema)
  const operation = operationOf(route)
  const name = answers.get(schemaJson) ?? `${operation.charAt(0).toUpperCase()}${operation.slice(1)}Answer`
  answers.set(schemaJson, name)
  named[name] = schema
  const firstForm = route.view instanceof z.ZodUnion ? (route.view.options[0] ?? route.view) : route.view
  const described = describeSchema(firstForm, 'output')
  return {
    schema: { $ref: `#/components/schemas/${name}` },
    example: { ok: true, ...(exampleOf(described.schema, described.named) as object) },
  }
}

/**
 * Replaces, in the operations, each response that several of them have by a reference.
 *
 * @returns these responses, by name
 */
function shareResponses(operations: readonly Operation[]): Record<string, object> {
  const usesByJson = new Map<string, { response: Response; operation: Operation; status: string }[]>()
  for (const operation of operations)
    for (const [status, response] of Object.entries(operation.responses)) {
      const json = JSON.stringify(response)
      usesByJson.set(json, [...(usesByJson.get(json) ?? []), { response, operation, status }])
    }
  const shared: Record<string, Response> = {}
  for (const uses of usesByJson.values()) {
    const [first] = uses
    if (first === undefined || uses.length === 1) continue
    const { response, operation, status } = first
    const name = nameOfResponse(response, operation, status, shared)
    shared[name] = response
    for (const use of uses) use.operation.responses[use.status] = { $ref: `#/components/responses/${name}` }
  }
  return shared
}

/**
 * Returns a name for a shared response: a refusal's kind, with a number if that is taken, or the first
 * operation that has it, with the status.
 */
function nameOfResponse(
  { 'x-codes': [code] = [] }: Response,
  { operationId }: Operation,
  status: string,
  taken: object,
): string {
  if (status === '304') return 'unchanged'
  if (code === undefined) return `${operationId}-${status}`
  const { kind } = ERRORS[code]
  const takenOfKind = Object.keys(taken).filter((name) => name.startsWith(kind)).length
  return takenOfKind === 0 ? kind : `${kind}_${takenOfKind + 1}`
}

const NOT_MODIFIED = {
  description: 'Nothing has changed since the answer whose `ETag` stands in `If-None-Match`',
  headers: { ETag: { required: true, schema: { type: 'string' } } },
  content: {},
}

/**
 * Returns the schema of an answer: the view's fields and `ok`, as one object also if the view has several
 * forms.
 */
function withOk(view: Route['view'], named: Record<string, JsonSchema>): JsonSchema {
  const forms = view instanceof z.ZodUnion ? view.options : [view]
  const {
    properties,
    required = [],
    ...rest
  } = mergeForms(
    forms.map((form) => resolveReference(toOpenApiSchema(form, 'output', named), named) as ObjectSchema),
  )
  return { ...rest, properties: { ok: OK, ...properties }, required: ['ok', ...required] }
}

const OK = { type: 'boolean' }

/**
 * Returns every refusal that a route can give, by status, ascending: those of its access, of its parsing,
 * those that it declares, `internal`, and `unavailable` if it needs the database.
 */
export function refusalsOf(route: Route): Map<number, ErrorCode[]> {
  const codes = new Set<ErrorCode>([
    ...ACCESS_REFUSALS[route.access],
    ...(route.method === 'POST' ? BODY_REFUSALS : []),
    ...parsingRefusals(route),
    ...(route.errors ?? []),
    'internal',
  ])
  if (route.needsDatabase !== false) codes.add('unavailable')
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of codes) byStatus.set(statusOf(code), [...(byStatus.get(statusOf(code)) ?? []), code])
  return new Map([...byStatus].sort(([a], [b]) => a - b))
}

const ACCESS_REFUSALS: Record<Access, readonly ErrorCode[]> = {
  open: [],
  optional: ['invalid_token', 'banned'],
  token: ['missing_token', 'invalid_token', 'banned'],
  fresh: ['missing_token', 'invalid_token', 'banned'],
  pass: ['missing_token', 'invalid_token', 'banned', 'pass_required'],
}
const BODY_REFUSALS: readonly ErrorCode[] = ['body_too_large', 'unsupported_media_type']

/** Returns the refusals that parsing a request of this route can give, except `invalid_field`. */
function parsingRefusals(route: Route): ErrorCode[] {
  const hasRequiredField = [route.body, route.query].some(
    (fields) =>
      fields !== undefined &&
      Object.values(fields.shape).some((field) => !(field as z.ZodType).safeParse(undefined).success),
  )
  const codes: ErrorCode[] = []
  if (route.body !== undefined) codes.push('invalid_json')
  if (hasRequiredField) codes.push('missing_field')
  // A parameter that is empty or has a slash makes it another path.
  if (route.params !== undefined) codes.push('no_such_route')
  return codes
}

/** Describes the refusals of a route, by status. */
function describeRefusals(route: Route): Record<string, Response> {
  return Object.fromEntries(
    [...refusalsOf(route)].map(([status, codes]) => [String(status), describeRefusal(status, codes)]),
  )
}

/** Describes the answer of a status with which a route refuses, by one of these codes. */
function describeRefusal(status: number, codes: readonly ErrorCode[]): Response {
  return {
    description: codes.map((code) => `\`${code}\``).join(', '),
    'x-codes': codes,
    ...(HEADERS[status] === undefined ? {} : { headers: HEADERS[status] }),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } },
  }
}

const RETRY_AFTER = {
  'Retry-After': {
    required: true,
    description: 'seconds after which it is worth asking again',
    schema: { type: 'integer', format: 'int64', minimum: 1 },
  },
}
const HEADERS: Record<number, object> = {
  401: { 'WWW-Authenticate': { required: true, schema: { type: 'string', const: 'Bearer' } } },
  429: RETRY_AFTER,
  503: RETRY_AFTER,
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
