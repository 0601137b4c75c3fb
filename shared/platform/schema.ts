/**
 * The zod pieces that every request and response schema is made of. Lengths of text are counted in characters
 * (Unicode code points), as JSON Schema's `maxLength` counts them, so that the OpenAPI document says what the
 * validator does.
 */
import { z } from 'zod'
import { ID_PREFIXES, type RecordKind } from './ids.ts'
import { LIST_LIMIT } from './limits.ts'

/** The pattern in JSON Schema for text without NUL, with an escape that RE2 supports too. */
const NO_NUL = String.raw`^[^\x00]*$`

/**
 * The characters that `trim` removes (ECMA-262, WhiteSpace and LineTerminator), for a pattern: those of ASCII
 * by the escapes that every dialect has, the others as they are; without U+FEFF, which no source of Go may
 * hold.
 */
const SPACES = ' \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000'
export const BLANK = String.raw`\t\n\v\f\r` + `\u2028\u2029${SPACES}`
const HAS_MORE = new RegExp(`[^${BLANK}]`, 'u')
const isMoreThanBlank = (value: string): boolean => HAS_MORE.test(value)

/** Text that has something to read in it. */
export const notBlank = (field: z.ZodString) =>
  field
    .refine(isMoreThanBlank, 'expected something beside blanks')
    .meta({ pattern: `^[${BLANK}]*[^${BLANK}\\x00][^\\x00]*$` })

/** Characters that break a line or control a terminal: control characters and Unicode's two separators. */
export const CONTROLS = '\\x00-\\x1f\\x7f-\\x9f\u2028\u2029'
const HAS_CONTROLS = /[\p{Cc}\u2028\u2029]/u
/** Whether a text has no control characters and no line or paragraph separators. */
export const inOneLine = (value: string): boolean => !HAS_CONTROLS.test(value)
export const ONE_LINE = 'expected one line without control characters'

/** Text that is shown in one line. */
export const oneLineText = (bound: { max: number }) =>
  text(bound)
    .refine(inOneLine, ONE_LINE)
    .meta({ pattern: `^[^${CONTROLS}]*$` })

/** Text that is shown in one line and has something to read in it. */
export const titleText = (bound: { max: number }) =>
  text({ min: 1, ...bound })
    .refine((value) => inOneLine(value) && isMoreThanBlank(value), `${ONE_LINE}, and something beside blanks`)
    .meta({ pattern: `^[${SPACES}]*[^${SPACES}${CONTROLS}][^${CONTROLS}]*$` })

/**
 * Text that can be stored and shown: well-formed Unicode, no NUL, from `min` (0 if absent) to `max`
 * characters.
 */
export function text(bound: { min?: number; max: number }) {
  const { min = 0, max } = bound
  const range = min === 0 ? `at most ${max} characters` : `${min} to ${max} characters`
  return z
    .string(`expected a string of ${range}`)
    .refine(
      (value) => value.isWellFormed() && !value.includes('\0'),
      'expected well-formed Unicode without NUL',
    )
    .refine((value) => hasLength(value, min, max), `expected ${range}`)
    .meta({ ...(min > 0 ? { minLength: min } : {}), maxLength: max, pattern: NO_NUL })
}

/** Whether a text has from `min` to `max` characters (code points). */
function hasLength(value: string, min: number, max: number): boolean {
  // Code points are at least half and at most all of the UTF-16 units, so most strings need no walk.
  if (value.length > 2 * max) return false
  if (value.length <= max && value.length >= 2 * min) return true
  const characters = [...value].length
  return characters >= min && characters <= max
}

/**
 * Text with a bound on its bytes of UTF-8. JSON Schema can't express that: `maxLength` has the same number
 * but counts characters, and `x-max-bytes` is the real bound.
 *
 * @param bound `min` in UTF-16 code units, 1 if absent; `opaque`: NUL is allowed, since nobody is shown the
 *   text
 */
export function textOfBytes(bound: { min?: number; maxBytes: number; opaque?: boolean }) {
  const { min = 1, maxBytes, opaque = false } = bound
  const range = `${min} to ${maxBytes} bytes of UTF-8`
  return z
    .string(`expected a string of ${range}`)
    .refine(
      (value) => value.isWellFormed() && (opaque || !value.includes('\0')),
      opaque ? 'expected well-formed Unicode' : 'expected well-formed Unicode without NUL',
    )
    .refine(
      (value) =>
        value.length >= min && value.length <= maxBytes && Buffer.byteLength(value, 'utf8') <= maxBytes,
      `expected ${range}`,
    )
    .meta({
      minLength: min,
      maxLength: maxBytes,
      'x-max-bytes': maxBytes,
      ...(opaque ? {} : { pattern: NO_NUL }),
    })
}

/** An id in a request: any short text, since an id of a wrong form is refused as that of no record. */
export function idField(kind: RecordKind) {
  return text({ min: 1, max: 100 }).describe(`id that begins with ${ID_PREFIXES[kind]}_`)
}

/** The id, in a query, of the record after which a list goes on; an id of another kind would end the list. */
export function cursorField(kind: RecordKind) {
  const prefix = `${ID_PREFIXES[kind]}_`
  return idField(kind)
    .refine((id) => id.startsWith(prefix), `expected an id that begins with ${prefix}`)
    .meta({ pattern: `^${prefix}[^\\x00]*$` })
}

/** Id in a response. */
export function idView(kind: RecordKind) {
  return z.string().describe(`id that begins with ${ID_PREFIXES[kind]}_`)
}

/** A word in a response, such as a cursor or the name of a status: it can stand in a line. */
export const wordView = () => z.string().regex(/^\S{1,100}$/)

/** `limit` of a list in a query: a string of digits. */
export function limitQuery(bound: { min: number; max: number; fallback: number } = LIST_LIMIT) {
  const expected = `expected a whole number from ${bound.min} to ${bound.max}, once`
  return z
    .string(expected)
    .regex(/^\d{1,9}$/, expected)
    .transform(Number)
    .refine((value) => value >= bound.min && value <= bound.max, expected)
    .default(bound.fallback)
    .meta({
      override: { type: 'integer', minimum: bound.min, maximum: bound.max, default: bound.fallback },
      description: 'how many at most',
    })
}

/**
 * `per_agent` of a list in a query: a string of digits. It has no default: the contract fixes what a list
 * has, so a flood is cut only if the operator asks.
 */
export const perAgentQuery = () =>
  z
    .string(PER_AGENT_FORM)
    .regex(/^\d{1,3}$/, PER_AGENT_FORM)
    .transform(Number)
    .refine((value) => value >= LIST_LIMIT.min && value <= LIST_LIMIT.max, PER_AGENT_FORM)
    .optional()
    .meta({
      override: { type: 'integer', minimum: LIST_LIMIT.min, maximum: LIST_LIMIT.max },
      description: "how many of one agent's at most, its newest; all if absent",
    })
const PER_AGENT_FORM = `expected a whole number from ${LIST_LIMIT.min} to ${LIST_LIMIT.max}, once`

/** Exactly `length` lower-case hex characters. */
export const hex = (length: number) =>
  z.string().regex(new RegExp(`^[0-9a-f]{${length}}$`), `expected ${length} lower-case hex characters`)
/** Hex of something that the operator may hide: then it is empty, so that readers still get a string. */
export const hexOrEmpty = (length: number) =>
  z
    .string()
    .regex(new RegExp(`^([0-9a-f]{${length}})?$`), `expected ${length} lower-case hex characters, or none`)

export const unixTime = () => z.int().min(0).describe('Unix seconds')
export const isoTimeView = () => z.iso.datetime({ offset: true }).describe('ISO 8601 with an offset')
/** Any JSON. The OpenAPI document has it once, by this name. */
export const jsonValue = z.json().register(z.globalRegistry, { id: 'JsonValue' })
export const countView = { count: z.int().min(0) }

/** A whole number in a query. */
export function wholeNumber(min: 0 | 1) {
  const expected = `expected a whole number from ${min}, once`
  return z
    .string(expected)
    .regex(/^\d{1,15}$/, expected)
    .transform(Number)
    .refine((value) => value >= min, expected)
    .meta({ override: { type: 'integer', minimum: min, maximum: 999_999_999_999_999 } })
}
