/*
 * MongoDB's filters, sort orders and projections, as far as the modelled stores use them. Whatever isn't
 * known here throws: a guess would make the model agree with the code and not with MongoDB.
 */

export type Doc = { readonly [field: string]: unknown }

/** Thrown for what the model doesn't know. */
export class NotModelled extends Error {
  override name = 'NotModelled'
}

const TYPE_ORDER = [
  'missing',
  'null',
  'number',
  'string',
  'object',
  'array',
  'binary',
  'boolean',
  'date',
] as const

/** The type by which MongoDB tells values apart, in the order in which it sorts them. */
export function typeOf(value: unknown): (typeof TYPE_ORDER)[number] {
  if (value === undefined) return 'missing'
  if (value === null) return 'null'
  if (typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean')
    return typeof value as 'string'
  if (Array.isArray(value)) return 'array'
  if (value instanceof Date) return 'date'
  if (value instanceof Uint8Array) return 'binary'
  if (typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value) as null))
    return 'object'
  throw new NotModelled(`a value of this kind: ${String(value)}`)
}

/** Below 0, 0 or above 0, as MongoDB sorts two values. */
export function compareValues(a: unknown, b: unknown): number {
  const [typeA, typeB] = [typeOf(a), typeOf(b)]
  if (typeA !== typeB) return TYPE_ORDER.indexOf(typeA) - TYPE_ORDER.indexOf(typeB)
  if (typeA === 'missing' || typeA === 'null') return 0
  if (typeA === 'string') return Buffer.compare(Buffer.from(a as string), Buffer.from(b as string))
  if (typeA === 'binary') return Buffer.compare(a as Uint8Array, b as Uint8Array)
  if (typeA === 'object' || typeA === 'array') {
    if (isEqual(a, b)) return 0
    throw new NotModelled('an order of objects or arrays')
  }
  return Number(a) - Number(b)
}

export function isEqual(a: unknown, b: unknown): boolean {
  const type = typeOf(a)
  if (type !== typeOf(b)) return false
  if (type === 'array') {
    const [as, bs] = [a as unknown[], b as unknown[]]
    return as.length === bs.length && as.every((value, place) => isEqual(value, bs[place]))
  }
  if (type === 'object') {
    // The order of fields counts.
    const [as, bs] = [Object.entries(a as object), Object.entries(b as object)]
    return (
      as.length === bs.length &&
      as.every(([name, value], place) => name === bs[place]?.[0] && isEqual(value, bs[place][1]))
    )
  }
  return compareValues(a, b) === 0
}

/** Every value that a path leads to, through arrays, an array beside its elements; [undefined] if none. */
export function valuesAt(doc: unknown, path: string): unknown[] {
  let found: unknown[] = [doc]
  const parts = path.split('.')
  for (const part of parts)
    found = found.flatMap((value) => {
      if (Array.isArray(value)) {
        if (/^\d+$/.test(part)) return value[Number(part)] === undefined ? [] : [value[Number(part)]]
        return value.filter((element) => typeOf(element) === 'object').map((element: Doc) => element[part])
      }
      return typeOf(value) === 'object' ? [(value as Doc)[part]] : [undefined]
    })
  const values = found.flatMap((value) => (Array.isArray(value) ? [value, ...(value as unknown[])] : [value]))
  return values.length === 0 ? [undefined] : values
}

/** A copy as the server stores it: of a mongoose document, what it gives to the driver. */
export function copy<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  const given: unknown = 'toBSON' in value && typeof value.toBSON === 'function' ? value.toBSON() : value
  if (Array.isArray(given)) return given.map((element: unknown) => copy(element)) as T
  if (given instanceof Date) return new Date(given.getTime()) as T
  if (given instanceof Uint8Array) return Buffer.from(given) as T
  if (typeOf(given) !== 'object') return given as T
  const fields = Object.entries(given as Doc)
  if (fields.some(([, field]) => field === undefined)) throw new NotModelled('a field that is undefined')
  return Object.fromEntries(fields.map(([name, field]) => [name, copy(field)])) as T
}

const isOperators = (condition: unknown): condition is Doc =>
  typeOf(condition) === 'object' && Object.keys(condition as object).some((name) => name.startsWith('$'))

/** Values of another type are neither below nor above; null stands for a missing value too. */
const order =
  (holds: (compared: number) => boolean) =>
  (values: unknown[], than: unknown): boolean =>
    values
      .map((value) => (than === null ? (value ?? null) : value))
      .some((value) => typeOf(value) === typeOf(than) && holds(compareValues(value, than)))

/** null stands for a missing value too. */
const equals = (values: unknown[], wanted: unknown): boolean =>
  values.some((value) => isEqual(value, wanted) || (wanted === null && value === undefined))

const OPERATORS: Record<string, (values: unknown[], operand: unknown) => boolean> = {
  $eq: equals,
  $ne: (values, operand) => !equals(values, operand),
  $in: (values, operand) => (operand as unknown[]).some((wanted) => equals(values, wanted)),
  $nin: (values, operand) => !(operand as unknown[]).some((wanted) => equals(values, wanted)),
  $gt: order((compared) => compared > 0),
  $gte: order((compared) => compared >= 0),
  $lt: order((compared) => compared < 0),
  $lte: order((compared) => compared <= 0),
  $exists: (values, operand) => values.some((value) => value !== undefined) === Boolean(operand),
  $regex: (values, operand) =>
    values.some((value) => typeof value === 'string' && new RegExp(operand as string).test(value)),
}

/** Whether a document matches a filter. */
export function matches(doc: unknown, filter: Doc): boolean {
  return Object.entries(filter).every(([path, condition]) => {
    if (path === '$and') return (condition as Doc[]).every((part) => matches(doc, part))
    if (path === '$or') return (condition as Doc[]).some((part) => matches(doc, part))
    if (path.startsWith('$')) throw new NotModelled(`the condition ${path}`)
    return holds(valuesAt(doc, path), condition)
  })
}

function holds(values: unknown[], condition: unknown): boolean {
  if (!isOperators(condition)) return equals(values, condition)
  return Object.entries(condition).every(([name, operand]) => {
    if (name === '$not') return !holds(values, operand)
    const operator = OPERATORS[name]
    if (operator === undefined) throw new NotModelled(`the operator ${name}`)
    return operator(values, operand)
  })
}

/** Whether an element of an array matches the condition of a $pull. */
export function isPulled(element: unknown, condition: unknown): boolean {
  if (isOperators(condition)) return holds([element], condition)
  return typeOf(condition) === 'object' ? matches(element, condition as Doc) : isEqual(element, condition)
}

/** Compares two documents by a sort; of an array, its lowest element ascending and its highest descending. */
export function bySort(sort: Readonly<Record<string, number>>) {
  const keys = Object.entries(sort).map(([path, way]) => ({ path, way }))
  return (a: Doc, b: Doc): number => {
    for (const { path, way } of keys) {
      const compared = compareValues(sortValue(a, path, way), sortValue(b, path, way))
      if (compared !== 0) return compared * way
    }
    return 0
  }
}

function sortValue(doc: Doc, path: string, way: number): unknown {
  const values = valuesAt(doc, path).filter((value) => !Array.isArray(value))
  return (
    values.reduce((best, value) => (compareValues(value, best) * way < 0 ? value : best), values[0]) ?? null
  )
}

/** What a projection leaves of a document. */
export function project(doc: Doc, projection: Readonly<Record<string, unknown>> | undefined): Doc {
  const fields = Object.entries(projection ?? {})
  if (fields.length === 0) return doc
  if (fields.some(([path, way]) => path.includes('.') || ![0, 1, true, false].includes(way as number)))
    throw new NotModelled(`the projection ${JSON.stringify(projection)}`)
  const isTaken = fields.some(([path, way]) => path !== '_id' && Boolean(way))
  const kept = Object.entries(doc).filter(([name]) => {
    const way = projection?.[name]
    return name === '_id' ? way === undefined || Boolean(way) : isTaken ? Boolean(way) : way === undefined
  })
  // One that names only `_id: 1` takes nothing else.
  const onlyId = fields.length === 1 && fields[0]?.[0] === '_id' && Boolean(fields[0][1])
  return Object.fromEntries(onlyId ? kept.filter(([name]) => name === '_id') : kept)
}
