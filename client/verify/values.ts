/*
 * What is read of answers and files: JSON within bounds, and the forms of its values.
 */

export const MAX_ANSWER_BYTES = 16 * 2 ** 20
export const MAX_CLOCK_SKEW_SECONDS = 300
const MAX_CONTAINERS = 500_000 // lists and objects of one answer or file
const MAX_PARSED_DEPTH = 1_000

const SIGNATURE_BASE64 = /^[A-Za-z0-9+/]{86}==$/
const HEX_HASH = /^[0-9a-f]{64}$/
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of bytes in UTF-8. @throws TypeError */
export const decodeText = (bytes: Uint8Array): string => utf8.decode(bytes)

/**
 * Parses JSON. A key that stands twice in an object is refused, since another reader might take the other
 * one.
 *
 * @param source bytes are UTF-8
 * @throws SyntaxError or TypeError for what is no such JSON, RangeError for what is nested too deep or has too
 *   many parts
 */
export function parseJson(source: Uint8Array | string): unknown {
  const text = typeof source === 'string' ? source : decodeText(source)
  // Before it is parsed, which would cost fifty times its size.
  const { members, depth, containers } = measureJson(text)
  if (depth > MAX_PARSED_DEPTH) throw new RangeError(`it is nested deeper than ${MAX_PARSED_DEPTH} levels`)
  if (containers > MAX_CONTAINERS)
    throw new RangeError(`it has more than ${MAX_CONTAINERS} lists and objects`)
  const value: unknown = JSON.parse(text)
  // JSON.parse keeps the last of two equal keys: then there are more colons than keys.
  if (members !== countMembers(value)) throw new SyntaxError('it has a key twice in one object')
  return value
}

/** Counts what stands outside strings of a text that is to be JSON: colons, lists and objects, their nesting. */
export function measureJson(text: string): { members: number; depth: number; containers: number } {
  let members = 0
  let containers = 0
  let depth = 0
  let level = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x22) {
      while (++at < text.length && text.charCodeAt(at) !== 0x22) if (text.charCodeAt(at) === 0x5c) at++
    } else if (code === 0x3a) members++
    else if (code === 0x5b || code === 0x7b) {
      containers++
      depth = Math.max(depth, ++level)
    } else if (code === 0x5d || code === 0x7d) level--
  }
  return { members, depth, containers }
}

/** How many members all objects in a value have together. */
function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const parts: unknown[] = Object.values(value)
  let count = Array.isArray(value) ? 0 : parts.length
  for (const part of parts) count += countMembers(part)
  return count
}

/** An object as JSON has them, of which nothing else is known. */
export type Fields = { readonly [name: string]: unknown }

export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
export const isWhole = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0
export const isHexHash = (value: unknown): value is string =>
  typeof value === 'string' && HEX_HASH.test(value)

/** The value of a member that an object has by itself; undefined if it has none. */
export const memberOf = <T>(value: { readonly [name: string]: T }, name: string): T | undefined =>
  Object.hasOwn(value, name) ? value[name] : undefined

/** The 64 bytes of a signature in base64; undefined unless the text is their canonical form. */
export function decodeSignature(value: unknown): Uint8Array | undefined {
  if (typeof value !== 'string' || !SIGNATURE_BASE64.test(value)) return undefined
  const signature = Buffer.from(value, 'base64')
  return signature.toString('base64') === value ? signature : undefined
}

/** A value as JSON for a message, at most 80 characters. */
export function show(value: unknown): string {
  try {
    return JSON.stringify(value ?? null).slice(0, 80)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return 'something unprintable' // nested deeper than can be written
  }
}

export const showNumber = (value: unknown): string => (isWhole(value) ? String(value) : '?')

export const nowSeconds = (): number => Math.floor(Date.now() / 1000)
