import { LRUCache } from 'lru-cache'
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
  takeOut(order: OrderPages): Promise<Counted | undefined>
  /** Puts an order's nonces into the cache, unless the cache already has as many pages or more. */
  putBack(orderId: string, counted: Counted): void
}

type OrderPages = Pick<WorkOrderRecord, '_id' | 'share_pages' | 'last_batch'>

/** The nonces on an order's first `pages` pages: those that count for it. */
export interface Counted {
  pages: number
  /** The last batch of the last page, which tells whether stored pages are still the same ones. */
  lastBatch: string | undefined
  nonces: Set<string>
}

/** The most nonces of all cached orders together, some 80 bytes each; the longest order has 182,500. */
const MAX_CACHED_NONCES = 500_000

/** Creates an empty cache of counted nonces, which reads pages from `store`. */
export function createCountedNonceCache(store: Pick<WorkStore, 'listPages'>): CountedNonceCache {
  const cached = new LRUCache<string, Counted>({
    maxSize: MAX_CACHED_NONCES,
    sizeCalculation: ({ nonces }) => Math.max(nonces.size, 1),
  })

  /**
   * Reads the pages that `counted` lacks and adds them to it.
   *
   * @returns undefined if the stored pages are not the ones that the order names, or not those in `counted`
   */
  async function addMissingPages(
    counted: Counted,
    { _id: orderId, share_pages: pages = 0, last_batch: lastBatch }: OrderPages,
  ): Promise<Counted | undefined> {
    if (counted.pages < pages) {
      // The last page that is already in is read again, to compare it.
      const stored = await store.listPages(orderId, Math.max(1, counted.pages), pages)
      if (counted.pages > 0 && stored.shift()?.batch_ids.at(-1) !== counted.lastBatch) return undefined
      for (const page of stored) addPage(counted, page)
    }
    return counted.pages === pages && counted.lastBatch === lastBatch ? counted : undefined
  }

  return {
    async takeOut(order) {
      const inCache = cached.get(order._id)
      cached.delete(order._id)
      const fromCache = inCache && (await addMissingPages(inCache, order))
      return fromCache ?? addMissingPages({ pages: 0, lastBatch: undefined, nonces: new Set() }, order)
    },
    putBack(orderId, counted) {
      const existing = cached.get(orderId)
      if (existing === undefined || existing.pages < counted.pages) cached.set(orderId, counted)
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
