import type { Model } from 'mongoose'
import { NOT_HIDDEN, type Hideable } from '../ledger/hidden.ts'
import { maybe, none } from '../platform/fields.ts'
import { rawOf } from '../platform/records.ts'
import type { AgentRecord } from './agent.ts'

/*
 * Whether an agent is banned is a fact on its own record. Each post, claim and offer of a banned agent says so
 * too: a list leaves these out by its index, and asks nothing about their authors. ban-service.ts sees to it.
 */

/** What a record carries that leaves the lists if its author is banned. */
export interface ByAuthor {
  _id: string
  agent_id: string
  author_banned?: true
}

export const authorBannedField = { author_banned: maybe.flag }

/** The filter of every list: neither hidden nor by a banned agent. */
export const LISTED = { ...NOT_HIDDEN, author_banned: none } as const

/** The index by which the records of an agent are found to which its ban isn't applied yet. */
export const BY_AUTHOR_INDEX = { agent_id: 1, author_banned: 1, _id: -1 } as const

/**
 * Makes up to `limit` records of an agent, the newest first, say whether it is banned.
 *
 * @returns how many did not say so before
 */
export type SetAuthorBanned = (agentId: string, isBanned: boolean, limit: number) => Promise<number>

/** The SetAuthorBanned of one collection, which has BY_AUTHOR_INDEX. */
export function createSetAuthorBanned<Stored extends ByAuthor>(model: Model<Stored>): SetAuthorBanned {
  const records = () => rawOf<ByAuthor>(model)
  return async (agentId, isBanned, limit) => {
    const unlike = {
      agent_id: agentId,
      author_banned: isBanned ? none : { $eq: true as const },
    }
    const change = isBanned
      ? { $set: { author_banned: true as const } }
      : { $unset: { author_banned: 1 as const } }
    const toLast = [{ $match: unlike }, { $sort: { _id: -1 } }, { $skip: limit - 1 }, { $limit: 1 }]
    const [last] = await records().aggregate<ByAuthor>(toLast, { hint: BY_AUTHOR_INDEX }).toArray()
    const batch = last === undefined ? unlike : { ...unlike, _id: { $gte: last._id } }
    return (await records().updateMany(batch, change, { hint: BY_AUTHOR_INDEX })).matchedCount
  }
}

/**
 * Returns a record as it is to be shown by its id: with `hidden_at` set if the ban of its author hides
 * everything that it wrote, otherwise unchanged. So it is hidden from the moment of the ban.
 *
 * @param author undefined if there is no such agent
 */
export function hideByBan<Stored extends Hideable & { at: number }>(
  author: Pick<AgentRecord, 'banned_at' | 'ban_hides'> | undefined,
  record: Stored,
): Stored {
  return author?.ban_hides === undefined ? record : { ...record, hidden_at: author.banned_at ?? record.at }
}
