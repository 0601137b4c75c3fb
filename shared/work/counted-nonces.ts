import { createNonceTable, type NonceTable } from './nonce-table.ts'
import type { SharePage, WorkOrderRecord } from './work.ts'
import type { WorkStore } from './work-store.ts'

/**
 * The nonces that counted for each order, kept in memory between its batches. What is remembered is only a beginning of
 * the stored pages, which never change: each look reads what was added since, and one that finds the beginning gone (a
 * restored backup) reads all of it anew.
 *
 * A table is taken out while a judgement is made with it and given back when that is stored; so what a judgement adds and
 * then fails to store is seen by nobody.
 */
export interface CountedNonces {
  /** @returns undefined where the order's pages are not (yet) those that the order speaks of: it is to be read again */
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

  /** Adds the pages that follow. @returns false where they don't, or are not all there */
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
      if (known !== undefined && known.pages < pages && (await extend(known, orderId, pages)) && known.lastBatch === lastBatch) return known
      const anew: Counted = { pages: 0, lastBatch: undefined, nonces: createNonceTable() }
      return pages === 0 || ((await extend(anew, orderId, pages)) && anew.lastBatch === lastBatch) ? anew : undefined
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
