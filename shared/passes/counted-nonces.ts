import { randomBytes } from 'node:crypto'
import type { SharePage, WorkOrderRecord } from './work.ts'
import type { WorkStore } from './work-store.ts'

/**
 * A cache of each order's counted nonces, kept in memory between its batches. Stored pages never change, so
 * only pages that were added since are read; if the cached pages are no longer stored (a restored backup),
 * all pages are read again.
 *
 * A verification takes the order's nonces out of the cache, adds its own, and puts them back once its result
 * is stored. So nonces whose result failed to be stored never get into the cache.
 */
export interface CountedNonceCache {
  /**
   * Takes the nonces that count for an order out of the cache, and reads the pages that it lacks.
   *
   * @param order as it was read
   * @returns undefined if the stored pages are not the ones that the order names: the order was read too
   *   early and must be read again
   */
  takeOut(order: Pick<WorkOrderRecord, '_id' | 'share_pages' | 'last_batch'>): Promise<Counted | undefined>
  /** Puts an order's nonces into the cache, unless the cache already has as many pages or more. */
  putBack(orderId: string, counted: Counted): void
}

/** The nonces on an order's first `pages` pages: those that count for it. */
export interface Counted {
  pages: number
  /** The last batch of the last page, which tells whether stored pages are still the same ones. */
  lastBatch: string | undefined
  nonces: NonceTable
}

/** The most slots in the tables of all cached orders together: 64 MB. */
const MAX_SLOTS = 2 ** 23

/** Creates an empty cache of counted nonces, which reads pages from `store`. */
export function createCountedNonceCache(store: Pick<WorkStore, 'listPages'>): CountedNonceCache {
  // Least recently used first.
  const cached = new Map<string, Counted>()
  let slots = 0

  /** Removes an order from the cache and returns what it had; undefined if it isn't in it. */
  function remove(orderId: string): Counted | undefined {
    const counted = cached.get(orderId)
    cached.delete(orderId)
    slots -= counted?.nonces.slots ?? 0
    return counted
  }

  /**
   * Reads the pages that `counted` lacks, up to number `pages`, and adds them to it.
   *
   * @returns false if the stored pages differ from those already added, or if some are missing
   */
  async function addStoredPages(counted: Counted, orderId: string, pages: number): Promise<boolean> {
    const hasPages = counted.pages > 0
    // The last page that is already in is read again, to compare it.
    const stored = await store.listPages(orderId, hasPages ? counted.pages : 1, pages)
    if (hasPages && stored.shift()?.batch_ids.at(-1) !== counted.lastBatch) return false
    for (const page of stored) addPage(counted, page)
    return counted.pages === pages
  }

  return {
    async takeOut({ _id: orderId, share_pages: pages = 0, last_batch: lastBatch }) {
      const fromCache = remove(orderId)
      if (fromCache?.pages === pages && fromCache.lastBatch === lastBatch) return fromCache
      if (
        fromCache !== undefined &&
        fromCache.pages < pages &&
        (await addStoredPages(fromCache, orderId, pages)) &&
        fromCache.lastBatch === lastBatch
      )
        return fromCache
      const readAnew: Counted = { pages: 0, lastBatch: undefined, nonces: createNonceTable() }
      if (pages === 0) return readAnew
      const isComplete = (await addStoredPages(readAnew, orderId, pages)) && readAnew.lastBatch === lastBatch
      return isComplete ? readAnew : undefined
    },
    putBack(orderId, counted) {
      const existing = cached.get(orderId)
      if (existing !== undefined && existing.pages >= counted.pages) return
      remove(orderId)
      cached.set(orderId, counted)
      slots += counted.nonces.slots
      for (const oldest of cached.keys()) {
        if (slots <= MAX_SLOTS) break
        remove(oldest)
      }
    },
  }
}

/** Adds a page that follows the last one, with its nonces. */
function addPage(counted: Counted, page: SharePage): void {
  for (const nonce of page.nonces) counted.nonces.add(nonce)
  setLastPage(counted, page)
}

/** Makes a page the last one of `counted`; the caller has added its nonces to the table. */
export function setLastPage(counted: Counted, page: SharePage): void {
  counted.pages = page.number
  counted.lastBatch = page.batch_ids.at(-1)
}

/**
 * A set of nonces that stores a 63-bit hash of each instead of its text: an eighth of a Set's memory, and one
 * memory access per nonce. The hash is keyed with random bytes of this process, so nobody can search for
 * nonces that collide. Among the 182,500 nonces of the longest order, two collide by chance in one of a
 * billion orders.
 */
export interface NonceTable {
  has(nonce: string): boolean
  /** @returns false if the nonce was in the set already */
  add(nonce: string): boolean
  /** Allocated places for nonces, 8 bytes each; at least half of them are free. */
  readonly slots: number
}

const FIRST_SLOTS = 1_024
const KEY = new Int32Array(new Uint8Array(randomBytes(16)).buffer)
const [KEY_LOW = 0, KEY_HIGH = 0, END_LOW = 0, END_HIGH = 0] = KEY

/** Creates an empty set of nonces. */
export function createNonceTable(): NonceTable {
  let slots = FIRST_SLOTS
  let table = new Int32Array(2 * slots)
  let size = 0

  /** Returns the index at which a hash is stored, or the free one at which it belongs (linear probing). */
  function indexOf(low: number, high: number): number {
    let index = 2 * (high & (slots - 1))
    while (table[index] !== 0 && (table[index] !== low || table[index + 1] !== high))
      index = (index + 2) & (2 * slots - 1)
    return index
  }

  /** Doubles the number of slots. */
  function grow(): void {
    const oldTable = table
    slots *= 2
    table = new Int32Array(2 * slots)
    for (let oldIndex = 0; oldIndex < oldTable.length; oldIndex += 2) {
      const low = oldTable[oldIndex] as number
      if (low === 0) continue
      const high = oldTable[oldIndex + 1] as number
      const index = indexOf(low, high)
      table[index] = low
      table[index + 1] = high
    }
  }

  return {
    get slots() {
      return slots
    },
    has: (nonce) => table[indexOf(lowBits(nonce), highBits(nonce))] !== 0,
    add(nonce) {
      const low = lowBits(nonce)
      const high = highBits(nonce)
      const index = indexOf(low, high)
      if (table[index] !== 0) return false
      table[index] = low
      table[index + 1] = high
      if (++size * 2 > slots) grow()
      return true
    },
  }
}

/** The low 32 bits of a nonce's keyed hash; never 0, which stands for a free place. */
function lowBits(nonce: string): number {
  let bits = KEY_LOW
  for (let index = 0; index < nonce.length; index++) bits = mixIn(bits, nonce.charCodeAt(index), 0x2c1b3c6d)
  return finalMix(bits ^ END_LOW) | 1
}

/** The high 32 bits of a nonce's keyed hash. */
function highBits(nonce: string): number {
  let bits = KEY_HIGH
  for (let index = 0; index < nonce.length; index++) bits = mixIn(bits, nonce.charCodeAt(index), 0x297a2d39)
  return finalMix(bits ^ END_HIGH)
}

/** Mixes one character into the state of a hash. */
function mixIn(bits: number, charCode: number, factor: number): number {
  const mixed = Math.imul(bits ^ charCode, factor)
  return mixed ^ (mixed >>> 15)
}

/** Spreads each bit of a hash's state over all of them (xor, shift, multiply). */
function finalMix(bits: number): number {
  const once = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad)
  const twice = Math.imul(once ^ (once >>> 15), 0x735a2d97)
  return twice ^ (twice >>> 15)
}
