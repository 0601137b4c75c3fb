import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { MAX_SHARED_BYTES } from '../foundation/limits.ts'
import { runInScope } from '../foundation/scope.ts'
import { SECOND_MS } from '../foundation/time.ts'
import { viewEntry } from './entry.ts'

/*
 * Pages of the ledger as JSON. Entries under a signed seal never change, so they are written as JSON once, a
 * block at a time, and every answer shares the bytes. Blocks begin at fixed numbers, so any two ranges are
 * made of the same blocks.
 */

/** About 3 ms of work; other requests are answered between blocks. */
const BLOCK_ENTRIES = 250
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

/** Gives a function that reads `limit` entries from a number on. */
export function createSealedPages(ctx: Context): (fromId: number, limit: number) => Promise<LedgerPage> {
  // The cache, in the order of last use; `size` in bytes, 0 until it is read.
  const kept = new Map<number, { block: Promise<Block>; untilMs: number; size: number }>()
  let keptBytes = 0
  let sealedUpTo = { id: 0, untilMs: 0 }

  function forget(firstId: number): void {
    keptBytes -= kept.get(firstId)?.size ?? 0
    kept.delete(firstId)
  }

  /** A whole block under signed seals, from the cache if it is there. */
  function readSealed(firstId: number): Promise<Block> {
    const known = kept.get(firstId)
    if (known !== undefined && known.untilMs > performance.now()) {
      kept.delete(firstId)
      kept.set(firstId, known)
      return known.block
    }
    forget(firstId)
    const block = runInScope({}, () => readBlock(firstId, BLOCK_ENTRIES))
    const entry = { block, untilMs: performance.now() + KEPT_MS, size: 0 }
    kept.set(firstId, entry)
    block.then(
      ({ bytes, starts }) => {
        if (kept.get(firstId) !== entry) return
        entry.size = bytes.length + 8 * starts.length
        keptBytes += entry.size
        for (const oldest of kept.keys()) {
          if (keptBytes <= MAX_SHARED_BYTES) break
          forget(oldest)
        }
      },
      () => {
        if (kept.get(firstId) === entry) forget(firstId)
      },
    )
    return block
  }

  async function readBlock(fromId: number, limit: number): Promise<Block> {
    const texts = (await ctx.entries.list(fromId, limit)).map((entry) =>
      Buffer.from(JSON.stringify(viewEntry(entry))),
    )
    const starts = [0]
    for (const { length } of texts) starts.push((starts.at(-1) ?? 0) + length + 1)
    const bytes = Buffer.from(texts.map(String).join(','))
    return { bytes, starts, tag: tagOf(bytes) }
  }

  return async (fromId, limit) => {
    const lastId = fromId + limit - 1
    if (lastId > sealedUpTo.id || performance.now() >= sealedUpTo.untilMs)
      sealedUpTo = { id: (await ctx.seals.lastSigned())?.to_id ?? 0, untilMs: performance.now() + SECOND_MS }
    const parts: Buffer[] = []
    const tags: string[] = []
    let count = 0
    while (count < limit) {
      const nextId = fromId + count
      const firstId = nextId - ((nextId - 1) % BLOCK_ENTRIES)
      const isSealed = firstId + BLOCK_ENTRIES - 1 <= sealedUpTo.id
      const wanted = Math.min(limit - count, firstId + BLOCK_ENTRIES - nextId)
      const block = await (isSealed ? readSealed(firstId) : readBlock(nextId, wanted))
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
const tagOf = (content: Buffer | string): string => hash('sha256', content, 'hex').slice(0, 32)
