import type { z } from 'zod'
import type { ZodOpenApiOverrideContext } from 'zod-openapi'
import { jsonValue } from '../../shared/platform/schema.ts'

export type JsonSchema = z.core.JSONSchema.BaseSchema

/**
 * Changes, in place, a JSON Schema that zod made, for the sake of code generators: integers have 64 bits,
 * there are no constant booleans, a value or null is one schema of two types, and several forms of an object
 * are one object with optional fields.
 *
 * If the schema's `meta` has an `override`, it stands for all that zod made but the description.
 */
export function simplify({ jsonSchema: json, zodSchema, io }: ZodOpenApiOverrideContext): void {
  if (zodSchema === jsonValue) replaceBy(json, { description: 'any JSON value' })
  if (typeof json.override === 'object') replaceBy(json, json.override as JsonSchema)

  if (json.type === 'integer') json.format = 'int64'
  // The bounds of safe integers tell a reader of answers nothing.
  if (io === 'output' && (json.minimum ?? 1) <= 0) delete json.minimum
  if (io === 'output' && json.maximum === Number.MAX_SAFE_INTEGER) delete json.maximum
  // Implied by JSON, or by the format.
  delete json.propertyNames
  if (json.format === 'date-time') delete json.pattern
  if (typeof json.const === 'boolean') {
    json.examples = [json.const]
    delete json.const
  }

  const forms = json.anyOf ?? []
  const [value, none] = forms
  if (
    forms.length === 2 &&
    none?.type === 'null' &&
    typeof value?.type === 'string' &&
    value.type !== 'object'
  ) {
    const { const: constant, enum: values = constant === undefined ? undefined : [constant], ...rest } = value
    delete json.anyOf
    Object.assign(json, { ...rest, ...json, type: [value.type, 'null'] })
    if (values !== undefined) json.enum = [...values, null]
  } else if (forms.length > 0 && forms.every(({ properties }) => properties !== undefined)) {
    delete json.anyOf
    Object.assign(json, mergeForms(forms))
  }
}

/** Replaces all but the description. */
function replaceBy(json: JsonSchema, other: JsonSchema): void {
  for (const key of Object.keys(json)) if (key !== 'description') delete json[key]
  Object.assign(json, other)
}

/**
 * Returns one object for several forms of it: a field that not every form requires is optional. `x-forms` says of
 * each form what it requires beyond that, and which of its booleans are constant.
 */
function mergeForms(forms: readonly JsonSchema[]): JsonSchema {
  const properties: Record<string, JsonSchema> = {}
  for (const form of forms)
    for (const [name, field] of Object.entries(form.properties as Record<string, JsonSchema>))
      properties[name] = mergeFields(properties[name] ?? field, field)
  const [first] = forms
  const required =
    first?.required?.filter((name) => forms.every((form) => form.required?.includes(name))) ?? []
  const ownForms = forms.map((form) => ({
    required: (form.required ?? []).filter((name) => !required.includes(name)),
    ...constantsOf(form),
  }))
  return {
    type: 'object',
    properties,
    ...(required.length === 0 ? {} : { required }),
    ...(forms.length === 1 ? {} : { 'x-forms': ownForms }),
  }
}

/** Returns the booleans of an object that have one value alone: their only example, see simplify(). */
function constantsOf({ properties = {} }: JsonSchema): { const?: Record<string, unknown> } {
  const constants = Object.entries(properties as Record<string, JsonSchema>).flatMap(([name, field]) =>
    field.type === 'boolean' && field.examples?.length === 1 ? [[name, field.examples[0]]] : [],
  )
  return constants.length === 0 ? {} : { const: Object.fromEntries(constants) as Record<string, unknown> }
}

/**
 * Returns a schema for a field that has two in different forms: with all values if both list values, either of
 * them if their types differ, else the type alone.
 */
function mergeFields(one: JsonSchema, other: JsonSchema): JsonSchema {
  if (JSON.stringify(one) === JSON.stringify(other)) return one
  if (one.enum && other.enum) return { ...one, enum: [...new Set([...one.enum, ...other.enum])] }
  const { type, format } = one
  if (type === undefined || type !== other.type) return { anyOf: [one, other] }
  return format === undefined ? { type } : { type, format }
}
