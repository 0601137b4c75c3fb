import { randomBytes } from 'node:crypto'
import type { SharePage, WorkOrderRecord } from './work.ts'
import type { WorkStore } from './work-store.ts'

/**
 * A cache of each order's counted nonces, kept in memory between its batches. Stored pages never change, so
 * only pages that were added since are read; if the cached pages are no longer stored (a restored backup),
 * all pages are read again.
 *
 * A verification takes the order's nonces out of the cache, adds its own, and gives them back once its result
 * is stored. So nonces whose result failed to be stored never get into the cache.
 */
export interface CountedNonces {
  /**
   * The nonces that count for the order as it was read, removed from the cache.
   *
   * @returns undefined if the stored pages are not the ones that the order names: the order was read too
   *   early and must be read again
   */
  take(order: Pick<WorkOrderRecord, '_id' | 'share_pages' | 'last_batch'>): Promise<Counted | undefined>
  /** Puts an order's nonces into the cache, unless the cache already has as many pages or more. */
  giveBack(orderId: string, counted: Counted): void
}

/** The nonces on an order's first `pages` pages. */
export interface Counted {
  pages: number
  /** The last batch of the last page, which tells whether stored pages are still the same ones. */
  lastBatch: string | undefined
  nonces: NonceTable
}

/** In the tables of all cached orders together: 64 MB. */
const MAX_SLOTS = 2 ** 23

export function createCountedNonces(store: Pick<WorkStore, 'listPages'>): CountedNonces {
  // Least recently used first.
  const cached = new Map<string, Counted>()
  let slots = 0

  function remove(orderId: string): Counted | undefined {
    const counted = cached.get(orderId)
    cached.delete(orderId)
    slots -= counted?.nonces.slots ?? 0
    return counted
  }

  /**
   * Adds the stored pages up to number `pages`.
   *
   * @returns false if the stored pages differ from those already added, or if some are missing
   */
  async function extend(counted: Counted, orderId: string, pages: number): Promise<boolean> {
    const hasPages = counted.pages > 0
    // The last page that is already in is read again, to compare it.
    const stored = await store.listPages(orderId, hasPages ? counted.pages : 1, pages)
    if (hasPages && stored.shift()?.batch_ids.at(-1) !== counted.lastBatch) return false
    for (const page of stored) addPage(counted, page)
    return counted.pages === pages
  }

  return {
    async take({ _id: orderId, share_pages: pages = 0, last_batch: lastBatch }) {
      const earlier = remove(orderId)
      if (earlier?.pages === pages && earlier.lastBatch === lastBatch) return earlier
      if (
        earlier !== undefined &&
        earlier.pages < pages &&
        (await extend(earlier, orderId, pages)) &&
        earlier.lastBatch === lastBatch
      )
        return earlier
      const fresh: Counted = { pages: 0, lastBatch: undefined, nonces: createNonceTable() }
      return pages === 0 || ((await extend(fresh, orderId, pages)) && fresh.lastBatch === lastBatch)
        ? fresh
        : undefined
    },
    giveBack(orderId, counted) {
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

export function createNonceTable(): NonceTable {
  let slots = FIRST_SLOTS
  let table = new Int32Array(2 * slots)
  let size = 0

  /** The index at which a hash is stored, or the free one at which it belongs (linear probing). */
  function indexOf(low: number, high: number): number {
    let index = 2 * (high & (slots - 1))
    while (table[index] !== 0 && (table[index] !== low || table[index + 1] !== high))
      index = (index + 2) & (2 * slots - 1)
    return index
  }

  function grow(): void {
    const before = table
    slots *= 2
    table = new Int32Array(2 * slots)
    for (let at = 0; at < before.length; at += 2) {
      const low = before[at] as number
      if (low === 0) continue
      const high = before[at + 1] as number
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

/** Never 0, which stands for a free place. */
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
