import type { Context } from '../context.ts'
import { MAX_ENTRIES_SEARCHED } from '../platform/limits.ts'
import type { LedgerEntry } from '../crypto/receipt.ts'
import { viewEntry } from './entry.ts'

type EntrySearchContext = Pick<Context, 'entries'>

/** Fields of an entry that name an agent whom it concerns. */
const AGENT_FIELDS = ['agent_id', 'buyer_id', 'seller_id', 'ref'] as const

export interface FoundEntries {
  entries: LedgerEntry[]
  /** From where to go on: all that matches before it has been given. */
  nextId: number
  /** Whether the ledger has entries from there on already. */
  more: boolean
}

/**
 * Finds up to `limit` entries from `fromId` on, ascending, that have this kind and name this agent; a
 * condition that is absent is not set. Only a bounded range is read, since an index for this would slow down
 * every insert: `nextId` says from where the next search goes on.
 */
export async function searchEntries(
  ctx: EntrySearchContext,
  conditions: { fromId: number; kind?: string | undefined; agentId?: string | undefined },
  limit: number,
): Promise<FoundEntries> {
  const { fromId, kind, agentId } = conditions
  const highestId = await ctx.entries.highestId()
  const toId = Math.min(fromId + MAX_ENTRIES_SEARCHED - 1, highestId)
  const filter = {
    ...(kind === undefined ? {} : { kind }),
    ...(agentId === undefined ? {} : { $or: AGENT_FIELDS.map((field) => ({ [`data.${field}`]: agentId })) }),
  }
  const matching = await ctx.entries.search(fromId, toId, filter, limit)
  const nextId = matching.length === limit ? (matching.at(-1)?._id ?? 0) + 1 : Math.max(fromId, toId + 1)
  return { entries: matching.map(viewEntry), nextId, more: nextId <= highestId }
}
