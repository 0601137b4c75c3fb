/**
 * Whether concurrent operations on one object could have happened one after the other, each at some time
 * between its call and its answer: the search of Wing and Gong, "Testing and Verifying Concurrent Objects"
 * (1993), with Lowe's memory of places that led nowhere, "Testing for linearizability" (2017).
 */
export interface Operation {
  fromMs: number
  /** When the answer came; absent if none came: the operation may take effect at any later time, or never. */
  toMs?: number
}

/** An object's rules. `State` is a value that is never changed in place. */
export interface Model<State, Op extends Operation> {
  readonly initial: State
  /** @returns the state after the operation, or undefined if its answer cannot come in this state */
  apply(state: State, operation: Op): State | undefined
  /** Whether an operation may change the object. */
  isWrite(operation: Op): boolean
  /** A text that two states share only if they are equal. */
  nameOf(state: State): string
  /**
   * A text that two unanswered operations share only if each can stand for the other in every order; undefined
   * if no other can. Of those that share it only the first that is left is tried.
   */
  alike?(operation: Op): string | undefined
  /** Whether an operation's answer may still come after this state, by whatever comes in between; yes if absent. */
  mayStillCome?(state: State, operation: Op): boolean
}

export type Judgement<Op> =
  | { kind: 'linearizable' }
  /** `stuck`: after the longest order that was found, none of these can come next. */
  | { kind: 'impossible'; placed: number; stuck: Op[] }
  /** Nothing was decided within the limit of steps. */
  | { kind: 'undecided' }

/** Some 100 bytes are kept for each step. */
const MOST_STEPS = 2_000_000

/** A place in the search: the state so far, and the operations that may come next. */
interface Place<State> {
  state: State
  /** Indexes into the operations, which are sorted by their calls. */
  next: number[]
  tried: number
  /** The index of the operation that led here; -1 for the first place. */
  operation: number
  /** How many unanswered operations come directly before. */
  inRow: number
}

/**
 * So many unanswered operations may come between two answered ones, one limit after the other: most took no
 * effect, and of a few that did not many at once. With each limit but the last they are tried in several
 * orders, since a wrong choice may show only much later; each of these searches gets a part of the steps.
 */
const IN_ROW = [1, 2, 4, 8]
const ORDERS = 12
const PARTS = 100

/**
 * Searches, depth first, for an order of all answered operations, and of any of the unanswered ones, that the
 * model allows and in which each takes effect between its call and its answer.
 *
 * @param mostSteps after how many steps, forward and back, the search ends undecided
 */
export function linearize<State, Op extends Operation>(
  model: Model<State, Op>,
  operations: readonly Op[],
  mostSteps = MOST_STEPS,
): Judgement<Op> {
  const sorted = operations.toSorted((one, other) => one.fromMs - other.fromMs)
  const isAllAnswered = sorted.every(({ toMs }) => toMs !== undefined)
  const part = Math.min(mostSteps, Math.max(mostSteps / PARTS, 2 * sorted.length))
  for (const mostInRow of isAllAnswered ? [] : IN_ROW)
    for (let order = 0; order < ORDERS; order++) {
      const judgement = search(model, sorted, { mostInRow, order, mostSteps: part })
      if (judgement !== undefined) return judgement
    }
  const limits = { mostInRow: Number.POSITIVE_INFINITY, order: 0, mostSteps }
  return search(model, sorted, limits) ?? { kind: 'undecided' }
}

interface Limits {
  mostInRow: number
  /** Which order unanswered operations are tried in. */
  order: number
  mostSteps: number
}

/** @returns undefined if nothing was decided within the limits */
function search<State, Op extends Operation>(
  model: Model<State, Op>,
  sorted: readonly Op[],
  { mostInRow, order, mostSteps }: Limits,
): Judgement<Op> | undefined {
  const isUnanswered = (index: number): boolean => sorted[index]?.toMs === undefined
  const placed = createPlaced(
    sorted,
    sorted.map((operation, index) => (isUnanswered(index) ? model.alike?.(operation) : undefined)),
  )
  const visited = new Set<string>()
  const openPlace = (state: State, operation: number, inRow: number): Place<State> => ({
    state,
    next: chooseNext(model, state, sorted, placed.listNext(), order),
    tried: 0,
    operation,
    inRow,
  })
  const path = [openPlace(model.initial, -1, 0)]
  let longest = { placed: -1, stuck: [] as number[] }
  let isCut = false
  for (let steps = 0; steps < mostSteps; steps++) {
    if (placed.hasAllAnswered()) return { kind: 'linearizable' }
    const place = path.at(-1)
    if (place === undefined) {
      if (isCut) return undefined
      const stuck = longest.stuck.map((index) => sorted[index] as Op)
      return { kind: 'impossible', placed: longest.placed, stuck }
    }
    if (path.length - 1 > longest.placed) longest = { placed: path.length - 1, stuck: place.next }
    const index = place.next[place.tried++]
    if (index === undefined) {
      path.pop()
      placed.remove(place.operation)
      continue
    }
    const inRow = isUnanswered(index) ? place.inRow + 1 : 0
    if (inRow > mostInRow) {
      isCut = true
      continue
    }
    const state = model.apply(place.state, sorted[index] as Op)
    if (state === undefined) continue
    // An operation without an answer and without an effect may as well not have happened.
    if (inRow > 0 && model.nameOf(state) === model.nameOf(place.state)) continue
    // The first of the next ones by their answers has to come, and all others after it.
    const [first] = place.next
    if (first !== undefined && first !== index && !isUnanswered(first))
      if (model.mayStillCome?.(state, sorted[first] as Op) === false) continue
    placed.add(index)
    const name = `${placed.name()} ${mostInRow === Number.POSITIVE_INFINITY ? '' : inRow} ${model.nameOf(state)}`
    if (visited.has(name)) {
      placed.remove(index)
      continue
    }
    visited.add(name)
    path.push(openPlace(state, index, inRow))
  }
  return undefined
}

/**
 * Of the operations that may come next, returns those that have to be tried, in the order of their answers.
 * If a read among them fits the state, it alone is returned, since it changes nothing: every order of the
 * others that works with it later works with it now.
 */
function chooseNext<State, Op extends Operation>(
  model: Model<State, Op>,
  state: State,
  sorted: readonly Op[],
  next: readonly number[],
  order: number,
): number[] {
  const name = model.nameOf(state)
  const harmless = next.find((index) => {
    const operation = sorted[index] as Op
    if (model.isWrite(operation)) return false
    const after = model.apply(state, operation)
    return after !== undefined && model.nameOf(after) === name
  })
  const endOf = (index: number): number => sorted[index]?.toMs ?? UNANSWERED + rankIn(order, index)
  return harmless === undefined ? next.toSorted((one, other) => endOf(one) - endOf(other)) : [harmless]
}

/** Later than any answer. */
const UNANSWERED = 2 ** 52
/** The place of an operation in an order: the first order is that of the calls, the others look random. */
const rankIn = (order: number, index: number): number =>
  order === 0 ? index : Math.imul(index + 1, 2_654_435_761 * (2 * order + 1)) >>> 0

/**
 * Makes a set of the operations that have been placed, at first empty. Nearly all lie before `low`, since few
 * run at the same time, so its name is short.
 *
 * @param alike by index, what unanswered operations share that can stand for each other
 */
function createPlaced(sorted: readonly Operation[], alike: readonly (string | undefined)[]) {
  const isPlaced = new Uint8Array(sorted.length)
  const answered = sorted.flatMap(({ toMs }, index) => (toMs === undefined ? [] : [index]))
  const unanswered = sorted.flatMap(({ toMs }, index) => (toMs === undefined ? [index] : []))
  /** Answered operations beyond `low` that are placed. */
  const beyond = new Set<number>()
  /** Unanswered operations that are placed. */
  const late = new Set<number>()
  /** All answered operations before this position in `answered` are placed. */
  let low = 0
  const isAnswered = (index: number): boolean => sorted[index]?.toMs !== undefined
  const positions = new Map(answered.map((index, position) => [index, position]))

  return {
    add(index: number): void {
      isPlaced[index] = 1
      if (!isAnswered(index)) late.add(index)
      else beyond.add(index)
      for (let next = answered[low]; next !== undefined && isPlaced[next] === 1; next = answered[low]) {
        beyond.delete(next)
        low++
      }
    },
    remove(index: number): void {
      if (index < 0) return
      isPlaced[index] = 0
      late.delete(index)
      beyond.delete(index)
      const position = positions.get(index)
      if (position === undefined) return
      while (low > position) {
        low--
        const freed = answered[low] as number
        if (freed !== index) beyond.add(freed)
      }
    },
    hasAllAnswered: (): boolean => low === answered.length,
    /** A text that two sets share only if they are equal. */
    name: (): string => `${low} ${ascending(beyond)} ${ascending(late)}`,
    /** The operations that may come next: those called before any other that isn't placed had its answer. */
    listNext(): number[] {
      let earliestEnd = Number.POSITIVE_INFINITY
      const next: number[] = []
      for (let at = low; at < answered.length; at++) {
        const index = answered[at] as number
        const { fromMs, toMs = Number.POSITIVE_INFINITY } = sorted[index] as Operation
        if (fromMs > earliestEnd) break
        if (isPlaced[index] === 1) continue
        next.push(index)
        earliestEnd = Math.min(earliestEnd, toMs)
      }
      const isPossible = (index: number): boolean =>
        isPlaced[index] === 0 && (sorted[index] as Operation).fromMs <= earliestEnd
      const met = new Set<string>()
      const isFirstOfItsKind = (index: number): boolean => {
        const kind = alike[index]
        if (kind === undefined) return true
        const isFirst = !met.has(kind)
        met.add(kind)
        return isFirst
      }
      return [...next.filter(isPossible), ...unanswered.filter(isPossible).filter(isFirstOfItsKind)]
    },
  }
}

const ascending = (indexes: ReadonlySet<number>): string =>
  [...indexes].sort((one, other) => one - other).join()
