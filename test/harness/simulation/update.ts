import { compute } from './expression.ts'
import { copy, isEqual, isPulled, NotModelled, typeOf, type Doc } from './query.ts'

type Fields = Record<string, unknown>

/** MongoDB's updates, as far as the modelled stores use them: a document, and what an update makes of it. */
export function applyUpdate(doc: Doc, update: Doc | readonly Doc[], nowMs: number, isInsert = false): Doc {
  const after: Fields = copy(doc)
  if (Array.isArray(update)) {
    let before: Doc = doc
    for (const stage of update as Doc[]) {
      for (const [name, given] of Object.entries(stage)) applyStage(after, before, name, given, nowMs)
      before = copy(after)
    }
    return after
  }
  for (const [name, given] of Object.entries(update)) {
    const operator = OPERATORS[name]
    if (name === '$setOnInsert' && !isInsert) continue
    if (operator === undefined) throw new NotModelled(`the update ${name}`)
    for (const [path, operand] of Object.entries(given as Fields)) {
      if (path === '_id') throw new NotModelled('an update of _id')
      const [at, field] = placeOf(after, path)
      operator(at, field, copy(operand))
    }
  }
  return after
}

/** The document within which a path's last field stands, and that field. */
function placeOf(doc: Fields, path: string): [Fields, string] {
  const [field = '', ...names] = path.split('.').toReversed()
  let place = doc
  for (const name of names.toReversed()) {
    const inner = place[name] ?? {}
    if (typeOf(inner) !== 'object') throw new NotModelled(`an update of the path ${path}`)
    place[name] = inner
    place = inner as Fields
  }
  return [place, field]
}

function applyStage(after: Fields, before: Doc, name: string, given: unknown, nowMs: number): void {
  if (name === '$unset') return [given].flat().forEach((path) => delete after[path as string])
  if (name !== '$set') throw new NotModelled(`the update stage ${name}`)
  for (const [path, expression] of Object.entries(given as Fields)) {
    const value = compute(expression, before, nowMs)
    if (value === undefined) delete after[path]
    else after[path] = copy(value)
  }
}

const arrayAt = (doc: Fields, path: string): unknown[] => {
  const value = doc[path] ?? []
  if (!Array.isArray(value)) throw new NotModelled(`an array's update of ${path}, which is none`)
  return value
}

const OPERATORS: Record<string, (doc: Fields, path: string, operand: unknown) => void> = {
  $set: (doc, path, value) => (doc[path] = value),
  $setOnInsert: (doc, path, value) => (doc[path] = value),
  $unset: (doc, path) => delete doc[path],
  $inc(doc, path, by) {
    const before = doc[path] ?? 0
    if (typeof before !== 'number' || typeof by !== 'number') throw new NotModelled('an $inc of no number')
    doc[path] = before + by
  },
  $push(doc, path, given) {
    const each = typeOf(given) === 'object' ? (given as Fields)['$each'] : undefined
    if (each !== undefined && Object.keys(given as Fields).length > 1)
      throw new NotModelled('a $push with more than $each')
    doc[path] = [...arrayAt(doc, path), ...(each === undefined ? [given] : (each as unknown[]))]
  },
  $pull(doc, path, condition) {
    if (doc[path] !== undefined)
      doc[path] = arrayAt(doc, path).filter((element) => !isPulled(element, condition))
  },
  $addToSet(doc, path, given) {
    const before = arrayAt(doc, path)
    const each = typeOf(given) === 'object' ? (given as Fields)['$each'] : undefined
    const fresh = each === undefined ? [given] : (each as unknown[])
    doc[path] = [...before, ...fresh.filter((value) => !before.some((old) => isEqual(old, value)))]
  },
}

/** The document that an upsert begins with: the filter's equalities. */
export function upsertBase(filter: Doc): Doc {
  const base: Fields = {}
  for (const [path, condition] of Object.entries(filter)) {
    if (path.startsWith('$')) throw new NotModelled(`an upsert by ${path}`)
    if (typeOf(condition) !== 'object') base[path] = condition
    else if (
      !Object.keys(condition as object).every((name) =>
        ['$lt', '$lte', '$gt', '$gte', '$exists'].includes(name),
      )
    )
      throw new NotModelled(`an upsert by ${JSON.stringify(condition)}`)
  }
  return base
}
