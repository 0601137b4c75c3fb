import { pathsOf } from '../../api/http/mount.ts'
import { z } from 'zod'
import { noView, type Route } from '../../api/http/route.ts'
import { PROTOCOL_VERSION } from '../../shared/platform/limits.ts'

type JsonSchema = Readonly<Record<string, unknown>>

/** `posts[].id` → `string`; a `?` at the end of a type marks a field that may be absent. */
export type Fields = Record<string, string>

export interface Shape {
  protocol_version: number
  routes: Record<string, { needs: string; request: Fields; responses: Record<string, Fields> }>
}

/** The shape of everything that the service takes and gives: what a client written against it relies on. */
export function shapeOf(routes: readonly Route[]): Shape {
  const shapes: Shape['routes'] = {}
  for (const route of routes) {
    const request: Fields = route.body === undefined ? {} : fieldsOf(route.body, 'input')
    for (const given of [route.params, route.query]) {
      const { properties = {}, required = [] } = (
        given === undefined ? {} : describe(given, 'input').schema
      ) as {
        properties?: Record<string, JsonSchema>
        required?: string[]
      }
      for (const [name, schema] of Object.entries(properties))
        request[name] = `${typeOf(schema)}${given === route.params || required.includes(name) ? '' : '?'}`
    }
    const answer: Fields = route.view === noView ? {} : { ok: 'boolean', ...fieldsOf(route.view, 'output') }
    for (const [type, schema] of Object.entries(route.documents ?? {}))
      if (type !== 'application/json') answer[`(${type})`] = typeOf(schema)
    const responses = Object.fromEntries(
      (route.statuses ?? [200]).map((status) => [String(status), status === 304 ? {} : sorted(answer)]),
    )
    for (const path of pathsOf(route))
      shapes[`${route.method} ${path}`] = { needs: route.access, request: sorted(request), responses }
  }
  return { protocol_version: PROTOCOL_VERSION, routes: sorted(shapes) }
}

/**
 * What breaks a client that was written against `recorded`: a route, a status or a field that is gone, a
 * field of another type or one that may now be absent, a field of a request that must now be sent, a route
 * that asks for more. What was added breaks nobody.
 */
export function findBreaks(recorded: Shape['routes'], present: Shape['routes']): string[] {
  const breaks: string[] = []
  for (const [name, before] of Object.entries(recorded)) {
    const now = present[name]
    if (now === undefined) {
      breaks.push(`${name} is gone`)
      continue
    }
    if (rankOf(now.needs) > rankOf(before.needs))
      breaks.push(`${name} asks for "${now.needs}" in place of "${before.needs}"`)
    for (const [field, type] of Object.entries(before.request)) {
      const typeNow = now.request[field]
      if (typeNow === undefined) breaks.push(`${name} no longer takes ${field}`)
      else if (!typesOf(type).every((one) => typesOf(typeNow).includes(one)))
        breaks.push(`${name} takes ${field} as ${typeNow} in place of ${type}`)
      else if (type.endsWith('?') && !typeNow.endsWith('?')) breaks.push(`${name} now requires ${field}`)
    }
    for (const [field, type] of Object.entries(now.request)) {
      if (!(field in before.request) && !type.endsWith('?') && !/[.[]/.test(field))
        breaks.push(`${name} now requires ${field}`)
    }
    for (const [status, fields] of Object.entries(before.responses)) {
      for (const [field, type] of Object.entries(fields)) {
        const typeNow = now.responses[status]?.[field]
        if (typeNow === undefined) breaks.push(`${name} ${status} no longer gives ${field}`)
        else if (typeNow !== type && typeNow !== type.replace('?', ''))
          breaks.push(`${name} ${status} gives ${field} as ${typeNow} in place of ${type}`)
      }
      if (now.responses[status] === undefined) breaks.push(`${name} no longer answers ${status}`)
    }
  }
  return breaks
}

/** How much a route asks of its caller; `fresh` asks for the same as `token`. */
const rankOf = (needs: string): number =>
  ['open', 'optional', 'token', 'pass'].indexOf(needs === 'fresh' ? 'token' : needs)

const typesOf = (type: string): string[] => type.replace('?', '').split('|')

/** Returns zod's own JSON Schema, with what a field's `meta` states in its place, and the parts that it names. */
function describe(schema: z.ZodType, io: 'input' | 'output') {
  const { $defs: named = {}, ...whole } = z.toJSONSchema(schema, {
    io,
    override: ({ jsonSchema }) => Object.assign(jsonSchema, jsonSchema['override']),
  })
  return { schema: whole as JsonSchema, named: named as Record<string, JsonSchema> }
}

function fieldsOf(fieldsSchema: z.ZodType, io: 'input' | 'output'): Fields {
  const { schema, named } = describe(fieldsSchema, io)
  const fields: Fields = {}
  collect(schema, '', false, [])
  return sorted(fields)

  function collect(given: JsonSchema, path: string, optional: boolean, above: readonly unknown[]): void {
    // A schema that holds itself goes on for ever; once is its shape.
    if (above.includes(given['$ref'])) return
    const inside = given['$ref'] === undefined ? above : [...above, given['$ref']]
    const inner = dereference(given, named)
    for (const variant of ((inner['anyOf'] ?? []) as JsonSchema[]).map((part) => dereference(part, named))) {
      if (variant['type'] === 'object' || variant['type'] === 'array')
        collect(path === '' ? variant : { ...variant, partOf: path }, path, optional, inside)
    }
    for (const part of (inner['allOf'] ?? []) as JsonSchema[])
      collect({ ...dereference(part, named), partOf: path }, path, optional, inside)
    if (path !== '' && inner['partOf'] === undefined)
      note(path, `${typeOf(inner, named)}${optional ? '?' : ''}`)
    const required = new Set((inner['required'] as string[] | undefined) ?? [])
    for (const [name, part] of Object.entries(
      (inner['properties'] as Record<string, JsonSchema> | undefined) ?? {},
    ))
      collect(part, path === '' ? name : `${path}.${name}`, !required.has(name), inside)
    if (typeof inner['items'] === 'object') collect(inner['items'] as JsonSchema, `${path}[]`, false, inside)
    if (typeof inner['additionalProperties'] === 'object')
      collect(inner['additionalProperties'] as JsonSchema, `${path}.*`, false, inside)
  }

  /**
   * A field of several variants of an answer has the types of all of them, and may be absent where one says
   * so.
   */
  function note(path: string, type: string): void {
    const known = fields[path]
    if (known === undefined) fields[path] = type
    else
      fields[path] =
        [...new Set([...typesOf(known), ...typesOf(type)])].sort().join('|') +
        (known.endsWith('?') || type.endsWith('?') ? '?' : '')
  }
}

function dereference(schema: JsonSchema, named: Record<string, JsonSchema>): JsonSchema {
  const { $ref: reference } = schema
  return typeof reference === 'string'
    ? (named[reference.slice(reference.lastIndexOf('/') + 1)] ?? schema)
    : schema
}

function typeOf(schema: JsonSchema, named: Record<string, JsonSchema> = {}): string {
  const inner = dereference(schema, named)
  const { type, anyOf, allOf, const: constant } = inner
  // All parts of an object are objects.
  const [part] = (allOf ?? []) as JsonSchema[]
  if (part !== undefined) return typeOf(part, named)
  if (Array.isArray(type)) return [...(type as string[])].sort().join('|')
  if (typeof type === 'string') return type
  if (Array.isArray(anyOf))
    return [...new Set((anyOf as JsonSchema[]).flatMap((part) => typeOf(part, named).split('|')))]
      .sort()
      .join('|')
  return constant === undefined ? 'any' : typeof constant
}

function sorted<Value>(record: Record<string, Value>): Record<string, Value> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))
}
