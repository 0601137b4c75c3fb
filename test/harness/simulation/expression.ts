import {
  bySort,
  compareValues,
  isEqual,
  matches,
  NotModelled,
  project,
  typeOf,
  valuesAt,
  type Doc,
} from './query.ts'

/** MongoDB's expressions and aggregation stages, as far as the modelled stores use them. */

const OPERATORS: Record<string, (operands: unknown[]) => unknown> = {
  $eq: ([a, b]) => isEqual(a, b),
  $ne: ([a, b]) => !isEqual(a, b),
  $lt: ([a, b]) => compareValues(a, b) < 0,
  $gt: ([a, b]) => compareValues(a, b) > 0,
  $and: (operands) => operands.every(isTrue),
  $or: (operands) => operands.some(isTrue),
  $not: ([a]) => !isTrue(a),
  $cond: ([condition, yes, no]) => (isTrue(condition) ? yes : no),
  $ifNull: (operands) => operands.find((value) => value !== null && value !== undefined) ?? operands.at(-1),
  $concatArrays: (operands) => operands.flat(),
  $size: ([list]) => (list as unknown[]).length,
  $add: (operands) =>
    operands.some((value) => value instanceof Date)
      ? new Date(operands.reduce<number>((sum, value) => sum + Number(value), 0))
      : operands.reduce<number>((sum, value) => sum + (value as number), 0),
  $subtract: ([a, b]) => (a as number) - (b as number),
  $concat: (operands) => operands.join(''),
  $strLenCP: ([text]) => (text as string).length,
  $substrCP: ([text, from, count]) =>
    (text as string).slice(from as number, (from as number) + (count as number)),
  // Exact up to 34 digits, as Decimal128 is.
  $toDecimal: ([text]) => BigInt(text as string),
}

const isTrue = (value: unknown): boolean => ![undefined, null, false, 0].includes(value as null)

export function compute(expression: unknown, doc: Doc, nowMs: number): unknown {
  if (typeof expression === 'string' && expression.startsWith('$')) {
    if (expression === '$$NOW') return new Date(nowMs)
    if (expression.startsWith('$$')) throw new NotModelled(`the variable ${expression}`)
    return fieldAt(doc, expression.slice(1))
  }
  if (Array.isArray(expression)) return expression.map((one) => compute(one, doc, nowMs))
  if (typeOf(expression) !== 'object') return expression
  const entries = Object.entries(expression as Doc)
  const [name, operand] = entries[0] ?? ['', undefined]
  if (!name.startsWith('$'))
    return Object.fromEntries(entries.map(([key, value]) => [key, compute(value, doc, nowMs)]))
  if (name === '$literal') return operand
  const operator = OPERATORS[name]
  if (operator === undefined) throw new NotModelled(`the expression ${name}`)
  return operator([operand].flat().map((one) => compute(one, doc, nowMs)))
}

/** A path's value; through an array, the values of its elements. */
function fieldAt(doc: Doc, path: string): unknown {
  if (!path.includes('.')) return doc[path]
  const [head = '', ...rest] = path.split('.')
  const value = doc[head]
  if (value === undefined) return undefined
  if (!Array.isArray(value)) return fieldAt(value as Doc, rest.join('.'))
  return value.flatMap((element) => valuesAt(element, rest.join('.')))
}

/** What the stages of an aggregation make of documents. @param rowsOf reads another collection */
export function aggregate(
  docs: readonly Doc[],
  stages: readonly Doc[],
  rowsOf: (collection: string) => readonly Doc[],
  nowMs: number,
): Doc[] {
  let found = [...docs]
  for (const stage of stages) {
    const [name, given] = Object.entries(stage)[0] as [string, never]
    if (name === '$match') found = found.filter((doc) => matches(doc, given))
    else if (name === '$limit') found = found.slice(0, given)
    else if (name === '$sort') found.sort(bySort(given))
    else if (name === '$unionWith') {
      const { coll, pipeline } = given as { coll: string; pipeline: Doc[] }
      found.push(...aggregate(rowsOf(coll), pipeline, rowsOf, nowMs))
    } else if (name === '$project') found = found.map((doc) => projectStage(doc, given, nowMs))
    else if (name === '$group') found = group(found, given, nowMs)
    else throw new NotModelled(`the stage ${name}`)
  }
  return found
}

function projectStage(doc: Doc, given: Doc, nowMs: number): Doc {
  const plain = Object.entries(given).filter(([, way]) => typeof way === 'number')
  const computed = Object.entries(given).filter(([, way]) => typeof way !== 'number')
  const kept = plain.length === 0 ? { _id: doc['_id'] } : project(doc, Object.fromEntries(plain))
  const values = computed.map(([field, way]) => [field, compute(way, doc, nowMs)] as const)
  return { ...kept, ...Object.fromEntries(values.filter(([, value]) => value !== undefined)) }
}

/** Groups with sums. */
function group(docs: readonly Doc[], { _id: key, ...fields }: Doc, nowMs: number): Doc[] {
  const groups = Map.groupBy(docs, (doc) => JSON.stringify(compute(key, doc, nowMs) ?? null))
  return [...groups].map(([id, members]) => {
    const sums = Object.entries(fields).map(([field, accumulator]) => {
      const [name, operand] = Object.entries(accumulator as Doc)[0] as [string, unknown]
      if (name !== '$sum') throw new NotModelled(`the accumulator ${name}`)
      const values = members.map((doc) => compute(operand, doc, nowMs))
      const isExact = values.some((value) => typeof value === 'bigint')
      const sum = isExact
        ? values.reduce<bigint>((total, value) => total + BigInt(value as bigint | number), 0n)
        : undefined
      return [field, sum ?? values.reduce<number>((total, value) => total + Number(value), 0)]
    })
    return { _id: JSON.parse(id) as unknown, ...Object.fromEntries(sums) }
  })
}
