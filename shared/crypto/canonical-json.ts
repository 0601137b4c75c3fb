/**
 * A value that JSON can carry. Numbers are IEEE 754 doubles, as in RFC 8259 section 6 and RFC 8785 section
 * 3.2.2.3.
 */
export type JsonValue =
  null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/** Deeper nesting is refused: recursion stays bounded, and other implementations can state the same bound. */
export const MAX_JSON_DEPTH = 500

/**
 * Writes a JSON value as the text that is hashed and signed: keys sorted by UTF-16 code units, no whitespace,
 * strings and numbers as ECMAScript writes them, applied recursively (RFC 8785).
 *
 * Nothing is dropped or converted silently: a stranger couldn't check a value that changes on its way to the
 * hash. So everything that JSON has no form for throws a TypeError that names the place:
 * undefined (also as an object's value or an array's hole), NaN and the infinities, BigInt, functions,
 * symbols, lone surrogates in a string or a key, cycles, and instances of classes (Date, Map, Buffer,
 * ObjectId), which must be made plain by the caller.
 *
 * @returns text to be encoded as UTF-8; -0 is written `0`
 * @throws TypeError for a value as above, or nested deeper than MAX_JSON_DEPTH
 */
export function canonicalJson(value: unknown): string {
  try {
    return write(value, [])
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { keys, sentence } = error
    const place = keys.length === 0 ? 'the value itself' : keys.map((key) => JSON.stringify(key)).join(' > ')
    throw new TypeError(`canonical JSON refused at ${place}: ${sentence}`)
  }
}

/** Thrown at the value that is refused; each container on the way up adds its key to `keys`. */
class Refusal {
  readonly keys: (string | number)[] = []
  readonly sentence: string

  constructor(sentence: string) {
    this.sentence = sentence
  }
}

/**
 * The canonical text of any value inside the containers `ancestors`.
 *
 * @throws Refusal for a value that has none; TypeError if it is nested too deeply
 */
function write(value: unknown, ancestors: object[]): string {
  switch (typeof value) {
    case 'string':
      return writeString(value)
    case 'number':
      if (!Number.isFinite(value)) throw new Refusal(`${value} has no JSON form`)
      return String(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      return value === null ? 'null' : writeContainer(value, ancestors)
    default:
      throw new Refusal(`a value of type ${typeof value} has no JSON form`)
  }
}

/**
 * The canonical text of an array or object.
 *
 * @throws Refusal if it contains itself, or a value without a text; TypeError if nested too deeply
 */
function writeContainer(value: object, ancestors: object[]): string {
  if (ancestors.includes(value)) throw new Refusal('the value contains itself')
  if (ancestors.length === MAX_JSON_DEPTH)
    throw new TypeError(`JSON nested deeper than ${MAX_JSON_DEPTH} levels is refused`)
  ancestors.push(value)
  const text = Array.isArray(value) ? writeArray(value, ancestors) : writeObject(value, ancestors)
  ancestors.pop()
  return text
}

/** The canonical text of an array. A Refusal of an element gets the element's index as its first key. */
function writeArray(value: readonly unknown[], ancestors: object[]): string {
  let text = '['
  let index = 0
  try {
    for (; index < value.length; index++) text += (index === 0 ? '' : ',') + write(value[index], ancestors)
  } catch (error) {
    if (error instanceof Refusal) error.keys.unshift(index)
    throw error
  }
  return text + ']'
}

/** The canonical text of a plain object. A Refusal of a value gets the value's name as its first key. */
function writeObject(value: object, ancestors: object[]): string {
  if (!isPlainObject(value))
    throw new Refusal(`an instance of ${value.constructor?.name || 'a class'} is not a plain object`)
  let text = '{'
  let currentKey = ''
  try {
    for (const key of sortKeys(Object.keys(value))) {
      currentKey = key
      text +=
        (text.length === 1 ? '' : ',') +
        writeString(key) +
        ':' +
        write((value as Record<string, unknown>)[key], ancestors)
    }
  } catch (error) {
    if (error instanceof Refusal) error.keys.unshift(currentKey)
    throw error
  }
  return text + '}'
}

/** Up to this many keys, an insertion sort is faster than Array.prototype.sort. */
const FEW_KEYS = 16

/**
 * Sorts keys in place by UTF-16 code units (RFC 8785 section 3.2.3), as `>` and Array.prototype.sort compare
 * strings, and returns them.
 */
function sortKeys(keys: string[]): string[] {
  if (keys.length > FEW_KEYS) return keys.sort()
  for (let next = 1; next < keys.length; next++) {
    const key = keys[next] as string
    let place = next
    for (; place > 0 && (keys[place - 1] as string) > key; place--) keys[place] = keys[place - 1] as string
    keys[place] = key
  }
  return keys
}

/** Printable ASCII that JSON has no escape for: nearly every string of the ledger. */
const PLAIN = /^[ !#-[\]-~]*$/

/**
 * Writes a string with its quotes. JSON.stringify escapes exactly what RFC 8785 section 3.2.2.2 asks for, but
 * would write a lone surrogate as an escape, so that is refused here.
 */
function writeString(value: string): string {
  if (PLAIN.test(value)) return `"${value}"`
  if (!value.isWellFormed()) throw new Refusal('a lone surrogate has no UTF-8 form')
  return JSON.stringify(value)
}

/**
 * Whether an object is plain: an object literal, of this realm or another, or one without a prototype; not an
 * instance of a class.
 */
function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}
