import { expect, test } from 'vitest'
import { createSeededNumbers, type SeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import type { Call } from '../harness/world/history.ts'
import { linearize, type Model, type Operation } from '../harness/auditor/linearize.ts'
import { checkObjects } from '../harness/auditor/objects.ts'
import { FULL } from '../support/full.ts'

interface Access extends Operation {
  writes?: number
  reads?: number
}
const register: Model<number, Access> = {
  initial: 0,
  apply: (state, { writes = state, reads }) => (reads === undefined || reads === writes ? writes : undefined),
  isWrite: ({ writes }) => writes !== undefined,
  nameOf: String,
}
const judge = (...operations: Access[]): string => linearize(register, operations).kind

test('one operation after the other is judged by the last write', () => {
  const write = { fromMs: 0, toMs: 1, writes: 5 }
  expect(judge(write, { fromMs: 2, toMs: 3, reads: 5 })).toBe('linearizable')
  expect(judge(write, { fromMs: 2, toMs: 3, reads: 0 })).toBe('impossible')
})

test('operations at the same time may have happened in either order, the same for all', () => {
  const writes = [
    { fromMs: 0, toMs: 10, writes: 1 },
    { fromMs: 0, toMs: 10, writes: 2 },
  ]
  const read = (fromMs: number, reads: number): Access => ({ fromMs, toMs: fromMs + 1, reads })
  expect(judge(...writes, read(11, 1), read(13, 1))).toBe('linearizable')
  expect(judge(...writes, read(11, 2), read(13, 2))).toBe('linearizable')
  expect(judge(...writes, read(11, 1), read(13, 2))).toBe('impossible')
})

test('a write without an answer takes effect at any later time, or never, but not twice', () => {
  const write = { fromMs: 0, writes: 1 }
  const read = (fromMs: number, reads: number): Access => ({ fromMs, toMs: fromMs + 1, reads })
  expect(judge(write, read(5, 0), read(7, 1))).toBe('linearizable')
  expect(judge(write, read(5, 0), read(7, 0))).toBe('linearizable')
  expect(judge(write, read(5, 1), read(7, 0))).toBe('impossible')
})

test('an impossible history tells which operations cannot come next', () => {
  const stale = { fromMs: 4, toMs: 5, reads: 1 }
  const judged = linearize(register, [
    { fromMs: 0, toMs: 1, writes: 1 },
    { fromMs: 2, toMs: 3, writes: 2 },
    stale,
  ])
  expect(judged).toEqual({ kind: 'impossible', placed: 2, stuck: [stale] })
})

test('too many steps are told as undecided', () => {
  const operations = Array.from({ length: 10 }, (_, index) => ({
    fromMs: index,
    toMs: index + 0.5,
    reads: 0,
  }))
  expect(linearize(register, operations, 5)).toEqual({ kind: 'undecided' })
})

const SMALL = FULL ? 3_000 : 500
test(`agrees with trying every order, on ${SMALL} small histories of both kinds`, () => {
  const numbers = createSeededNumbers('linearize', new Uint8Array(8))
  const counts = { linearizable: 0, impossible: 0, undecided: 0 }
  for (let round = 0; round < SMALL; round++) {
    const operations = Array.from({ length: numbers.between(1, 6) }, () => randomAccess(numbers))
    const { kind } = linearize(register, operations)
    counts[kind]++
    expect(kind === 'linearizable', JSON.stringify(operations)).toBe(someOrderFits(operations, 0))
  }
  expect(counts.undecided).toBe(0)
  expect(Math.min(counts.linearizable, counts.impossible)).toBeGreaterThan(SMALL / 10)
})

function randomAccess(numbers: SeededNumbers): Access {
  const fromMs = numbers.below(12)
  const value = numbers.below(3)
  if (numbers.below(2) === 0) return { fromMs, toMs: fromMs + numbers.below(6), reads: value }
  return { fromMs, writes: value, ...(numbers.below(4) === 0 ? {} : { toMs: fromMs + numbers.below(6) }) }
}

function someOrderFits(left: readonly Access[], state: number): boolean {
  if (left.every(({ toMs }) => toMs === undefined)) return true
  return left.some((next) => {
    const others = left.filter((one) => one !== next)
    if (others.some(({ toMs = Number.POSITIVE_INFINITY }) => toMs < next.fromMs)) return false
    const after = register.apply(state, next)
    return after !== undefined && someOrderFits(others, after)
  })
}

const LONG = FULL ? 100_000 : 5_000
test(`judges ${LONG} operations on one object, some four at a time, and finds the one stale answer`, () => {
  const numbers = createSeededNumbers('long', new Uint8Array(8))
  const operations: Access[] = []
  let state = 0
  for (let at = 0; operations.length < LONG; at++) {
    // Each takes effect at its own time `at`, somewhere between its call and its answer.
    const during = { fromMs: at - numbers.below(4), toMs: at + numbers.below(4) }
    if (numbers.below(3) > 0) operations.push({ ...during, reads: state })
    else operations.push({ ...during, writes: (state = numbers.below(1_000)) })
  }
  expect(judge(...operations)).toBe('linearizable')
  const at = operations.findIndex(({ reads }, index) => index > 0.9 * LONG && reads !== undefined)
  const stale = operations.with(at, { ...operations[at], reads: 2_000 } as Access)
  expect(linearize(register, stale)).toMatchObject({ kind: 'impossible' })
})

const IDS = new Map([
  ['a1', 'ag_1'],
  ['a2', 'ag_2'],
])
let clockMs = 0
/** A call that ends before the next one begins. */
const call = (fields: Partial<Call>): Call => ({
  ...{
    n: 0,
    atMs: (clockMs += 10_000),
    tookMs: 5,
    who: 'a1',
    did: 'read',
    method: 'GET',
    path: '/',
    status: 200,
  },
  ...fields,
})
const seen = (object: string, value: string | number): Partial<Call> => ({ seen: [{ object, value }] })
const problemsOf = (...calls: Call[]): number => checkObjects(calls, IDS).length

test('finds an answer with a profile that had been replaced', () => {
  const write = call({ did: 'profile', body: { name: 'new' } })
  expect(problemsOf(write, call(seen('profile ag_1', 'new')))).toBe(0)
  expect(problemsOf(write, call(seen('profile ag_1', 'null')))).toBe(1)
})

test('finds a verdict that an answer after it leaves out', () => {
  const verdict = (who: string, outcome: string, counted: string): Call =>
    call({ who, did: 'verdict', body: { claim_id: 'cl_1', outcome }, ...seen('verdicts cl_1', counted) })
  expect(problemsOf(verdict('a1', 'true', '1 0 0'), verdict('a2', 'false', '1 1 0'))).toBe(0)
  expect(problemsOf(verdict('a1', 'true', '1 0 0'), verdict('a1', 'void', '0 0 1'))).toBe(0)
  expect(problemsOf(verdict('a1', 'true', '1 0 0'), verdict('a2', 'false', '0 1 0'))).toBe(1)
})

test('judges a claim on which thirty verdicts got no answer, and one or none of them took effect', () => {
  const outcomes = ['true', 'false', 'void']
  const unanswered = Array.from({ length: 30 }, (_, at) => ({
    ...call({ did: 'verdict', who: `n${at % 20}`, body: { claim_id: 'cl_1', outcome: outcomes[at % 3] } }),
    status: 503,
  }))
  const read = (counted: string): Call => call(seen('verdicts cl_1', counted))
  const before = Array.from({ length: 8 }, () => read('0 0 0'))
  expect(problemsOf(...unanswered, ...before, read('0 0 1'))).toBe(0)
  expect(problemsOf(...unanswered, ...before)).toBe(0)
})

test('knows that a verdict which got no answer and is not stored was never given', () => {
  const body = { claim_id: 'cl_1', outcome: 'true', evidence: 'n1-7.' }
  const unanswered = { ...call({ did: 'verdict', who: 'n1', body }), status: 503 }
  const counted = call(seen('verdicts cl_1', '1 0 0'))
  const judge = (...evidence: string[]): number =>
    checkObjects([unanswered, counted], IDS, new Set(), new Set(evidence)).length
  expect(judge('n1-7.')).toBe(0)
  expect(judge('n1-8.')).toBe(1)
})

test('finds an order that goes back, or is accepted twice', () => {
  const accept = (): Call =>
    call({ did: 'accept', body: { order_id: 'or_1' }, ...seen('order or_1', 'released') })
  const read = (status: string): Call => call(seen('order or_1', status))
  const deliver = (): Call =>
    call({ did: 'deliver', body: { order_id: 'or_1' }, ...seen('order or_1', 'delivered') })
  expect(problemsOf(read('paid'), deliver(), accept(), read('paid_out'))).toBe(0)
  expect(problemsOf(deliver(), read('paid'))).toBe(1)
  expect(problemsOf(deliver(), accept(), accept())).toBe(1)
  expect(problemsOf(read('paid'), read('delivered'))).toBe(1)
  const disputed = [read('paid'), read('disputed')]
  expect(problemsOf(...disputed)).toBe(1)
  const judgeTakenBack = (...calls: Call[]) => checkObjects(calls, IDS, new Set(['or_1'])).length
  expect(judgeTakenBack(...disputed)).toBe(0)
  expect(judgeTakenBack(...disputed, read('paid'))).toBe(1)
})

test('finds a banned agent that was served, and one that was refused before the ban', () => {
  const ban = call({ who: 'operator', did: 'ban', path: 'ban ag_1' })
  const served = (): Call => call({ token: 'x' })
  const refused = (): Call => call({ token: 'x', status: 403, error: 'banned' })
  const before = served()
  const ordered = (...calls: Call[]): Call[] => calls.map((one, index) => ({ ...one, atMs: index * 10_000 }))
  expect(problemsOf(...ordered(before, ban, refused()))).toBe(0)
  expect(problemsOf(...ordered(ban, served()))).toBe(1)
  expect(problemsOf(...ordered(refused(), ban))).toBe(1)
})

test('finds a token that was taken after its rotation', () => {
  const rotate = call({ did: 'rotate', token: 'old', body: { new_token: 'sk' } })
  expect(
    problemsOf(call({ token: 'old' }), rotate, call({ token: 'old', status: 401, error: 'invalid_token' })),
  ).toBe(1)
  const later = { ...rotate, atMs: clockMs + 10_000 }
  expect(problemsOf(later, { ...call({ token: 'old' }), atMs: clockMs + 20_000 })).toBe(1)
})

test('finds a pass that got shorter, a log that shrank and a seal with two roots', () => {
  for (const object of ['pass a1', 'log', 'seals', 'events a1']) {
    expect(problemsOf(call(seen(object, 7)), call(seen(object, 7)), call(seen(object, 8)))).toBe(0)
    expect(problemsOf(call(seen(object, 7)), call(seen(object, 6)))).toBe(1)
  }
  expect(problemsOf(call(seen('seal 1', 'aa')), call(seen('seal 1', 'ab')))).toBe(1)
})
