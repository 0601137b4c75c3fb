/**
 * The wire types of both clients, made from the OpenAPI document that the service serves: `client/wire.ts`
 * and the TypedDicts of `client/python`. An answer's type has no `ok`: the clients add it.
 *
 * openapi-typescript could write the first, but it needs the JavaScript API of TypeScript 5, and its types take
 * the client's package beyond 101 KiB.
 */
import * as prettier from 'prettier'
import { fileURLToPath } from 'node:url'

export interface Schema {
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
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  /** Of an object with several forms: what each requires beyond the rest, and its constant booleans. */
  'x-forms'?: { required: string[]; const?: Record<string, boolean> }[]
}

export interface Parameter {
  $ref?: string
  in: 'path' | 'query'
  name: string
  required?: boolean
  schema: Schema
}

interface Response {
  $ref?: string
  content?: Record<string, { schema?: Schema }>
}

export interface Document {
  components: {
    schemas: Record<string, Schema>
    parameters: Record<string, Parameter>
    responses: Record<string, Response>
  }
  paths: Record<string, Record<string, Operation>>
}

export interface Operation {
  operationId: string
  summary: string
  /** Empty if it needs no token. */
  security?: object[]
  parameters?: Parameter[]
  responses: Record<string, Response>
  requestBody?: { content: { 'application/json': { schema: Schema } } }
}

/** The name of the schema of an operation's good answer; undefined if that is a document. */
export function answerOf({ components }: Document, { responses }: Operation): string | undefined {
  const good = responses['200'] ?? responses['201']
  const shared = good?.$ref === undefined ? good : components.responses[nameIn(good.$ref)]
  const reference = shared?.content?.['application/json']?.schema?.$ref
  return reference === undefined ? undefined : nameIn(reference)
}

/**
 * Every type to be declared, with its name: the document's own, and as `…Body` and `…Query` the body and the query
 * of each operation.
 */
function namedSchemas({ components, paths }: Document): [name: string, schema: Schema][] {
  const named: [string, Schema][] = []
  for (const [name, schema] of Object.entries(clientSchemas(components)))
    // Both files declare JsonValue by hand.
    if (name !== 'JsonValue') named.push([name, schema])
  for (const operation of Object.values(paths).flatMap((item) => Object.values(item))) {
    const schema = operation.requestBody?.content['application/json'].schema
    if (schema !== undefined) named.push([`${capitalize(operation.operationId)}Body`, schema])
    const query = (operation.parameters ?? [])
      .map((one) => (one.$ref === undefined ? one : (components.parameters[nameIn(one.$ref)] as Parameter)))
      .filter((one) => one.in === 'query')
    if (query.length > 0)
      named.push([
        `${capitalize(operation.operationId)}Query`,
        {
          type: 'object',
          properties: Object.fromEntries(query.map(({ name, schema: one }) => [name, one])),
          required: query.filter(({ required = false }) => required).map(({ name }) => name),
        },
      ])
  }
  return named
}

/**
 * The document's schemas as both clients have them: answers without `ok`; and a schema that has every field of another
 * one, and more, extends that.
 */
export function clientSchemas({ schemas }: Document['components']): Record<string, Schema> {
  const own = Object.entries(schemas).map(([name, schema]) => [name, withoutOk(name, schema)] as const)
  return Object.fromEntries(own.map(([name, schema]) => [name, extending(schema, own)]))
}

/** Makes the schema extend the largest other one all of whose fields it has. Without such a one it stays as it is. */
function extending(schema: Schema, others: readonly (readonly [name: string, schema: Schema])[]): Schema {
  const fieldsOf = (one: Schema): Set<string> => {
    const isPlain = one.type === 'object' && one['x-forms'] === undefined && one.additionalProperties !== true
    const fields = isPlain ? Object.entries(one.properties ?? {}) : []
    return new Set(
      fields.map((field) => JSON.stringify([...field, one.required?.includes(field[0]) === true])),
    )
  }
  const own = fieldsOf(schema)
  const bases = others
    .map(([name, other]) => ({ name, other, fields: fieldsOf(other) }))
    .filter(({ fields }) => fields.size >= MIN_SHARED && fields.size < own.size && fields.isSubsetOf(own))
  const [base] = bases.sort((a, b) => b.fields.size - a.fields.size)
  if (base === undefined) return schema
  const isOwn = (name: string): boolean => !Object.hasOwn(base.other.properties ?? {}, name)
  const rest = {
    ...schema,
    properties: Object.fromEntries(Object.entries(schema.properties ?? {}).filter(([name]) => isOwn(name))),
    required: (schema.required ?? []).filter(isOwn),
  }
  return { allOf: [{ $ref: `#/components/schemas/${base.name}` }, rest] }
}

/** With fewer fields in common two schemas are alike by chance. */
const MIN_SHARED = 4

/** The schema without the field `ok` if it is an answer's, else as it is. */
function withoutOk(name: string, schema: Schema): Schema {
  if (!name.endsWith('Answer')) return schema
  if (schema.properties === undefined) return schema
  const { ok: _ok, ...properties } = schema.properties
  return { ...schema, properties, required: schema.required?.filter((field) => field !== 'ok') ?? [] }
}

export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
/** `#/components/schemas/NAME` → NAME. */
export const nameIn = (ref: string): string => ref.split('/').at(-1) ?? ref
export const NOTE =
  'Generated from GET /openapi.json by "npm run docs": change the service\'s schemas instead.'

/** The text of client/wire.ts. */
export async function toTypeScript(document: Document): Promise<string> {
  const types = namedSchemas(document).map(
    ([name, schema]) => `export type ${name} = ${typeOf(schema, /(Body|Query)$/.test(name))}`,
  )
  const text = `// ${NOTE}

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [name: string]: JsonValue }
${types.join('\n')}
`
  const file = fileURLToPath(new URL('../../client/wire.ts', import.meta.url))
  return prettier.format(text, { ...(await prettier.resolveConfig(file)), filepath: file })
}

/** A schema as a TypeScript type. @param isSent whether optional fields may be undefined, too */
function typeOf(schema: Schema, isSent: boolean): string {
  const inner = (part: Schema): string => typeOf(part, isSent)
  if (schema.$ref !== undefined) return nameIn(schema.$ref)
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (schema.anyOf !== undefined && schema.properties === undefined)
    return schema.anyOf.map(inner).join(' | ')
  if (schema.allOf !== undefined) return schema.allOf.map(inner).join(' & ')
  if (Array.isArray(schema.type)) return schema.type.map((type) => inner({ ...schema, type })).join(' | ')
  if (schema.type === 'array') return `(${inner(schema.items ?? {})})[]`
  if (schema.type === 'object') return objectOf(schema, isSent)
  return schema.type === 'integer' ? 'number' : (schema.type ?? 'JsonValue')
}

/** An object's schema as a TypeScript type; a Record if it names no properties. */
function objectOf(schema: Schema, isSent: boolean): string {
  const { properties, required = [], additionalProperties: others, 'x-forms': forms } = schema
  if (properties === undefined)
    return `Record<string, ${typeof others === 'object' ? typeOf(others, isSent) : 'JsonValue'}>`
  if (forms !== undefined) return forms.map((form) => formOf(schema, form)).join(' | ')
  const fields = Object.entries(properties).map(([name, field]) => {
    const note =
      field.description === undefined ? '' : `/** ${field.description.replaceAll('*/', '*')} */\n  `
    const isOptional = !required.includes(name)
    return `  ${note}${name}${isOptional ? '?' : ''}: ${typeOf(field, isSent)}${isOptional && isSent ? ' | undefined' : ''}`
  })
  return `{\n${fields.join('\n')}\n}`
}

/** One form of an object that has several: it has none of the fields that only other forms require. */
function formOf(
  { properties = {}, required = [], 'x-forms': forms = [] }: Schema,
  form: NonNullable<Schema['x-forms']>[number],
): string {
  const ofOthers = new Set(forms.flatMap((one) => one.required))
  const own = new Set([...required, ...form.required])
  const fields = Object.entries(properties)
    .filter(([name]) => own.has(name) || !ofOthers.has(name))
    .map(([name, field]) => [name, form.const?.[name] === undefined ? field : { const: form.const[name] }])
  return objectOf({ properties: Object.fromEntries(fields), required: [...own] }, false)
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
 * @param module stands before the names of classes, `wire.` outside that file
 */
export function annotate(name: string, schema: Schema, classes: string[], module = ''): string {
  const union = (types: string[]): string =>
    types.length === 1 ? (types[0] ?? 'Any') : `Union[${types.join(', ')}]`
  if (schema.$ref !== undefined) return module + nameIn(schema.$ref)
  const literals = schema.const === undefined ? schema.enum : [schema.const]
  if (literals !== undefined)
    return `Literal[${literals.map((value) => (value === null ? 'None' : JSON.stringify(value))).join(', ')}]`
  if (schema.anyOf !== undefined && schema.properties === undefined)
    return union(schema.anyOf.map((choice, index) => annotate(`${name}${index}`, choice, classes, module)))
  if (Array.isArray(schema.type))
    return union(schema.type.map((type) => annotate(name, { ...schema, type }, classes, module)))
  if (schema.type === 'array') return `List[${annotate(`${name}Item`, schema.items ?? {}, classes, module)}]`
  if (schema.properties !== undefined || schema.allOf !== undefined)
    return module + declare(name, schema, classes)
  if (schema.type === 'object') {
    const { additionalProperties: others } = schema
    return `Dict[str, ${typeof others === 'object' ? annotate(`${name}Value`, others, classes, module) : 'Any'}]`
  }
  return PYTHON_TYPES[schema.type ?? ''] ?? 'Any'
}
