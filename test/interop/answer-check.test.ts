import { execFileSync } from 'node:child_process'
import path from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findProblem, resolveRef, schemaOf, type Schema } from '../../client/answer-check.ts'
import { FORMS, PATTERNS } from '../../client/schemas.ts'
import { FULL } from '../support/full.ts'
import { canRunPythonVerifier, PYTHON_VERIFIER } from '../support/run-verifier.ts'

/* Both packages check answers by the same forms: what one takes, the other takes. */

const RUNS = FULL ? 20_000 : 2_000
const PACKAGE = path.resolve(import.meta.dirname, '../../client/python')
const NAMES = FORMS.map((line) => line.split(' ', 1)[0] ?? '')

const PROGRAM = `
import json, sys, types
package = types.ModuleType("agent_network")  # the other files of the package need others
package.__path__ = [sys.argv[1] + "/agent_network"]
sys.modules["agent_network"] = package
from agent_network.answer_check import find_problem
for line in sys.stdin:
    name, value = json.loads(line)
    print(find_problem(name, value) or "")
`

const PREFIXES = ['agt', 'mkt', 'ofr', 'inv', 'clm', 'wrk', 'pst', 'msg', 'vrd', 'pay', 'out', 'ctl', 'ann']
const TEXTS = ['word', '7', 'ab'.repeat(32), 'ab'.repeat(16), `sk_${'0'.repeat(48)}`].concat(
  PREFIXES.map((prefix) => `${prefix}_1`),
)

/** A text of a pattern. */
function textOf(pattern: string): string {
  const found = TEXTS.find((text) => new RegExp(pattern, 'u').test(text))
  if (found === undefined) throw new Error(`no text of this test is of the form ${pattern}`)
  return found
}

/** A value of a form, with all its fields. */
function makeOf(schema: Schema): unknown {
  const { type, anyOf, allOf, properties = {}, items, pattern, minimum = 0, ...rest } = resolveRef(schema)
  if (anyOf !== undefined) return makeOf(anyOf[0] as Schema)
  if (allOf !== undefined) return Object.assign({}, ...allOf.map(makeOf)) as object
  const [one] = [type ?? 'string'].flat()
  if (one === 'object') {
    const fixed = rest['x-forms']?.[0]?.const ?? {}
    const fields = Object.entries(properties).map(([name, field]) => [name, makeOf(field)])
    return { ...(Object.fromEntries(fields) as object), ...fixed }
  }
  if (one === 'array') return items === undefined ? [] : [makeOf(items), makeOf(items)]
  if (one === 'integer' || one === 'number') return minimum
  return one === 'boolean' ? true : one === 'null' ? null : pattern === undefined ? 'text' : textOf(pattern)
}

type Holder = Record<string, unknown>
function placesIn(value: unknown): [Holder, string][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, part]) => [
    [value as Holder, key] as [Holder, string],
    ...placesIn(part),
  ])
}

const JUNK = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  1e300,
  '',
  ' ',
  'a b',
  'é',
  '\u00a0',
  '٣',
  'agt_1',
  'agt_1\n',
  'ab'.repeat(32),
  [],
  {},
  [null],
  { a: 1 },
]

describe.skipIf(!canRunPythonVerifier())('an answer (skipped if there is no python3)', () => {
  it('is made of each form by this test, and taken by both packages; a changed one ends alike in both', () => {
    for (const pattern of PATTERNS) expect(() => textOf(pattern)).not.toThrow()
    const cases = NAMES.map((name): [string, unknown] => [name, makeOf(schemaOf(name))])
    for (const [name, value] of cases) expect(findProblem(schemaOf(name), value), name).toBeUndefined()
    const changes = fc.sample(
      fc.record({
        name: fc.constantFrom(...NAMES),
        place: fc.nat(),
        junk: fc.constantFrom(...JUNK),
        deletes: fc.boolean(),
      }),
      { numRuns: RUNS, seed: 1 },
    )
    for (const { name, place, junk, deletes } of changes) {
      const value = makeOf(schemaOf(name))
      const places = placesIn(value)
      const [holder, key] = places[place % places.length] ?? [{}, 'any']
      if (deletes && !Array.isArray(holder)) delete holder[key]
      else holder[key] = junk
      cases.push([name, value])
    }
    const said = execFileSync(PYTHON_VERIFIER[0], ['-c', PROGRAM, PACKAGE], {
      encoding: 'utf8',
      input: cases.map((one) => `${JSON.stringify(one)}\n`).join(''),
      maxBuffer: 2 ** 26,
    }).split('\n')
    let refused = 0
    for (const [index, [name, value]] of cases.entries()) {
      const problem = findProblem(schemaOf(name), value)
      if (problem !== undefined) refused++
      const [where] = (said[index] ?? '').split(': expected')
      expect(where, `${name} ${JSON.stringify(value).slice(0, 2_000)}`).toBe(
        (problem ?? '').split(': expected')[0],
      )
    }
    expect(refused).toBeGreaterThan(RUNS / 4)
  })
})
