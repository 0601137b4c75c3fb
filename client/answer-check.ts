/**
 * Checks answers by their schemas: a service, or whoever is between, may send anything. Fields that a schema does
 * not name pass as they are, so a service may add some.
 */
import { FORMS, PATTERNS } from './schemas.ts'
import { isObject } from './verify/values.ts'

/**
 * A form of FORMS as JSON Schema has it, but that it names the fields that may be absent, which are fewer than those that
 * are required, and that integers are from 0. `x-forms`: an object has one of several forms, each of which requires fields
 * of its own and fixes some booleans.
 */
export interface Schema {
  $ref?: string
  type?: string | readonly string[]
  properties?: Record<string, Schema>
  optional?: string[]
  'x-forms'?: { required: string[]; const: Record<string, boolean> }[]
  additionalProperties?: Schema
  items?: Schema
  anyOf?: Schema[]
  allOf?: Schema[]
  enum?: readonly string[]
  pattern?: string
  minimum?: number
  maximum?: number
}

const LETTERS: Readonly<Record<string, string>> = {
  ...{
    s: 'string',
    n: 'number',
    i: 'integer',
    t: 'integer',
    b: 'boolean',
    z: 'null',
    a: 'array',
    o: 'object',
  },
}
/** The end of the year 9999 in Unix seconds. */
const LAST_SECOND = 253_402_300_799

/** Reads a form; scripts/docs/client-methods.ts has the notation. */
function readForm(text: string): Schema {
  let at = 0
  /** Takes what matches at the place that is reached; '' if nothing does. */
  const take = (pattern: RegExp): string => {
    pattern.lastIndex = at
    const [taken = ''] = pattern.exec(text) ?? []
    at += taken.length
    return taken
  }
  const readOne = (): Schema => {
    const name = take(/[A-Z]\w*/y)
    if (name !== '') return { $ref: `#/$defs/${name}` }
    const letters = take(/[a-z]+/y)
    const types = [...letters].map((letter) => LETTERS[letter] ?? '')
    const schema: Schema = letters === '' ? {} : { type: types.length === 1 ? (types[0] ?? '') : types }
    if (letters.includes('t')) schema.maximum = LAST_SECOND
    const pattern = take(/\/\d+/y)
    if (pattern !== '') schema.pattern = PATTERNS[Number(pattern.slice(1))] ?? ''
    for (const [bound, name] of [
      [/>\d+/y, 'minimum'],
      [/<\d+/y, 'maximum'],
    ] as const) {
      const taken = take(bound)
      if (taken !== '') schema[name] = Number(taken.slice(1))
    }
    if (take(/\[/y) !== '') schema.items = readAny(/\]/y)
    if (take(/\{/y) !== '') {
      schema.properties = {}
      for (let field = take(/\w+/y); field !== ''; field = take(/\w+/y)) {
        if (take(/\?/y) !== '') (schema.optional ??= []).push(field)
        take(/ /y)
        schema.properties[field] = readAny(/,?/y)
      }
      take(/\}/y)
    }
    if (take(/\*\(/y) !== '') schema.additionalProperties = readAny(/\)/y)
    const forms = take(/#[^#]*#/y)
    if (forms !== '') schema['x-forms'] = forms.slice(1, -1).split(';').map(readWords)
    return schema
  }
  const readMany = (read: () => Schema, sign: RegExp, name: 'anyOf' | 'allOf'): Schema => {
    const parts = [read()]
    while (take(sign) !== '') parts.push(read())
    return parts.length === 1 ? (parts[0] ?? {}) : { [name]: parts }
  }
  const readAny = (end: RegExp): Schema => {
    const schema = readMany(() => readMany(readOne, /&/y, 'allOf'), /\|/y, 'anyOf')
    take(end)
    return schema
  }
  return readAny(/$/y)
}

function readWords(form: string): { required: string[]; const: Record<string, boolean> } {
  const words = form.split(' ')
  const fixed = words.filter((word) => word.includes('=')).map((word) => word.split('='))
  return {
    required: words.filter((word) => !word.includes('=')),
    const: Object.fromEntries(fixed.map(([name, value]) => [name, value === 'true'])),
  }
}

/** What a value of each type is, and whether one is it. */
const TYPES: Readonly<Record<string, readonly [what: string, isIt: (value: unknown) => boolean]>> = {
  null: ['null', (value) => value === null],
  string: ['text', (value) => typeof value === 'string'],
  number: ['a number', (value) => typeof value === 'number'],
  integer: ['a whole number', (value) => Number.isSafeInteger(value) && Number(value) >= 0],
  boolean: ['true or false', (value) => typeof value === 'boolean'],
  array: ['a list', Array.isArray],
  object: ['an object', isObject],
}

const texts = new Map(FORMS.map((line) => line.split(/ (.*)/) as [name: string, form: string]))
const schemas = new Map<string, Schema>()

/** Returns the schema with this name. An unknown name gives a schema that allows any value. @internal */
export function schemaOf(name: string): Schema {
  const schema = schemas.get(name) ?? readForm(texts.get(name) ?? '')
  schemas.set(name, schema)
  return schema
}

/** The schema that a reference names, or the schema itself. @internal */
export const resolveRef = (schema: Schema): Schema =>
  schema.$ref === undefined ? schema : schemaOf(schema.$ref.slice('#/$defs/'.length))

/**
 * What is wrong with a value, beginning with its place in the answer: `posts[2].at: expected a whole number`.
 * Undefined if nothing is.
 * @internal
 */
export function findProblem(schema: Schema, value: unknown, path = ''): string | undefined {
  const { type, anyOf, allOf, enum: values, ...bounds } = resolveRef(schema)
  const { pattern, minimum = -Infinity, maximum = Infinity } = bounds
  const problem = (what: string): string => `${path === '' ? 'it' : path}: expected ${what}`
  if (anyOf !== undefined && anyOf.every((form) => findProblem(form, value, path) !== undefined))
    return findProblem(anyOf[0] ?? {}, value, path)
  for (const part of allOf ?? []) {
    const found = findProblem(part, value, path)
    if (found !== undefined) return found
  }
  if (type === undefined) return undefined
  const types = [type].flat()
  if (!types.some((one) => TYPES[one]?.[1](value)))
    return problem(types.map((one) => TYPES[one]?.[0] ?? one).join(' or '))
  if (values !== undefined && !values.includes(String(value))) return problem(`one of ${values.join(', ')}`)
  if (typeof value === 'string' && pattern !== undefined && !patternOf(pattern).test(value))
    return problem(`text of the form ${pattern}`)
  if (typeof value === 'number' && (value < minimum || value > maximum))
    return problem(`a number from ${minimum} to ${maximum}`)
  return findProblemWithin(resolveRef(schema), value, path)
}

/** What is wrong with a part of a list or an object. */
function findProblemWithin(schema: Schema, value: unknown, path: string): string | undefined {
  const { properties = {}, optional = [], additionalProperties: others, items, 'x-forms': forms } = schema
  if (Array.isArray(value)) return firstProblem(value.entries(), (index) => [items, `${path}[${index}]`])
  if (!isObject(value)) return undefined
  const placeOf = (name: string): string => (path === '' ? name : `${path}.${name}`)
  const has = (name: string): boolean => value[name] !== undefined
  const isOf = (form: NonNullable<typeof forms>[number]): boolean =>
    form.required.every(has) && Object.entries(form.const).every(([name, one]) => value[name] === one)
  const missing = Object.keys(properties).find((name) => !has(name) && !optional.includes(name))
  if (missing !== undefined) return `${placeOf(missing)}: expected ${describe(properties[missing])}`
  if (forms !== undefined && !forms.some(isOf))
    return `${path === '' ? 'it' : path}: expected ${forms.map((form) => form.required.join(', ')).join('; or ')}`
  return firstProblem(Object.entries(value), (name) => [properties[name] ?? others, placeOf(name)])
}

/** What is wrong with the first part that isn't as its schema says; a part without a schema is right. */
function firstProblem<Key>(
  parts: Iterable<[Key, unknown]>,
  schemaOf: (key: Key) => [schema: Schema | undefined, path: string],
): string | undefined {
  for (const [key, part] of parts) {
    const [schema, path] = schemaOf(key)
    const problem = schema === undefined || part === undefined ? undefined : findProblem(schema, part, path)
    if (problem !== undefined) return problem
  }
  return undefined
}

const describe = (schema: Schema = {}): string =>
  [resolveRef(schema).type ?? []]
    .flat()
    .map((one) => TYPES[one]?.[0] ?? one)
    .join(' or ') || 'a value'

/** Expressions by their patterns: there are few, and a list checks each for every element. */
const compiled = new Map<string, RegExp>()

function patternOf(pattern: string): RegExp {
  const known = compiled.get(pattern) ?? new RegExp(pattern, 'u')
  compiled.set(pattern, known)
  return known
}
