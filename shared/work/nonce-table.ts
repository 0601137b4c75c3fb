import { randomBytes } from 'node:crypto'

/**
 * A set of nonces that keeps 63 bits of each and no text: an eighth of a Set's memory, and one look into memory for each
 * nonce. The bits are drawn with a key of this process, so nobody can look for nonces that are taken for each other; of
 * the 182,500 nonces of the longest order, two are by chance once in a billion orders.
 */
export interface NonceTable {
  has(nonce: string): boolean
  /** @returns false where it was there already */
  add(nonce: string): boolean
  /** Places for nonces, 8 bytes each; at least a half of them is free. */
  readonly slots: number
}

const FIRST_SLOTS = 1_024
const KEY = new Int32Array(new Uint8Array(randomBytes(16)).buffer)
const [KEY_LOW = 0, KEY_HIGH = 0, END_LOW = 0, END_HIGH = 0] = KEY

export function createNonceTable(): NonceTable {
  let slots = FIRST_SLOTS
  let table = new Int32Array(2 * slots)
  let size = 0

  /** The place of a nonce's bits, or the free one where they belong. */
  function placeOf(low: number, high: number): number {
    let place = 2 * (high & (slots - 1))
    while (table[place] !== 0 && (table[place] !== low || table[place + 1] !== high)) place = (place + 2) & (2 * slots - 1)
    return place
  }

  function grow(): void {
    const before = table
    slots *= 2
    table = new Int32Array(2 * slots)
    for (let at = 0; at < before.length; at += 2) {
      const low = before[at] as number
      if (low === 0) continue
      const high = before[at + 1] as number
      const place = placeOf(low, high)
      table[place] = low
      table[place + 1] = high
    }
  }

  return {
    get slots() {
      return slots
    },
    has: (nonce) => table[placeOf(lowBits(nonce), highBits(nonce))] !== 0,
    add(nonce) {
      const low = lowBits(nonce)
      const high = highBits(nonce)
      const place = placeOf(low, high)
      if (table[place] !== 0) return false
      table[place] = low
      table[place + 1] = high
      if (++size * 2 > slots) grow()
      return true
    },
  }
}

/** Never 0, which marks a free place. */
function lowBits(nonce: string): number {
  let bits = KEY_LOW
  for (let at = 0; at < nonce.length; at++) bits = stir(bits, nonce.charCodeAt(at), 0x2c1b3c6d)
  return finish(bits ^ END_LOW) | 1
}

function highBits(nonce: string): number {
  let bits = KEY_HIGH
  for (let at = 0; at < nonce.length; at++) bits = stir(bits, nonce.charCodeAt(at), 0x297a2d39)
  return finish(bits ^ END_HIGH)
}

function stir(bits: number, code: number, factor: number): number {
  const mixed = Math.imul(bits ^ code, factor)
  return mixed ^ (mixed >>> 15)
}

function finish(bits: number): number {
  const once = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad)
  const twice = Math.imul(once ^ (once >>> 15), 0x735a2d97)
  return twice ^ (twice >>> 15)
}
