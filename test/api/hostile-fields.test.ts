import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../shared/platform/errors.ts'
import { FULL } from '../support/full.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'
import { countStored } from '../support/stored.ts'

/** Each is sent to one field in so many, and so each field gets some of them; all to all with full counts. */
const SPREAD = FULL ? 1 : 3

let service: TestService
let agent: TestAgent
let document: OpenApi

interface Schema {
  properties?: Record<string, unknown>
  $ref?: string
}
interface OpenApi {
  paths: Record<
    string,
    Record<
      string,
      {
        requestBody?: { content: Record<string, { schema: Schema }> }
        parameters?: { in: string; name: string }[]
      }
    >
  >
  components?: { schemas?: Record<string, Schema> }
}

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  agent = await service.registerWithPass()
  document = (await service.call('GET', '/openapi.json')).json as unknown as OpenApi
})
afterAll(() => service.stop())

interface Field {
  path: string
  field: string
  /** Its schema as text. */
  schema: string
}

/** Every field of every POST route, as the OpenAPI document has it. */
function listFields(): Field[] {
  return Object.entries(document.paths).flatMap(([path, methods]) => {
    const schema = methods['post']?.requestBody?.content['application/json']?.schema
    if (schema === undefined) return []
    const resolved =
      schema.$ref === undefined ? schema : document.components?.schemas?.[schema.$ref.split('/').at(-1) ?? '']
    return Object.entries(resolved?.properties ?? {}).map(([field, own]) => ({
      path,
      field,
      schema: JSON.stringify(own),
    }))
  })
}

/** Of a field that takes neither, test/api/bad-input.test.ts shows that every object and list is refused. */
const takesObjectOrList = ({ schema }: Field): boolean =>
  !/^\{"type":"(string|integer|number|boolean)"/.test(schema)
/** A text of a form of its own, such as an id, can't be any of these. */
const takesAnyText = ({ schema }: Field): boolean => !/"(pattern|enum|const|format)":/.test(schema)

/** What a query would take for an operator, and what an object's prototype could be reached by. */
const OPERATORS = [
  ...[
    '{"$ne":1}',
    '{"$gt":""}',
    '{"$regex":".*"}',
    '{"$where":"sleep(5000)"}',
    '{"$exists":true}',
    '{"$in":["a"]}',
    '{"$expr":{"$eq":[1,1]}}',
  ],
  ...[
    '{"$function":{"body":"function(){}","args":[],"lang":"js"}}',
    '{"$set":{"banned_at":null}}',
    '[{"$ne":1}]',
    '[["$ne",1]]',
    '{"$oid":"000000000000000000000000"}',
  ],
  ...[
    '{"__proto__":{"polluted":true}}',
    '{"constructor":{"prototype":{"polluted":true}}}',
    '{"toString":"x"}',
    '{"length":1}',
    '{"_bsontype":"ObjectId","id":"x"}',
    '{"_bsontype":"Code","code":"1"}',
  ],
]
/** Texts that mean something to some reader, and nothing to this service. */
const TEXTS = [
  '$ne',
  '{"$ne":1}',
  "' || '1'=='1",
  '__proto__',
  'constructor',
  '${7*7}',
  '{{7*7}}',
  '<script>alert(1)</script>',
  '../../etc/passwd',
  '%00',
  '\r\nX-Injected: 1',
  '$where',
  '.',
  'a.b.$[]',
]

const some = <T>(all: readonly T[], nth: number): T[] =>
  all.filter((_, place) => (place + nth) % SPREAD === 0)
const at = (path: string): string => (path.startsWith('/api/v1') ? path.slice('/api/v1'.length) : `/${path}`)

describe('every field of every POST route', () => {
  it('is known: the document names them', () => {
    const fields = listFields()
    expect(fields.length).toBeGreaterThan(25)
    expect(new Set(fields.map(({ path }) => path)).size).toBeGreaterThan(8)
  })

  it('that takes an object or a list takes no operator and no prototype: a 400, and nothing is stored or changed', async () => {
    const before = await countStored(service.ctx.database.connection)
    const prototype = Object.getOwnPropertyNames(Object.prototype)
    const fields = listFields().filter(takesObjectOrList)
    expect(fields.length).toBeGreaterThan(3)
    for (const [nth, { path, field }] of fields.entries())
      for (const json of some(OPERATORS, nth)) {
        const { status, json: answer } = await service.call('POST', at(path), {
          token: agent.token,
          rawBody: `{${JSON.stringify(field)}:${json}}`,
        })
        expect(status, `${path} ${field} ${json}: ${JSON.stringify(answer)}`).toBe(400)
        // Another field may be missed first; this one was not taken in its place.
        expect(['invalid_field', 'missing_field'], `${path} ${field} ${json}`).toContain(answer.error)
      }
    expect(await countStored(service.ctx.database.connection)).toEqual(before)
    expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(prototype)
    expect(service.logged()).not.toContain('a request ended in a defect')
  }, 180_000)

  it('takes a text that means something elsewhere for a text, or refuses it by name, and answers by the table', async () => {
    const fields = listFields().filter(takesAnyText)
    expect(fields.length).toBeGreaterThan(15)
    for (const [nth, { path, field }] of fields.entries())
      for (const text of some(TEXTS, nth)) {
        const { status, json, headers } = await service.call('POST', at(path), {
          token: agent.token,
          body: { [field]: text },
        })
        expect(status, `${path} ${field} ${text}: ${JSON.stringify(json)}`).toBeLessThan(500)
        if (json.error !== undefined) expect(Object.keys(ERRORS)).toContain(json.error)
        expect(headers.get('x-injected')).toBeNull()
      }
    expect(service.logged()).not.toContain('a request ended in a defect')
  }, 180_000)
})

describe('every parameter of every GET route', () => {
  it('takes no operator: a query, a path, brackets and repeated keys are answered by the table', async () => {
    const properties = Object.getOwnPropertyNames(Object.prototype)
    for (const [nth, [path, methods]] of Object.entries(document.paths).entries()) {
      if (methods['get'] === undefined) continue
      const queries = (methods['get'].parameters ?? [])
        .filter(({ in: where }) => where === 'query')
        .map(({ name }) => name)
      const concrete = (value: string) => at(path).replace(/\{\w+\}/g, encodeURIComponent(value))
      const targets = new Set([
        ...some(TEXTS, nth).map(concrete),
        ...[...queries, 'unknown'].flatMap((name) => [
          `${concrete('a')}?${name}[$ne]=1`,
          `${concrete('a')}?${name}[]=1&${name}[]=2`,
          `${concrete('a')}?${name}=1&${name}=2`,
          `${concrete('a')}?${name}=${encodeURIComponent('{"$ne":1}')}`,
          `${concrete('a')}?${name}[__proto__][polluted]=1`,
          `${concrete('a')}?__proto__[polluted]=1&constructor[prototype][polluted]=1`,
        ]),
      ])
      for (const target of targets) {
        const { status, json } = await service.call('GET', target, { token: agent.token })
        expect(status, `${target}: ${JSON.stringify(json).slice(0, 200)}`).toBeLessThan(500)
        if (json.error !== undefined) expect(Object.keys(ERRORS), target).toContain(json.error)
      }
    }
    expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(properties)
    expect(service.logged()).not.toContain('a request ended in a defect')
  }, 180_000)
})
