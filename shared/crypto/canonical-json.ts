/**
 * A value that JSON can carry. Numbers are IEEE 754 doubles, as in RFC 8259 section 6 and RFC 8785 section
 * 3.2.2.3.
 */
export type JsonValue =
  null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/** Deeper nesting is refused: recursion stays bounded, and other implementations can state the same bound. */
export const MAX_JSON_DEPTH = 500

/**
 * The one text of a JSON value that is hashed and signed: keys sorted by UTF-16 code units, no whitespace,
 * strings and numbers as ECMAScript writes them, applied recursively (RFC 8785; contract, endpoint rule 5).
 *
 * Nothing is dropped or converted in silence, because a value that changes on its way to the hash can't be
 * checked by a stranger. So everything that JSON has no form for throws a TypeError naming the place:
 * undefined (also as an object's value or an array's hole), NaN and the infinities, BigInt, functions,
 * symbols, lone surrogates in a string or a key, cycles, and instances of classes (Date, Map, Buffer,
 * ObjectId), which must be made plain by the caller.
 *
 * @returns text to be encoded as UTF-8; -0 is written `0`
 * @throws TypeError for a value as above, or nested deeper than MAX_JSON_DEPTH
 */
export function canonicalJson(value: unknown): string {
  return write(value, [], [])
}

function write(value: unknown, keys: (string | number)[], ancestors: object[]): string {
  switch (typeof value) {
    case 'string':
      return writeString(value, keys)
    case 'number':
      if (!Number.isFinite(value)) throw refusal(keys, `${value} has no JSON form`)
      return JSON.stringify(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      return value === null ? 'null' : writeContainer(value, keys, ancestors)
    default:
      throw refusal(keys, `a value of type ${typeof value} has no JSON form`)
  }
}

function writeContainer(value: object, keys: (string | number)[], ancestors: object[]): string {
  if (ancestors.includes(value)) throw refusal(keys, 'the value contains itself')
  if (ancestors.length === MAX_JSON_DEPTH)
    throw new TypeError(`JSON nested deeper than ${MAX_JSON_DEPTH} levels is refused`)
  ancestors.push(value)
  const text = Array.isArray(value) ? writeArray(value, keys, ancestors) : writeObject(value, keys, ancestors)
  ancestors.pop()
  return text
}

function writeArray(value: readonly unknown[], keys: (string | number)[], ancestors: object[]): string {
  let text = '['
  for (let index = 0; index < value.length; index++) {
    keys.push(index)
    text += (index === 0 ? '' : ',') + write(value[index], keys, ancestors)
    keys.pop()
  }
  return text + ']'
}

function writeObject(value: object, keys: (string | number)[], ancestors: object[]): string {
  if (!isPlainObject(value))
    throw refusal(keys, `an instance of ${value.constructor?.name || 'a class'} is not a plain object`)
  let text = '{'
  // The default order of Array.prototype.sort is by UTF-16 code units, which is RFC 8785 section 3.2.3.
  for (const key of Object.keys(value).sort()) {
    keys.push(key)
    text +=
      (text.length === 1 ? '' : ',') +
      writeString(key, keys) +
      ':' +
      write((value as Record<string, unknown>)[key], keys, ancestors)
    keys.pop()
  }
  return text + '}'
}

/**
 * JSON.stringify escapes exactly what RFC 8785 section 3.2.2.2 asks for, except that it hides lone
 * surrogates.
 */
function writeString(value: string, keys: (string | number)[]): string {
  if (!value.isWellFormed()) throw refusal(keys, 'a lone surrogate has no UTF-8 form')
  return JSON.stringify(value)
}

/**
 * True for `{}`, a null prototype, and an object literal of another realm, but for no instance of a class.
 */
function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function refusal(keys: readonly (string | number)[], sentence: string): TypeError {
  const place = keys.length === 0 ? 'the value itself' : keys.map((key) => JSON.stringify(key)).join(' > ')
  return new TypeError(`canonical JSON refused at ${place}: ${sentence}`)
}
