import { z } from 'zod'
import type { JsonSchema } from './simplify.ts'

/**
 * Returns an example of an answer: null if that is a value, else the first of the values that are listed.
 * Objects get their required fields; lists in lists and in objects are empty.
 */
export function exampleOf(schema: z.ZodType): unknown {
  const { $defs = {}, ...root } = z.toJSONSchema(schema, { io: 'output' })
  return make(root, 0)

  function make(part: JsonSchema, depth: number): unknown {
    const {
      enum: values,
      const: constant,
      anyOf: forms,
      ...whole
    } = $defs[part.$ref?.split('/').at(-1) ?? ''] ?? part
    if (values !== undefined) return values[0]
    if (constant !== undefined) return constant
    if ([whole.type, ...(forms ?? []).map(({ type }) => type)].flat().includes('null')) return null
    if (forms?.[0] !== undefined) return make(forms[0], depth)
    if (whole.allOf !== undefined) return Object.assign({}, ...whole.allOf.map((one) => make(one, depth)))
    switch (whole.type) {
      case 'object':
        return Object.fromEntries(
          (whole.required ?? []).map((name) => [
            name,
            make(whole.properties?.[name] as JsonSchema, depth + 1),
          ]),
        )
      case 'array':
        return depth > 0 ? [] : [make(whole.items as JsonSchema, depth)]
      case 'boolean':
        return true
      case 'integer':
      case 'number':
        return whole.description?.includes('Unix seconds') ? 1_900_000_000 : Math.max(whole.minimum ?? 1, 1)
      case 'string':
        return exampleText(whole)
      default:
        return null
    }
  }
}

/** Returns an example of a text: a time or an id, or zeros for a hash, by what its schema says. */
function exampleText({ description = '', pattern = '', format }: JsonSchema): string {
  if (format === 'date-time') return '2030-03-17T17:46:40+00:00'
  const [, prefix] = /begins with (\w+_)/.exec(description) ?? []
  if (prefix !== undefined) return `${prefix}01k0000000000000000000000a`
  const [, start = '', length] = /^\^\(?(\w*)\[0-9a-f\]\{(\d+)\}/.exec(pattern) ?? []
  return length === undefined ? 'text' : start + '0'.repeat(Number(length))
}
