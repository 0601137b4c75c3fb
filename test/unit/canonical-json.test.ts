import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson, MAX_JSON_DEPTH } from '../../shared/crypto/canonical-json.ts'

/** RFC 8785 appendix B: the bits of a double and its text. */
const NUMBER_SAMPLES: [string, string][] = [
  ['0000000000000000', '0'],
  ['8000000000000000', '0'],
  ['0000000000000001', '5e-324'],
  ['8000000000000001', '-5e-324'],
  ['7fefffffffffffff', '1.7976931348623157e+308'],
  ['ffefffffffffffff', '-1.7976931348623157e+308'],
  ['4340000000000000', '9007199254740992'],
  ['c340000000000000', '-9007199254740992'],
  ['4430000000000000', '295147905179352830000'],
  ['44b52d02c7e14af5', '9.999999999999997e+22'],
  ['44b52d02c7e14af6', '1e+23'],
  ['44b52d02c7e14af7', '1.0000000000000001e+23'],
  ['444b1ae4d6e2ef4e', '999999999999999700000'],
  ['444b1ae4d6e2ef4f', '999999999999999900000'],
  ['444b1ae4d6e2ef50', '1e+21'],
  ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
  ['3eb0c6f7a0b5ed8d', '0.000001'],
  ['41b3de4355555553', '333333333.3333332'],
  ['41b3de4355555554', '333333333.33333325'],
  ['41b3de4355555555', '333333333.3333333'],
  ['41b3de4355555556', '333333333.3333334'],
  ['41b3de4355555557', '333333333.33333343'],
  ['becbf647612f3696', '-0.0000033333333333333333'],
  ['43143ff3c1cb0959', '1424953923781206.2'],
]

class Money {
  readonly cents = 1
}

describe('canonical JSON', () => {
  // holds: rules.ledger.statements.canonical_json_has_its_keys_sorted
  it.each(NUMBER_SAMPLES)('writes the double %s as %s', (bits, text) => {
    expect(canonicalJson(Buffer.from(bits, 'hex').readDoubleBE())).toBe(text)
  })

  // holds: rules.ledger.statements.canonical_json_has_its_keys_sorted
  it('sorts keys by UTF-16 code units, so that an emoji stands before U+FB33', () => {
    const value = { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\u{1f600}': 5, '\u0080': 6, '\u00f6': 7 }
    expect(canonicalJson(value)).toBe(
      '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\u{1f600}":5,"\ufb33":3}',
    )
  })

  // holds: rules.ledger.statements.canonical_json_has_its_keys_sorted
  it('sorts keys at every depth and leaves lists in their order', () => {
    expect(canonicalJson({ b: [{ d: 1, c: 2 }, 3], a: { f: null, e: true } })).toBe(
      '{"a":{"e":true,"f":null},"b":[{"c":2,"d":1},3]}',
    )
  })

  it('escapes quotes, backslashes and controls, and nothing else', () => {
    expect(canonicalJson('\u20ac$\u000f\nA\'B"\\/')).toBe('"\u20ac$\\u000f\\nA\'B\\"\\\\/"')
    expect(canonicalJson('\b\t\f\r\u0000\u001f\u007f\u2028\u2029\ufeff')).toBe(
      '"\\b\\t\\f\\r\\u0000\\u001f\u007f\u2028\u2029\ufeff"',
    )
  })

  it('sorts few keys and many alike', () => {
    const keys = Array.from({ length: 40 }, (_, i) => String.fromCharCode(97 + ((i * 17) % 26)) + i)
    for (const count of [1, 2, 3, 16, 17, 40]) {
      const some = keys.slice(0, count)
      const expected = [...some].sort().map((key) => `"${key}":0`)
      expect(canonicalJson(Object.fromEntries(some.map((key) => [key, 0])))).toBe(`{${expected.join()}}`)
    }
  })

  it('keeps an own key called __proto__', () => {
    expect(canonicalJson(JSON.parse('{"__proto__":{"a":1},"Z":2}'))).toBe('{"Z":2,"__proto__":{"a":1}}')
  })

  it('takes objects without a prototype', () => {
    expect(canonicalJson(Object.assign(Object.create(null), { b: 1, a: 2 }))).toBe('{"a":2,"b":1}')
  })

  it.each([
    ['undefined', undefined, /"a": a value of type undefined/],
    ['NaN', Number.NaN, /"a": NaN/],
    ['an infinity', Number.NEGATIVE_INFINITY, /"a": -Infinity/],
    ['a BigInt', 1n, /type bigint/],
    ['a function', () => 1, /type function/],
    ['a symbol', Symbol('s'), /type symbol/],
    ['a lone high surrogate', 'x\ud83d', /lone surrogate/],
    ['a lone low surrogate', '\ude00x', /lone surrogate/],
    ['a lone surrogate in a key', { '\ud83d': 1 }, /lone surrogate/],
    ['a date', new Date(0), /instance of Date/],
    ['a map', new Map(), /instance of Map/],
    ['bytes', Buffer.from('a'), /instance of Buffer/],
    ['a class instance', new Money(), /instance of Money/],
    ['a hole in a list', new Array(1), /"a" > 0: a value of type undefined/],
  ])('refuses %s and says where it stands', (_, value, message) => {
    expect(() => canonicalJson({ a: value })).toThrow(TypeError)
    expect(() => canonicalJson({ a: value })).toThrow(message)
  })

  it('refuses a value that contains itself, but takes one that stands there twice', () => {
    const cyclic: { self?: unknown; list: unknown[] } = { list: [] }
    cyclic.list.push({ deep: cyclic })
    expect(() => canonicalJson(cyclic)).toThrow(/contains itself/)
    const shared = { a: 1 }
    expect(canonicalJson([shared, shared])).toBe('[{"a":1},{"a":1}]')
  })

  it('takes nesting to its bound and refuses it beyond', () => {
    const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown
    expect(canonicalJson(nested(MAX_JSON_DEPTH))).toHaveLength(2 * MAX_JSON_DEPTH)
    expect(() => canonicalJson(nested(MAX_JSON_DEPTH + 1))).toThrow(/nested deeper/)
  })

  const json = fc.jsonValue({ stringUnit: 'grapheme', maxDepth: 4 })

  it('gives back the same value when parsed, but for the sign of zero', () => {
    fc.assert(
      fc.property(
        json,
        (value) => void expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value))),
      ),
    )
  })

  it('does not depend on the order in which keys were written', () => {
    const reversed = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(reversed)
      if (typeof value !== 'object' || value === null) return value
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([key, member]) => [key, reversed(member)]),
      )
    }
    fc.assert(
      fc.property(json, (value) => void expect(canonicalJson(reversed(value))).toBe(canonicalJson(value))),
    )
  })

  it('writes different values differently', () => {
    fc.assert(
      fc.property(
        json,
        json,
        (a, b) => void expect(canonicalJson(a) === canonicalJson(b)).toBe(isSame(a, b)),
      ),
    )
  })
})

/** Deep equality of JSON values, in which 0 and -0 are one number. */
function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  const isShared = (key: string) =>
    Object.hasOwn(b, key) && isSame((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key])
  return keys.length === Object.keys(b).length && keys.every(isShared)
}
