import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { pathsOf } from '../../api/http/mount.ts'
import { noView, type Route } from '../../api/http/route.ts'
import { describeApi } from '../../api/openapi/document.ts'
import { refusalsOf } from '../../api/openapi/route-refusals.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { ERRORS, statusOf, type ErrorCode } from '../../shared/platform/errors.ts'
import { FULL } from '../support/full.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

type JsonSchema = { [key: string]: unknown }

interface Response {
  description: string
  'x-codes'?: ErrorCode[]
  content: Record<string, { schema?: JsonSchema; example?: unknown }>
}

interface Operation {
  operationId: string
  summary: string
  description: string
  security?: object[]
  parameters?: { name: string; in: string; required: boolean; schema: JsonSchema }[]
  requestBody?: { required: boolean; content: { 'application/json': { schema: JsonSchema } } }
  responses: Record<string, Response>
}

/** Characters that one reader takes for a blank, a control or a letter and another does not. */
const EDGES = [
  '',
  '\0',
  '\t',
  '\n',
  '\u000b',
  '\u0085',
  '\u00a0',
  '\u00ad',
  '\u1680',
  '\u180e',
  '\u200b',
  '\u2000',
  '\u200a',
  '\u2028',
  '\u2029',
  '\u202f',
  '\u205f',
  '\u3000',
  '\ufeff',
  '\ue000',
  '\u{1f511}',
  ' a ',
  '\ufeffa\u3000',
]

let service: TestService
/** Those of the API; pages at the root stand beside it. */
let routes: readonly Route[]
let agent: TestAgent
interface OpenApi {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, JsonSchema>; responses: Record<string, Response> }
}

let written: string
/** With what an operation refers to (parameters, refusals, examples) in its place. */
let document: OpenApi
let operations: { path: string; method: string; operation: Operation }[]

beforeAll(async () => {
  service = await startService()
  agent = await service.registerWithPass()
  routes = service.routes.filter(({ onlyAtRoot }) => onlyAtRoot !== true)
  written = await (await fetch(`${service.url}/api/v1/openapi.json`)).text()
  document = resolveAll(JSON.parse(written) as OpenApi)
  operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
})
afterAll(() => service.stop())

function resolveAll(whole: OpenApi): OpenApi {
  const at = (reference: string): unknown =>
    reference
      .slice(2)
      .split('/')
      .reduce((part, key) => (part as Record<string, unknown>)[key], whole as unknown)
  const resolved = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map(resolved)
    const { $ref: reference } = value as { $ref?: string }
    if (typeof reference === 'string' && !reference.startsWith('#/components/schemas/'))
      return resolved(at(reference))
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, resolved(part)]))
  }
  return { ...whole, paths: resolved(whole.paths) as OpenApi['paths'] }
}

/** Every schema inside one, itself first. */
function* walk(schema: JsonSchema): Generator<JsonSchema> {
  yield schema
  for (const key of ['items', 'additionalProperties', 'not'])
    if (typeof schema[key] === 'object') yield* walk(schema[key] as JsonSchema)
  for (const key of ['anyOf', 'oneOf', 'allOf'])
    for (const part of (schema[key] as JsonSchema[] | undefined) ?? []) yield* walk(part)
  for (const part of Object.values((schema['properties'] as Record<string, JsonSchema> | undefined) ?? {}))
    yield* walk(part)
}

/** The schemas of an operation. */
function schemasOf({ operation }: { operation: Operation }): JsonSchema[] {
  return [
    ...(operation.parameters ?? []).map(({ schema }) => schema),
    ...(operation.requestBody === undefined
      ? []
      : [operation.requestBody.content['application/json'].schema]),
    ...Object.values(operation.responses).flatMap(({ content }) =>
      Object.values(content).flatMap(({ schema }) => (schema === undefined ? [] : [schema])),
    ),
  ]
}

describe('the OpenAPI document', () => {
  // holds: contract.change_policy.anything_that_removes_a_route_or, contract.retention.agents
  it('has every route once, says where else it answers, and nothing else', () => {
    const mounted = routes.map((route) => `${route.method} ${pathsOf(route)[0]}`)
    expect(operations.map(({ path, method }) => `${method} ${path}`).sort()).toEqual(mounted.sort())
    for (const route of routes) {
      const [path = '', alsoAt] = pathsOf(route)
      const { description } = document.paths[path]?.[route.method.toLowerCase()] as Operation
      expect(description.length).toBeGreaterThan(10)
      if (alsoAt !== undefined) expect(description).toContain(`\`${alsoAt}\``)
    }
  })

  it('is short enough to be read whole, less than 164 KiB, with each path once', () => {
    expect(Buffer.byteLength(written)).toBeLessThan(164 * 1024)
  })

  it('holds nothing that a generator of clients is known to fail at, and closes no answer to fields that are added', () => {
    expect(written).not.toContain('"const":true')
    expect(written).not.toContain('"const":false')
    expect(written).not.toContain('"additionalProperties":false')
    for (const { operation } of operations)
      for (const { schema } of Object.values(operation.responses).flatMap(({ content }) =>
        Object.values(content ?? {}),
      ))
        for (const part of schema === undefined ? [] : walk(schema)) expect(part['oneOf']).toBeUndefined()
    const parts = [...Object.values(document.components.schemas), ...operations.flatMap(schemasOf)].flatMap(
      (outer) => [...walk(outer)],
    )
    for (const { type, format, pattern } of parts) {
      if ([type].flat().includes('integer')) expect(format).toBe('int64')
      // What neither RE2 (Go) nor Python's re takes.
      if (typeof pattern === 'string') expect(pattern).not.toMatch(/\\u|\\p|\(\?[=!<]/)
    }
  })

  it('gives a field that takes two types a schema for each, since generators take a list of types for an error', () => {
    const lists = Object.values(document.components.schemas)
      .flatMap((root) => [...walk(root)])
      .filter(({ type }) => Array.isArray(type) && !type.includes('null'))
    expect(lists).toEqual([])
  })

  it('leaves out the pages that are no JSON, and gives a text no schema that a tool would read JSON by', () => {
    for (const path of ['/llms.txt', '/skill.md', '/changelog', '/robots.txt', '/sealed-box.md'])
      expect(Object.keys(document.paths)).not.toContain(path)
    const contents = operations.flatMap(({ operation }) =>
      Object.values(operation.responses).flatMap(({ content }) => Object.entries(content ?? {})),
    )
    const texts = contents.filter(([type]) => type.startsWith('text/'))
    expect(texts.length).toBeGreaterThan(0)
    for (const [type, content] of texts) expect([type, content]).toEqual([type, {}])
    for (const [type, { schema }] of contents)
      if (!type.startsWith('text/')) expect([type, typeof schema]).toEqual([type, 'object'])
  })

  it('has an example for every good answer, of the form that its route declares', () => {
    for (const route of routes) {
      if (route.view === noView) continue
      const { responses } = document.paths[pathsOf(route)[0] ?? '']?.[route.method.toLowerCase()] as Operation
      for (const status of route.statuses ?? [200]) {
        if (status === 304) continue
        const { example } = responses[String(status)]?.content['application/json'] ?? {}
        const problem = route.view.safeParse(example).error?.issues[0]
        expect([route.path, status, problem]).toEqual([route.path, status, undefined])
      }
    }
  })

  it('gives each operation an id of its own, a verb and a noun', () => {
    const ids = operations.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const id of ids)
      expect(id).toMatch(
        /^(list|get|read|create|update|register|rotate|check|submit|resolve|report|send|block|unblock|close|set|remove|deliver|accept|dispute)[A-Z][A-Za-z0-9]+$/,
      )
  })

  it('names for every status the codes that come with it', () => {
    const named = new Set<string>()
    for (const route of routes) {
      for (const path of pathsOf(route).slice(0, 1)) {
        const { responses } = document.paths[path]?.[route.method.toLowerCase()] as Operation
        const expected = refusalsOf(route)
        expect(Object.keys(responses).sort()).toEqual(
          [...(route.statuses ?? [200]), ...expected.keys()].map(String).sort(),
        )
        for (const [status, codes] of expected) {
          const { 'x-codes': told, content } = responses[String(status)] as Response
          expect(told).toEqual(codes)
          expect(content['application/json']?.schema).toEqual({ $ref: '#/components/schemas/Refusal' })
          for (const code of codes) {
            named.add(code)
            expect(statusOf(code)).toBe(status)
          }
        }
      }
    }
    const { error } = document.components.schemas['Refusal']?.['properties'] as {
      error: { description: string }
    }
    for (const [code, { meaning }] of Object.entries(ERRORS))
      expect(error.description).toContain(`\`${code}\`: ${meaning}`)
    expect(named.size).toBeGreaterThan(15)
  })

  // holds: contract.formats.at_and_at_are_unix_seconds
  it('writes times, amounts and dollars in each answer as /contract says', () => {
    const forms: [name: RegExp, isRight: (schema: JsonSchema) => boolean][] = [
      [/^(?:at|[a-z_]+_at)$/, ({ type }) => [type].flat().includes('integer')],
      [
        /^(?:until|[a-z_]+_until)$/,
        ({ type, format }) => [type].flat().includes('string') && format === 'date-time',
      ],
      [/^amount(?:_raw)?$/, ({ type }) => [type].flat().includes('string')],
      [/^(?:[a-z_]+_usd|[a-z_]*usd_per_day)$/, ({ type }) => [type].flat().includes('number')],
    ]
    const roots = [
      ...operations.flatMap(({ operation }) =>
        Object.values(operation.responses).flatMap(({ content }) =>
          Object.values(content).flatMap(({ schema }) => (schema === undefined ? [] : [schema])),
        ),
      ),
      ...Object.values(document.components.schemas),
    ]
    const [met, exceptions] = [new Set<RegExp>(), new Set<string>()]
    for (const schema of roots.flatMap((root) => [...walk(root)])) {
      const fields = (schema['properties'] ?? {}) as Record<string, JsonSchema>
      for (const [name, field] of Object.entries(fields))
        for (const [names, isRight] of forms) {
          if (!names.test(name)) continue
          met.add(names)
          const parts = ((field['anyOf'] ?? field['oneOf']) as JsonSchema[] | undefined) ?? [field]
          if (!parts.some(isRight)) exceptions.add('outage_from' in fields ? `${name} in extensions` : name)
        }
    }
    expect(met.size).toBe(forms.length)
    // Those that /contract names.
    expect([...exceptions].sort()).toEqual(['also_at', 'at', 'until in extensions'])
  })

  it('has no reference that leads nowhere and no schema that says nothing', () => {
    const { JsonValue: _anything, ...named } = document.components.schemas
    const schemas = [...Object.values(named), ...operations.flatMap(schemasOf)]
    for (const schema of schemas.flatMap((outer) => [...walk(outer)])) {
      const { $ref: reference } = schema
      if (typeof reference === 'string')
        expect(document.components.schemas).toHaveProperty(reference.replace('#/components/schemas/', ''))
      else
        expect(
          ['type', 'anyOf', 'allOf', 'enum', 'const'].some((key) => key in schema),
          JSON.stringify(schema),
        ).toBe(true)
    }
  })

  it('states the bounds that the validators hold', () => {
    let checked = 0
    for (const route of routes) {
      const operation = document.paths[pathsOf(route)[0] ?? '']?.[route.method.toLowerCase()] as Operation
      const described = {
        ...Object.fromEntries((operation.parameters ?? []).map(({ name, schema }) => [name, schema])),
        ...(operation.requestBody?.content['application/json'].schema['properties'] as object | undefined),
      } as Record<string, JsonSchema>
      const fields = { ...route.query?.shape, ...route.params?.shape, ...route.body?.shape } as Record<
        string,
        z.ZodType
      >
      expect(Object.keys(described).sort()).toEqual(Object.keys(fields).sort())
      for (const [name, schema] of Object.entries(described)) {
        for (const { value, accepted } of edgesOf(schema, route.method === 'GET')) {
          expect([route.path, name, value, fields[name]?.safeParse(value).success]).toEqual([
            route.path,
            name,
            value,
            accepted,
          ])
          checked++
        }
      }
    }
    expect(checked).toBeGreaterThan(60)
  })

  /** Values just inside and just outside what a schema says; those of a query are text. */
  function edgesOf(schema: JsonSchema, asText: boolean): { value: unknown; accepted: boolean }[] {
    const {
      type,
      minimum,
      maximum,
      minLength = 0,
      maxLength,
      pattern,
      maxItems,
    } = schema as {
      type?: string | string[]
      minimum?: number
      maximum?: number
      minLength?: number
      maxLength?: number
      pattern?: string
      maxItems?: number
    }
    const wire = (value: number) => (asText ? String(value) : value)
    if (type === 'integer' && minimum !== undefined && maximum !== undefined)
      return [
        [minimum, true],
        [maximum, true],
        [minimum - 1, false],
        [maximum + 1, false],
      ].map(([value, accepted]) => ({ value: wire(Number(value)), accepted: accepted === true }))
    if (type === 'array')
      return [
        { value: Array(Number(maxItems) + 1).fill('1'), accepted: false },
        { value: 'text', accepted: false },
      ]
    if (![type].flat().includes('string') || maxLength === undefined || pattern?.includes('{0,')) return []
    const rest = asText
      ? []
      : [
          { value: 7, accepted: false },
          { value: { $ne: 1 }, accepted: false },
          { value: null, accepted: Array.isArray(type) },
        ]
    const [, prefix = ''] = /^\^([a-z]+_)/.exec(pattern ?? '') ?? []
    return [
      { value: prefix.padEnd(maxLength, 'a'), accepted: true },
      { value: prefix.padEnd(maxLength + 1, 'a'), accepted: false },
      { value: 'a'.repeat(Math.max(0, minLength - 1)), accepted: minLength === 0 },
      ...(pattern === undefined ? [] : [{ value: 'a\0', accepted: false }]),
      ...rest,
    ]
  }

  it('takes and refuses the same texts as the validators', () => {
    let checked = 0
    for (const route of routes) {
      const operation = document.paths[pathsOf(route)[0] ?? '']?.[route.method.toLowerCase()] as Operation
      const described = {
        ...Object.fromEntries((operation.parameters ?? []).map(({ name, schema }) => [name, schema])),
        ...(operation.requestBody?.content['application/json'].schema['properties'] as object | undefined),
      } as Record<string, JsonSchema>
      const fields = { ...route.query?.shape, ...route.params?.shape, ...route.body?.shape } as Record<
        string,
        z.ZodType
      >
      for (const [
        name,
        { type, pattern, minLength = 0, maxLength = Infinity, enum: words },
      ] of Object.entries(described)) {
        // Of `after` the form is checked by looking it up: whatever is no message's id is refused.
        // Of a handle and a key the description says what no regular expression of everyone's does.
        if (type !== 'string' || name === 'after' || name === 'handle' || name === 'dm_key') continue
        const form = new RegExp(typeof pattern === 'string' ? pattern : '', 'u')
        const fits = (text: string) =>
          form.test(text) &&
          [...text].length >= Number(minLength) &&
          [...text].length <= Number(maxLength) &&
          (words === undefined || (words as string[]).includes(text))
        const texts = fc.oneof(
          fc.string({ unit: 'grapheme' }),
          fc.string({ unit: 'binary' }),
          fc.string({
            unit: fc.constantFrom(
              '\0',
              '\n',
              '\u0085',
              '\u00a0',
              '\u200b',
              '\u2028',
              '\ufeff',
              ' ',
              'a',
              '\u00e9',
              '\ud83d\udd11',
            ),
          }),
          fc.string({ unit: fc.constantFrom(...'0123456789abcdef_-'), maxLength: 70 }),
        )
        fc.assert(
          fc.property(texts, (text) => {
            expect([route.path, name, text, fields[name]?.safeParse(text).success]).toEqual([
              route.path,
              name,
              text,
              fits(text),
            ])
          }),
          { numRuns: FULL ? 60 : 15, examples: EDGES.map((text): [string] => [text]) },
        )
        checked++
      }
    }
    expect(checked).toBeGreaterThan(20)
  })

  // holds: contract.errors.every_rejection_carries_error_a_machine
  // holds: contract.formats.every_response_is_a_json_object
  // holds: contract.guarantees.every_rejection_carries_a_machine_readable
  it('names every refusal that a route can be brought to', async () => {
    const [poor, banned] = [await service.register(), await service.register()]
    await setBanned(service.ctx, banned.id, true)
    const seen = new Set<string>()
    const tooLong = `{"x":"${'x'.repeat(600_000)}"}`
    for (const route of routes) {
      const path = pathsOf(route)[0] ?? ''
      const { responses } = document.paths[path]?.[route.method.toLowerCase()] as Operation
      // A rotation that goes through ends the token that it came with.
      const caller = route.path === '/token/rotate' ? await service.register() : agent
      const token = { Authorization: `Bearer ${caller.token}` }
      const json = { ...token, 'Content-Type': 'application/json' }
      const none = path.replace(/\{\w+\}/, 'none')
      const asks: [path: string, init: RequestInit][] = [
        [none, {}],
        [none, { headers: { Authorization: 'Bearer sk_' } }],
        ...(caller === agent
          ? ([[none, { headers: { Authorization: `Bearer ${poor.token}` } }]] satisfies [
              string,
              RequestInit,
            ][])
          : []),
        [none, { headers: { Authorization: `Bearer ${banned.token}` } }],
        [`${none}?limit=0&after=none&seq=x`, { headers: token }],
        [path.replace(/\{\w+\}/, '%00'), { headers: token }],
        ...(route.method === 'GET'
          ? []
          : ([
              [none, { headers: json, body: '{' }],
              [none, { headers: json, body: '[]' }],
              [none, { headers: json, body: '{}' }],
              [none, { headers: { ...token, 'Content-Type': 'text/plain' }, body: '{}' }],
              ...(FULL || route.path === '/post'
                ? ([[none, { headers: json, body: tooLong }]] satisfies [string, RequestInit][])
                : []),
            ] satisfies [string, RequestInit][])),
      ]
      for (const [place, init] of asks) {
        const answer = await fetch(`${service.url}${place}`, { method: route.method, ...init })
        if (answer.ok) continue
        const { error } = (await answer.json()) as { error: string }
        const codes = responses[String(answer.status)]?.['x-codes'] ?? []
        expect([
          route.method,
          path,
          codes.includes(error as ErrorCode) ? '' : `${answer.status} ${error} is not documented`,
        ]).toEqual([route.method, path, ''])
        seen.add(error)
      }
    }
    for (const code of [
      'missing_token',
      'invalid_token',
      'pass_required',
      'banned',
      'invalid_json',
      'invalid_field',
      'missing_field',
      'unsupported_media_type',
      'body_too_large',
    ])
      expect(seen).toContain(code)
  })

  it('has request examples that the service takes', () => {
    let checked = 0
    for (const route of routes) {
      const properties = (document.paths[pathsOf(route)[0] ?? '']?.[route.method.toLowerCase()]?.requestBody
        ?.content['application/json'].schema['properties'] ?? {}) as Record<string, JsonSchema>
      for (const [name, { examples }] of Object.entries(properties)) {
        for (const example of (examples as unknown[] | undefined) ?? []) {
          expect([
            route.path,
            name,
            (route.body?.shape[name] as z.ZodType).safeParse(example).success,
          ]).toEqual([route.path, name, true])
          checked++
        }
      }
    }
    expect(checked).toBeGreaterThan(5)
  })

  it('is the same whoever makes it', () => {
    expect(JSON.stringify(describeApi(service.routes, service.ctx.config.baseUrl))).toEqual(written)
  })
})

describe('any JSON as a body', () => {
  it('gives a good answer or a code of the table, on every POST route', async () => {
    const posts = service.routes.filter(({ method }) => method === 'POST')
    const known = posts.flatMap(({ body }) => Object.keys(body?.shape ?? {}))
    const awkward = fc.constantFrom<unknown>(
      { $ne: 1 },
      { $gt: '' },
      '\0',
      '\ud800',
      1e308,
      -0,
      '__proto__',
      'constructor',
      [],
      [[]],
      {},
      null,
      true,
      agent.id,
      'a'.repeat(70_000),
    )
    const value = fc.oneof(fc.jsonValue(), awkward)
    const body = fc.oneof(
      { weight: 1, arbitrary: value },
      {
        weight: 3,
        arbitrary: fc.dictionary(fc.constantFrom(...known, '$where', '__proto__', 'unknown'), value),
      },
    )
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...posts), body, async (route, json) => {
        // A rotation that goes through would end the token of every call after it.
        const token = route.path === '/token/rotate' ? (await service.register()).token : agent.token
        const { status, json: answer } = await service.call('POST', route.path, {
          token,
          rawBody: JSON.stringify(json) ?? 'null',
        })
        if (status < 300) expect(answer.ok).toBe(true)
        else expect(statusOf(answer.error as ErrorCode)).toBe(status)
        expect(status).not.toBe(500)
      }),
      { numRuns: FULL ? 300 : 100 },
    )
  })
})
