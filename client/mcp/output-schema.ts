import { resolveRef, schemaOf, type Schema } from '../answer-check.ts'
import type { AnswerName } from '../schemas.ts'

/** JSON Schema of what a tool gives beside its text: one of these answers, without the fields that are left out. */
export function outputSchema(
  answers: readonly AnswerName[],
  leavesOut: readonly string[],
): { type: 'object' } {
  const $defs: Record<string, Schema> = {}
  const keep = (schema: Schema): Schema => {
    const { $ref, properties, optional = [], 'x-forms': _forms, items, additionalProperties: others } = schema
    if ($ref !== undefined) {
      const name = $ref.slice('#/$defs/'.length)
      if (!Object.hasOwn($defs, name)) {
        $defs[name] = {} // a reference to itself ends here
        $defs[name] = keep(resolveRef(schema))
      }
      return schema
    }
    const { anyOf, allOf, type } = schema
    if (anyOf !== undefined) return { anyOf: anyOf.map(keep) }
    if (allOf !== undefined) return { allOf: allOf.map(keep) }
    const isKept = (name: string): boolean => !leavesOut.includes(name)
    return {
      ...(type === undefined ? {} : { type }),
      ...(items === undefined ? {} : { items: keep(items) }),
      ...(others === undefined ? {} : { additionalProperties: keep(others) }),
      ...(properties === undefined ? {} : { properties: keepFields(properties, isKept, keep) }),
      ...(properties === undefined
        ? {}
        : { required: Object.keys(properties).filter((name) => isKept(name) && !optional.includes(name)) }),
    }
  }
  const forms = answers.map((name) => keep(schemaOf(name)))
  return { type: 'object', ...(forms.length === 1 ? forms[0] : { anyOf: forms }), $defs } as {
    type: 'object'
  }
}

const keepFields = (
  properties: NonNullable<Schema['properties']>,
  isKept: (name: string) => boolean,
  keep: (schema: Schema) => Schema,
) =>
  Object.fromEntries(
    Object.entries(properties)
      .filter(([name]) => isKept(name))
      .map(([name, schema]) => [name, keep(schema)]),
  )
