/**
 * The zod pieces that every request and response schema is made of. Lengths of text are counted in characters (Unicode
 * code points), as JSON Schema's `maxLength` counts them, so that the OpenAPI document says what the validator does.
 */
import { z } from 'zod'
import { ID_PREFIXES, type RecordKind } from './ids.ts'
import { LIST_LIMIT } from './limits.ts'

/** Text that can be stored and shown: well-formed Unicode, no NUL. */
export function text(bound: { min?: number; max: number }) {
  const { min = 0, max } = bound
  const range = min === 0 ? `at most ${max} characters` : `${min} to ${max} characters`
  return z
    .string(`expected a string of ${range}`)
    .refine((value) => value.isWellFormed() && !value.includes('\0'), 'expected well-formed Unicode without NUL')
    .refine((value) => hasLength(value, min, max), `expected ${range}`)
    .meta({ ...(min > 0 ? { minLength: min } : {}), maxLength: max, pattern: '^[^\\u0000]*$' })
}

function hasLength(value: string, min: number, max: number): boolean {
  // Code points are at least half and at most all of the UTF-16 units, so most strings need no walk.
  if (value.length > 2 * max) return false
  if (value.length <= max && value.length >= 2 * min) return true
  const characters = [...value].length
  return characters >= min && characters <= max
}

/** Text bounded by its size in UTF-8, which JSON Schema cannot say: its `maxLength` is met by every text that is accepted, and `x-max-bytes` is the bound. */
export function textOfBytes(bound: { min?: number; maxBytes: number; opaque?: boolean }) {
  const { min = 1, maxBytes, opaque = false } = bound
  const range = `${min} to ${maxBytes} bytes of UTF-8`
  return z
    .string(`expected a string of ${range}`)
    .refine(
      (value) => value.isWellFormed() && (opaque || !value.includes('\0')),
      opaque ? 'expected well-formed Unicode' : 'expected well-formed Unicode without NUL',
    )
    .refine((value) => value.length >= min && value.length <= maxBytes && Buffer.byteLength(value, 'utf8') <= maxBytes, `expected ${range}`)
    .meta({ minLength: min, maxLength: maxBytes, 'x-max-bytes': maxBytes, ...(opaque ? {} : { pattern: '^[^\\u0000]*$' }) })
}

/**
 * An id as a caller sends it: any short text, because an id of a wrong form is an id that nothing has, and is answered
 * by the code that says so.
 */
export function idField(kind: RecordKind) {
  return text({ min: 1, max: 100 }).describe(`id that begins with ${ID_PREFIXES[kind]}_`)
}

/** Id in a response. */
export function idView(kind: RecordKind) {
  return z.string().describe(`id that begins with ${ID_PREFIXES[kind]}_; sorts by creation time`)
}

/** `limit` of a list as it stands in a query: a string of digits. */
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

export const hex = (length: number) => z.string().regex(new RegExp(`^[0-9a-f]{${length}}$`), `expected ${length} lower-case hex characters`)

export const unixTime = () => z.int().min(0).describe('Unix seconds, UTC')
export const isoTimeView = () => z.iso.datetime({ offset: true }).describe('ISO 8601 with an offset')
export const countView = { count: z.int().min(0).describe('number of elements in the list') }
