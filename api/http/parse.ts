import querystring, { type ParsedUrlQuery } from 'node:querystring'
import { z } from 'zod'
import { Refusal } from '../../shared/platform/errors.ts'
import { MAX_QUERY_PARAMETERS } from '../../shared/platform/limits.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses bytes as a JSON object, whose fields are not checked yet.
 *
 * @throws Refusal `invalid_json` if they are not JSON in UTF-8, or not an object
 */
export function parseJsonObject(bytes: Uint8Array): object {
  try {
    const text = decoder.decode(bytes)
    // A list of lists costs 50 times its length, so what can't be an object isn't parsed.
    if (/^[ \t\n\r]*\{/.test(text)) return JSON.parse(text) as object
  } catch {
    throw new Refusal('invalid_json', 'The body is not JSON in UTF-8; expected one JSON object.')
  }
  throw new Refusal('invalid_json', 'The body is not a JSON object; expected {"field": value, …}.')
}

/**
 * Checks a body, a query or path parameters against a schema, and returns the parsed fields without those
 * that the schema doesn't define.
 *
 * @throws Refusal `missing_field` or `invalid_field`, naming the first field at fault
 */
export function parseFields<S extends z.ZodObject>(schema: S, input: object): z.output<S> {
  const result = schema.safeParse(input)
  if (result.success) return result.data
  const issue = result.error.issues[0]
  const [field] = issue?.path ?? []
  if (issue === undefined || field === undefined)
    throw new Refusal('invalid_field', 'The fields do not fit together.')
  const name = String(field)
  if (!Object.hasOwn(input, name)) throw missingFields(result.error.issues, input)
  const location = issue.path.length > 1 ? ` (at ${issue.path.map(String).join('.')})` : ''
  throw new Refusal(
    'invalid_field',
    `The field "${name}" is not usable${location}: ${issue.message.replace(/\.$/, '')}.`,
    { field: name },
  )
}

/**
 * Makes the refusal `missing_field`. It names all absent fields, so that nobody has to ask once for each; its
 * `field` is the first.
 */
function missingFields(issues: readonly z.core.$ZodIssue[], input: object): Refusal {
  const absent = [...new Set(issues.map(({ path }) => String(path[0])))].filter(
    (name) => !Object.hasOwn(input, name),
  )
  const [field = '', ...others] = absent
  const names = absent.map((name) => `"${name}"`).join(', ')
  return new Refusal(
    'missing_field',
    others.length === 0 ? `The field ${names} is required.` : `The fields ${names} are required.`,
    { field },
  )
}

/**
 * Checks a query against a schema and returns the parsed fields. Unlike in a body, a field that the schema
 * doesn't define is refused: otherwise nobody would notice that a misspelt parameter is ignored.
 *
 * @param schema undefined for a route without parameters
 * @returns undefined if there is no schema
 * @throws Refusal `missing_field` or `invalid_field`
 */
export function parseQuery<S extends z.ZodObject>(
  schema: S | undefined,
  input: object,
): z.output<S> | undefined {
  const fields = schema === undefined ? undefined : parseFields(schema, withLists(schema, input))
  const known = Object.keys(schema?.shape ?? {})
  const unknown = Object.keys(input).find((name) => !known.includes(name))
  if (unknown === undefined) return fields
  // Whoever sends `limit[]` means `limit`.
  const withoutBrackets = unknown.replace(/\[.*$/s, '')
  const field = (known.includes(withoutBrackets) ? withoutBrackets : unknown).slice(0, 100)
  const expected =
    known.length === 0 ? 'this route has none' : `this route has ${known.join(', ')}, each once`
  throw new Refusal('invalid_field', `There is no query parameter "${unknown.slice(0, 100)}"; ${expected}.`, {
    field,
  })
}

/** The input, in which each parameter that may be repeated is a list, also if it comes once. */
function withLists(schema: z.ZodObject, input: object): object {
  const isList = (field: unknown): boolean =>
    field instanceof z.ZodOptional ? isList(field.unwrap()) : field instanceof z.ZodArray
  return Object.fromEntries(
    Object.entries(input).map(([name, value]) => [
      name,
      isList(schema.shape[name]) ? [value].flat() : (value as unknown),
    ]),
  )
}

/**
 * Splits a query string into its parameters, by name: a text each, or a list if a name occurs more than once.
 *
 * @throws Refusal `invalid_field` if it has more than MAX_QUERY_PARAMETERS, or an escape is malformed or
 *   doesn't decode to UTF-8
 */
export function splitQuery(text: string | undefined | null): ParsedUrlQuery {
  const query = text ?? ''
  if (query.split('&', MAX_QUERY_PARAMETERS + 1).length > MAX_QUERY_PARAMETERS)
    throw new Refusal(
      'invalid_field',
      `The query has too many parameters; send at most ${MAX_QUERY_PARAMETERS}, each once.`,
    )
  try {
    // What is malformed is left as it is by querystring.
    decodeURIComponent(query)
  } catch {
    throw new Refusal(
      'invalid_field',
      'The query has a % that two hex digits do not follow, or that is not UTF-8; escape it as %25.',
    )
  }
  return querystring.parse(query, '&', '=', { maxKeys: 0 })
}
