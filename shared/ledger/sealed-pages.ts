import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Context } from '../context.ts'
import { MAX_SHARED_BYTES } from '../platform/limits.ts'
import { runInScope } from '../platform/scope.ts'
import { SECOND_MS } from '../platform/time.ts'
import { viewEntry } from './entry.ts'

type SealedPagesContext = Pick<Context, 'entries' | 'seals'>

/*
 * Pages of the ledger as JSON. Entries under a signed seal never change, so they are written as JSON once, a
 * block at a time, and every answer shares the bytes. Blocks begin at fixed numbers, so any two ranges are
 * made of the same blocks.
 */

/** About 1 ms of work; other requests are answered between blocks. */
const BLOCK_ENTRIES = 100
/** Then a block is read again, so that entries which the database has lost aren't published for long. */
const KEPT_MS = 5 * SECOND_MS

interface Block {
  /** Entries as JSON, a comma between them. */
  bytes: Buffer
  /** The offset of each entry in `bytes`, and of the one that would come next. */
  starts: readonly number[]
  tag: string
}

export interface LedgerPage {
  parts: readonly Buffer[]
  count: number
  /** Hash of its content. */
  tag: string
  /** Full, and under signed seals: it never changes. */
  isFinal: boolean
}

/**
 * Creates a reader of pages with a cache of whole blocks under signed seals. The reader returns up to `limit`
 * entries from number `fromId` on, fewer if the ledger ends before.
 */
export function createLedgerPageReader(
  ctx: SealedPagesContext,
): (fromId: number, limit: number) => Promise<LedgerPage> {
  /** Whole blocks under signed seals, by their first number. */
  const sealedBlocks = new LRUCache<number, Block>({
    maxSize: MAX_SHARED_BYTES,
    sizeCalculation: ({ bytes, starts }) => bytes.length + 8 * starts.length,
    ttl: KEPT_MS,
    // Not in the request's scope: if this request ends, others still wait for the block.
    fetchMethod: (firstId) => runInScope({}, () => readBlock(firstId, BLOCK_ENTRIES)),
    ignoreFetchAbort: true,
  })
  /** The last entry under a signed seal, as read from the database; read again after `untilMs`. */
  let sealedUpTo = { id: 0, untilMs: 0 }

  /** Reads up to `limit` entries from the database and writes them as JSON. */
  async function readBlock(fromId: number, limit: number): Promise<Block> {
    const texts = (await ctx.entries.list(fromId, limit)).map((entry) =>
      Buffer.from(JSON.stringify(viewEntry(entry))),
    )
    const starts = [0]
    for (const { length } of texts) starts.push((starts.at(-1) ?? 0) + length + 1)
    const bytes = Buffer.from(texts.map(String).join(','))
    return { bytes, starts, tag: tagOf(bytes) }
  }

  return async function readPage(fromId, limit) {
    const lastId = fromId + limit - 1
    if (lastId > sealedUpTo.id || performance.now() >= sealedUpTo.untilMs)
      sealedUpTo = { id: (await ctx.seals.lastSigned())?.to_id ?? 0, untilMs: performance.now() + SECOND_MS }
    const parts: Buffer[] = []
    const tags: string[] = []
    let count = 0
    while (count < limit) {
      const nextId = fromId + count
      const firstId = nextId - ((nextId - 1) % BLOCK_ENTRIES) // of the block that has this entry
      const isSealed = firstId + BLOCK_ENTRIES - 1 <= sealedUpTo.id
      const wanted = Math.min(limit - count, firstId + BLOCK_ENTRIES - nextId)
      const block = await (isSealed ? sealedBlocks.forceFetch(firstId) : readBlock(nextId, wanted))
      // The entries to take are those from `from` to before `to` in the block.
      const from = isSealed ? nextId - firstId : 0
      const to = Math.min(from + wanted, block.starts.length - 1)
      if (to <= from) break
      if (count > 0) parts.push(COMMA)
      const part = block.bytes.subarray(block.starts[from], (block.starts[to] ?? 0) - 1)
      parts.push(part)
      tags.push(part.length === block.bytes.length ? block.tag : tagOf(part))
      count += to - from
      if (to - from < wanted) break
      await nextTurn()
    }
    return { parts, count, tag: tagOf(tags.join()), isFinal: count === limit && lastId <= sealedUpTo.id }
  }
}

const COMMA = Buffer.from(',')
/** The first 32 hex characters of its SHA-256. */
const tagOf = (content: Buffer | string): string => hash('sha256', content, 'hex').slice(0, 32)
