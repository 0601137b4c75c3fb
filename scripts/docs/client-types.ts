/**
 * Writes the wire types of both clients from the OpenAPI document that the service serves: `client/wire.ts`
 * and the TypedDicts of `client/python`. An answer's type has no `ok`: the clients add it.
 *
 * openapi-typescript could write the first, but it needs the JavaScript API of TypeScript 5, and its types take
 * the client's package beyond 100 KiB.
 */
import { writeFileSync } from 'node:fs'
import * as prettier from 'prettier'
import { fileURLToPath } from 'node:url'
import { createApp } from '../../api/app.ts'
import { describeApi } from '../../api/openapi/document.ts'
import { openContext } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'

interface Schema {
  $ref?: string
  type?: string | string[]
  description?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  allOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema | boolean
}

export interface Document {
  components: { schemas: Record<string, Schema> }
  paths: Record<string, Record<string, Operation>>
}

interface Operation {
  operationId: string
  requestBody?: { content: { 'application/json': { schema: Schema } } }
}

/**
 * Every type to be declared, with its name: the document's own, and as `…Body` the body of each operation.
 */
function namedSchemas({ components, paths }: Document): [name: string, schema: Schema][] {
  const named: [string, Schema][] = []
  for (const [name, schema] of Object.entries(components.schemas))
    // Both files declare JsonValue by hand.
    if (name !== 'JsonValue') named.push([name, withoutOk(name, schema)])
  for (const operation of Object.values(paths).flatMap((item) => Object.values(item))) {
    const schema = operation.requestBody?.content['application/json'].schema
    if (schema !== undefined) named.push([`${capitalize(operation.operationId)}Body`, schema])
  }
  return named
}

/** The schema without the field `ok` if it is an answer's, else as it is. */
function withoutOk(name: string, schema: Schema): Schema {
  if (!name.endsWith('Answer')) return schema
  if (schema.properties === undefined) return schema
  const { ok: _ok, ...properties } = schema.properties
  return { ...schema, properties, required: schema.required?.filter((field) => field !== 'ok') ?? [] }
}

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
/** `#/components/schemas/NAME` → NAME. */
const nameIn = (ref: string): string => ref.split('/').at(-1) ?? ref
const NOTE = 'Generated from GET /openapi.json by "npm run docs": change the service\'s schemas instead.'

/** The text of client/wire.ts. */
export async function toTypeScript(document: Document): Promise<string> {
  const types = namedSchemas(document).map(
    ([name, schema]) => `export type ${name} = ${typeOf(schema, name.endsWith('Body'))}`,
  )
  const text = `// ${NOTE}

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [name: string]: JsonValue }
${types.join('\n')}
`
  const file = fileURLToPath(new URL('../../client/wire.ts', import.meta.url))
  return prettier.format(text, { ...(await prettier.resolveConfig(file)), filepath: file })
}

/** A schema as a TypeScript type. @param isBody whether optional fields may be undefined, too */
function typeOf(schema: Schema, isBody: boolean): string {
  const inner = (part: Schema): string => typeOf(part, isBody)
  if (schema.$ref !== undefined) return nameIn(schema.$ref)
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (schema.anyOf !== undefined && schema.properties === undefined)
    return schema.anyOf.map(inner).join(' | ')
  if (schema.allOf !== undefined) return schema.allOf.map(inner).join(' & ')
  if (Array.isArray(schema.type)) return schema.type.map((type) => inner({ ...schema, type })).join(' | ')
  if (schema.type === 'array') return `(${inner(schema.items ?? {})})[]`
  if (schema.type === 'object') return objectOf(schema, isBody)
  return schema.type === 'integer' ? 'number' : (schema.type ?? 'JsonValue')
}

/** An object's schema as a TypeScript type; a Record if it names no properties. */
function objectOf(
  { properties, required = [], additionalProperties: others }: Schema,
  isBody: boolean,
): string {
  if (properties === undefined)
    return `Record<string, ${typeof others === 'object' ? typeOf(others, isBody) : 'JsonValue'}>`
  const fields = Object.entries(properties).map(([name, schema]) => {
    const note =
      schema.description === undefined ? '' : `/** ${schema.description.replaceAll('*/', '*')} */\n  `
    const isOptional = !required.includes(name)
    return `  ${note}${name}${isOptional ? '?' : ''}: ${typeOf(schema, isBody)}${isOptional && isBody ? ' | undefined' : ''}`
  })
  return `{\n${fields.join('\n')}\n}`
}

/** The text of client/python/agent_network/wire.py. */
export function toPython(document: Document): string {
  const classes: string[] = []
  // A class must come after those that it extends.
  const named = namedSchemas(document)
  const extended = new Set(named.flatMap(([, { allOf = [] }]) => allOf.map(({ $ref = '' }) => nameIn($ref))))
  const rank = ([name, { allOf }]: [string, Schema]): number => {
    if (allOf === undefined) return 0
    return extended.has(name) ? 1 : 2
  }
  for (const [name, schema] of named.toSorted((a, b) => rank(a) - rank(b))) declare(name, schema, classes)
  return `# ${NOTE}
from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict, Union

JsonValue = Any
${classes.join('')}`
}

/**
 * Adds the Python declaration of a type to `classes`, after those that it depends on.
 *
 * @returns `name`, for annotations
 */
function declare(name: string, schema: Schema, classes: string[]): string {
  if (schema.allOf !== undefined) {
    const bases = schema.allOf.map((part, index) =>
      part.$ref === undefined ? declare(`_${name}${index}`, part, classes) : nameIn(part.$ref),
    )
    classes.push(`\n\nclass ${name}(${bases.join(', ')}):\n    pass\n`)
    return name
  }
  const { properties, required = [] } = schema
  if (properties === undefined) {
    classes.push(`\n\n${name} = ${annotate(name, schema, classes)}\n`)
    return name
  }
  const fields = Object.entries(properties).map(([field, fieldSchema]) => ({
    field,
    type: annotate(`${name}${field.split('_').map(capitalize).join('')}`, fieldSchema, classes),
    isRequired: required.includes(field),
  }))
  const needed = fields.filter(({ isRequired }) => isRequired)
  const optional = fields.filter(({ isRequired }) => !isRequired)
  // A field named like a keyword needs TypedDict's functional form.
  if (fields.some(({ field }) => PYTHON_KEYWORDS.has(field))) {
    const items = fields.map(({ field, type }) => `"${field}": ${JSON.stringify(type)}`)
    classes.push(
      `\n\n${name} = TypedDict("${name}", {${items.join(', ')}}, total=${optional.length === 0 ? 'True' : 'False'})\n`,
    )
    return name
  }
  const body = (list: typeof fields): string =>
    list.length === 0 ? '    pass\n' : list.map(({ field, type }) => `    ${field}: ${type}\n`).join('')
  if (optional.length === 0) classes.push(`\n\nclass ${name}(TypedDict):\n${body(needed)}`)
  else if (needed.length === 0) classes.push(`\n\nclass ${name}(TypedDict, total=False):\n${body(optional)}`)
  else
    classes.push(
      `\n\nclass _${name}(TypedDict):\n${body(needed)}\n\nclass ${name}(_${name}, total=False):\n${body(optional)}`,
    )
  return name
}

const PYTHON_KEYWORDS = new Set(['from', 'pass', 'class', 'in', 'is', 'not'])

const PYTHON_TYPES: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'float',
  boolean: 'bool',
  null: 'None',
}

/**
 * A schema as a Python annotation. An object in it becomes a class.
 *
 * @param name of that class
 * @param classes gets the class's declaration
 */
function annotate(name: string, schema: Schema, classes: string[]): string {
  const union = (types: string[]): string =>
    types.length === 1 ? (types[0] ?? 'Any') : `Union[${types.join(', ')}]`
  if (schema.$ref !== undefined) return nameIn(schema.$ref)
  const literals = schema.const === undefined ? schema.enum : [schema.const]
  if (literals !== undefined)
    return `Literal[${literals.map((value) => (value === null ? 'None' : JSON.stringify(value))).join(', ')}]`
  if (schema.anyOf !== undefined && schema.properties === undefined)
    return union(schema.anyOf.map((choice, index) => annotate(`${name}${index}`, choice, classes)))
  if (Array.isArray(schema.type))
    return union(schema.type.map((type) => annotate(name, { ...schema, type }, classes)))
  if (schema.type === 'array') return `List[${annotate(`${name}Item`, schema.items ?? {}, classes)}]`
  if (schema.properties !== undefined || schema.allOf !== undefined) return declare(name, schema, classes)
  if (schema.type === 'object') {
    const { additionalProperties: others } = schema
    return `Dict[str, ${typeof others === 'object' ? annotate(`${name}Value`, others, classes) : 'Any'}]`
  }
  return PYTHON_TYPES[schema.type ?? ''] ?? 'Any'
}

/** Makes the OpenAPI document as the service serves it. Needs no database. */
async function makeDocument(): Promise<Document> {
  const env = {
    MONGODB_URL: 'mongodb://127.0.0.1:9/none',
    REDIS_URL: 'redis://127.0.0.1:9',
    CHALLENGE_SECRET: '00'.repeat(32),
  }
  const ctx = openContext(readConfig(env, 'api'), createLog('types', 'silent'))
  const { routes } = createApp(ctx)
  return describeApi(routes, 'http://127.0.0.1:3000') as unknown as Document
}

/** The generated files, relative to the project's root, and the function that gives each one's text. */
export const TYPE_FILES = {
  'client/wire.ts': toTypeScript,
  'client/python/agent_network/wire.py': toPython,
} as const

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const document = await makeDocument()
  for (const [file, toText] of Object.entries(TYPE_FILES))
    writeFileSync(new URL(`../../${file}`, import.meta.url), await toText(document))
  process.exit(0) // the context still tries to connect to its databases
}
