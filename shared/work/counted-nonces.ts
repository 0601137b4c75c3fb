import { randomBytes } from 'node:crypto'
import type { SharePage, WorkOrderRecord } from './work.ts'
import type { WorkStore } from './work-store.ts'

/**
 * The nonces that counted for each order, kept in memory between its batches. Stored pages never change, so
 * each look reads only those that were added since; if the remembered ones are gone (a restored backup), all
 * are read again.
 *
 * A table is taken out for a verification and given back once its result is stored, so nobody sees what
 * failed to be stored.
 */
export interface CountedNonces {
  /**
   * @returns undefined if the stored pages are not those that the order names, so the order must be read
   *   again
   */
  take(order: Pick<WorkOrderRecord, '_id' | 'share_pages' | 'last_batch'>): Promise<Counted | undefined>
  giveBack(orderId: string, counted: Counted): void
}

/** All that counted by the order's last page. */
export interface Counted {
  pages: number
  lastBatch: string | undefined
  nonces: NonceTable
}

/** Of all orders together: 64 MB. */
const MAX_SLOTS = 2 ** 23

export function createCountedNonces(store: Pick<WorkStore, 'listPages'>): CountedNonces {
  // In the order of their last use.
  const remembered = new Map<string, Counted>()
  let slots = 0

  function remove(orderId: string): Counted | undefined {
    const known = remembered.get(orderId)
    remembered.delete(orderId)
    slots -= known?.nonces.slots ?? 0
    return known
  }

  /** Adds the pages that follow. @returns false if they don't, or are not all there */
  async function extend(known: Counted, orderId: string, pages: number): Promise<boolean> {
    const isBegun = known.pages > 0
    const found = await store.listPages(orderId, isBegun ? known.pages : 1, pages)
    if (isBegun && found.shift()?.batch_ids.at(-1) !== known.lastBatch) return false
    for (const page of found) addPage(known, page)
    return known.pages === pages
  }

  return {
    async take({ _id: orderId, share_pages: pages = 0, last_batch: lastBatch }) {
      const known = remove(orderId)
      if (known?.pages === pages && known.lastBatch === lastBatch) return known
      if (
        known !== undefined &&
        known.pages < pages &&
        (await extend(known, orderId, pages)) &&
        known.lastBatch === lastBatch
      )
        return known
      const anew: Counted = { pages: 0, lastBatch: undefined, nonces: createNonceTable() }
      return pages === 0 || ((await extend(anew, orderId, pages)) && anew.lastBatch === lastBatch)
        ? anew
        : undefined
    },
    giveBack(orderId, counted) {
      const other = remembered.get(orderId)
      if (other !== undefined && other.pages >= counted.pages) return
      remove(orderId)
      remembered.set(orderId, counted)
      slots += counted.nonces.slots
      for (const oldest of remembered.keys()) {
        if (slots <= MAX_SLOTS) break
        remove(oldest)
      }
    },
  }
}

function addPage(counted: Counted, page: SharePage): void {
  for (const nonce of page.nonces) counted.nonces.add(nonce)
  notePage(counted, page)
}

/** Notes that the nonces of a page are in the table. */
export function notePage(counted: Counted, page: SharePage): void {
  counted.pages = page.number
  counted.lastBatch = page.batch_ids.at(-1)
}

/**
 * A set of nonces that keeps 63 bits of each and no text: an eighth of a Set's memory, and one look into
 * memory for each nonce. The bits are drawn with a key of this process, so nobody can look for nonces that
 * are taken for each other; of the 182,500 nonces of the longest order, two are by chance once in a billion
 * orders.
 */
export interface NonceTable {
  has(nonce: string): boolean
  /** @returns false if it was there already */
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
    while (table[place] !== 0 && (table[place] !== low || table[place + 1] !== high))
      place = (place + 2) & (2 * slots - 1)
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
