import type { z } from 'zod'
import { Refusal } from '../../shared/errors.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * The body as a JSON object. Nothing of it is looked at yet: fields that no schema defines are dropped by the schema,
 * whatever their name, depth or content.
 *
 * @throws Refusal `invalid_json`
 */
export function parseJsonObject(bytes: Uint8Array): object {
  let value: unknown
  try {
    value = JSON.parse(decoder.decode(bytes))
  } catch {
    throw new Refusal('invalid_json', 'The body is not JSON in UTF-8; expected one JSON object.')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Refusal('invalid_json', 'The body is JSON but not an object; expected {"field": value, …}.')
  return value
}

/**
 * Checks a body, a query or path parameters against its schema and gives back the defined fields alone.
 *
 * @throws Refusal `missing_field` or `invalid_field`, naming the first field at fault
 */
export function parseFields<S extends z.ZodObject>(schema: S, input: object): z.output<S> {
  const result = schema.safeParse(input)
  if (result.success) return result.data
  const issue = result.error.issues[0]
  const [field] = issue?.path ?? []
  if (issue === undefined || field === undefined) throw new Refusal('invalid_field', 'The fields do not fit together.')
  const name = String(field)
  if (!Object.hasOwn(input, name)) throw new Refusal('missing_field', `The field "${name}" is required.`, { field: name })
  const place = issue.path.length > 1 ? ` (at ${issue.path.map(String).join('.')})` : ''
  throw new Refusal('invalid_field', `The field "${name}" is not usable${place}: ${issue.message.replace(/\.$/, '')}.`, { field: name })
}
