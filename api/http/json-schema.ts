import { z } from 'zod'

export type JsonSchema = { [key: string]: unknown }

export type ObjectSchema = JsonSchema & { properties: Record<string, JsonSchema>; required?: string[] }

/**
 * Converts a zod schema to a JSON Schema that code generators understand.
 *
 * @param named gets the parts that have a name of their own; the result refers to them
 * @throws Error if two different schemas have the same name
 */
export function toOpenApiSchema(
  schema: z.ZodType,
  io: 'input' | 'output',
  named: Record<string, JsonSchema>,
): JsonSchema {
  const { schema: described, named: parts } = describeSchema(schema, io, simplify)
  if (Object.hasOwn(parts, ANY_JSON)) parts[ANY_JSON] = {}
  for (const [name, part] of Object.entries(parts)) {
    const known = named[name]
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(part))
      throw new Error(`two schemas are named ${name}; give one of them another "id"`)
    named[name] = part
  }
  return described
}

/**
 * Converts a zod schema to JSON Schema. What zod can't express (a refinement, a transformed text) stands in
 * the schema's `meta`: its keys are added, or its key `override` replaces all of zod's.
 *
 * @param change is called with each part and changes it in place
 * @returns the schema, and by name the parts that it refers to
 */
export function describeSchema(
  schema: z.ZodType,
  io: 'input' | 'output',
  change: (json: JsonSchema) => void = () => {},
): { schema: JsonSchema; named: Record<string, JsonSchema> } {
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
      // The bounds of safe integers tell a reader of answers nothing.
      if (io === 'output' && (json['minimum'] === Number.MIN_SAFE_INTEGER || json['minimum'] === 0))
        delete json['minimum']
      if (io === 'output' && json['maximum'] === Number.MAX_SAFE_INTEGER) delete json['maximum']
      if (override !== undefined) {
        const { description } = json
        for (const key of Object.keys(json)) delete json[key]
        Object.assign(json, structuredClone(override), description === undefined ? {} : { description })
        for (const form of (json['anyOf'] as JsonSchema[] | undefined) ?? []) change(form)
      }
      change(json)
    },
  }) as JsonSchema & { $defs?: Record<string, JsonSchema> }
  return {
    schema: pointToComponents(rest),
    named: Object.fromEntries(
      Object.entries($defs).map(([name, part]) => [name.replace(UNNAMED, ANY_JSON), pointToComponents(part)]),
    ),
  }
}

/** Replaces what code generators ignore or get wrong, in place. */
function simplify(json: JsonSchema): void {
  if (json['type'] === 'integer') json['format'] = 'int64'
  // Answers may get more fields.
  if (json['additionalProperties'] === false) delete json['additionalProperties']
  // Implied by JSON, or by the format.
  delete json['propertyNames']
  if (json['format'] === 'date-time') delete json['pattern']
  if (typeof json['const'] === 'boolean') {
    json['examples'] = [json['const']]
    delete json['const']
  }
  const forms = json['anyOf'] as JsonSchema[] | undefined
  if (forms === undefined) return
  const [first, second] = forms
  if (
    typeof first?.['type'] === 'string' &&
    first['type'] !== 'object' &&
    forms.length === 2 &&
    second?.['type'] === 'null'
  ) {
    // A value or null: one schema of two types.
    delete json['anyOf']
    const {
      type,
      const: constant,
      enum: values = constant === undefined ? undefined : [constant],
      ...rest
    } = first
    Object.assign(json, { ...rest, ...json, type: [type, 'null'] })
    if (Array.isArray(values)) json['enum'] = [...(values as unknown[]), null]
  } else if (forms.every(({ properties }) => properties !== undefined)) {
    delete json['anyOf']
    Object.assign(json, mergeForms(forms as ObjectSchema[]))
  }
}

/** zod's name for a recursive schema without one: here that is only the one of any JSON value. */
const UNNAMED = /^__schema\d+$/
const ANY_JSON = 'JsonValue'

/**
 * Returns a copy whose references point to `#/components/schemas/X` instead of `#/$defs/X`, without the `id`,
 * which is the part's name.
 */
function pointToComponents(schema: JsonSchema): JsonSchema {
  const { id: _id, ...rest } = JSON.parse(
    JSON.stringify(schema)
      .replaceAll(/"#\/\$defs\/__schema\d+"/g, `"#/components/schemas/${ANY_JSON}"`)
      .replaceAll('"#/$defs/', '"#/components/schemas/'),
  ) as JsonSchema
  return rest
}

/**
 * Merges the forms of a union into one object schema, in which a field that not every form requires is
 * optional: many code generators don't support unions.
 */
export function mergeForms(forms: readonly ObjectSchema[]): ObjectSchema {
  const properties: Record<string, JsonSchema> = {}
  for (const form of forms)
    for (const [name, schema] of Object.entries(form.properties)) {
      const known = properties[name]
      properties[name] = known === undefined ? schema : mergeSchemas(known, schema)
    }
  const [first] = forms
  const required = (first?.required ?? []).filter((name) =>
    forms.every((form) => form.required?.includes(name)),
  )
  return { type: 'object', properties, ...(required.length === 0 ? {} : { required }) }
}

/**
 * Returns one schema for a field that has two in different forms: with the values of both if they list
 * values, `anyOf` if the types differ, else the type alone.
 */
function mergeSchemas(known: JsonSchema, schema: JsonSchema): JsonSchema {
  if (JSON.stringify(known) === JSON.stringify(schema)) return schema
  if (Array.isArray(known['enum']) && Array.isArray(schema['enum'])) {
    const values = new Set([...(known['enum'] as unknown[]), ...(schema['enum'] as unknown[])])
    return { ...known, enum: [...values] }
  }
  if (known['type'] !== schema['type'] || known['$ref'] !== schema['$ref'])
    return { anyOf: [...((known['anyOf'] as JsonSchema[] | undefined) ?? [known]), schema] }
  const { type, format } = schema
  return format === undefined ? { type } : { type, format }
}

/**
 * Returns the named schemas, but an object that has all fields of another named one becomes `allOf`: that
 * one, and its further fields.
 */
export function shareBases(named: Readonly<Record<string, JsonSchema>>): Record<string, JsonSchema> {
  const objects = Object.entries(named).filter(
    (entry): entry is [string, ObjectSchema] => Object.keys(entry[1]['properties'] ?? {}).length > 0,
  )
  const sizeOf = ({ properties }: ObjectSchema): number => Object.keys(properties).length
  /** Whether `whole` has all fields of `part`, with the same schemas, and requires what it requires. */
  const isPart = (part: ObjectSchema, whole: ObjectSchema): boolean =>
    sizeOf(part) < sizeOf(whole) &&
    Object.entries(part.properties).every(
      ([name, schema]) => JSON.stringify(whole.properties[name]) === JSON.stringify(schema),
    ) &&
    (part.required ?? []).every((name) => whole.required?.includes(name))
  const bases = objects
    .filter(([, schema]) => sizeOf(schema) >= MIN_SHARED_FIELDS)
    .sort(([, a], [, b]) => sizeOf(b) - sizeOf(a))
  return Object.fromEntries(
    Object.entries(named).map(([name, schema]) => {
      const whole = schema as ObjectSchema
      const [base, part] =
        bases.find(([, candidate]) => whole.properties !== undefined && isPart(candidate, whole)) ?? []
      if (base === undefined || part === undefined) return [name, schema]
      const { properties, required = [], type, ...rest } = whole
      const isFurther = (field: string): boolean => !Object.hasOwn(part.properties, field)
      const further = {
        type,
        properties: Object.fromEntries(Object.entries(properties).filter(([field]) => isFurther(field))),
        required: required.filter((field) => isFurther(field) || !part.required?.includes(field)),
      }
      return [name, { ...rest, allOf: [{ $ref: `#/components/schemas/${base}` }, further] }]
    }),
  )
}

/** An object with fewer fields isn't used as a base of others. */
const MIN_SHARED_FIELDS = 5

/** Returns the named schema that a reference points to; any other schema as it is. */
export function resolveReference(schema: JsonSchema, named: Record<string, JsonSchema>): JsonSchema {
  const { $ref: reference } = schema
  return typeof reference === 'string'
    ? (named[reference.slice(reference.lastIndexOf('/') + 1)] ?? schema)
    : schema
}

/**
 * Returns an example value for a schema: its first example, value or constant if it has one, null if it may
 * be null. Objects get their required fields; lists are empty below the second level.
 *
 * @param depth the number of objects around the value
 */
export function exampleOf(schema: JsonSchema, named: Record<string, JsonSchema>, depth = 0): unknown {
  const whole = resolveReference(schema, named) as JsonSchema & {
    examples?: unknown[]
    enum?: unknown[]
    anyOf?: JsonSchema[]
    items?: JsonSchema
    properties?: Record<string, JsonSchema>
    required?: string[]
    description?: string
    pattern?: string
    minimum?: number
  }
  const stated = whole.examples?.[0] ?? whole.enum?.[0] ?? whole['const']
  if (stated !== undefined) return stated
  if (canBeNull(whole)) return null
  if (whole.anyOf?.[0] !== undefined) return exampleOf(whole.anyOf[0], named, depth)
  switch ([whole['type']].flat()[0]) {
    case 'object':
      return Object.fromEntries(
        Object.entries(whole.properties ?? {})
          .filter(([name]) => whole.required?.includes(name))
          .map(([name, part]) => [name, exampleOf(part, named, depth + 1)]),
      )
    case 'array':
      return whole.items === undefined || depth > 1 ? [] : [exampleOf(whole.items, named, depth)]
    case 'boolean':
      return true
    case 'integer':
    case 'number':
      return whole.description?.includes('Unix seconds') ? 1_900_000_000 : (whole.minimum ?? 1)
    case 'string':
      return exampleText(whole)
    default:
      return null
  }
}

/** Whether null is a value of the schema. */
const canBeNull = ({ type, anyOf = [] }: { type?: unknown; anyOf?: JsonSchema[] }): boolean =>
  [type].flat().includes('null') || anyOf.some(canBeNull)

/**
 * Returns an example of a text: of a time or an id, or zeros for a hash, by what the schema says; else
 * `text`.
 */
function exampleText({
  description = '',
  pattern = '',
  format,
}: {
  description?: string
  pattern?: string
  format?: unknown
}): string {
  if (format === 'date-time') return '2030-03-17T17:46:40+00:00'
  const [, prefix] = /begins with (\w+_)/.exec(description) ?? []
  if (prefix !== undefined) return `${prefix}01k0000000000000000000000a`
  const [, length] = /\[0-9a-f\]\{(\d+)\}/.exec(pattern) ?? []
  return length === undefined ? 'text' : '0'.repeat(Number(length))
}
