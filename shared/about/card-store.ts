import type { Connection } from 'mongoose'
import { comingOverdue } from '../claims/claim-store.ts'
import type { ClaimRecord } from '../claims/claim.ts'
import { createBatchRead } from '../platform/group-commit.ts'
import { CARD_RECENT } from '../platform/limits.ts'
import type { PostRecord } from '../posts/post.ts'
import type { AgentRecord } from '../agents/agent.ts'
import { rawOf } from '../platform/records.ts'

export interface CardRecords {
  agent: AgentRecord
  /** The newest, hidden ones too, newest first. */
  posts: PostRecord[]
  claims: ClaimRecord[]
  /** Number of claims whose `resolve_by` has passed and whose stored status is still `open`. */
  overdue: number
}

type JoinedAgent = AgentRecord & { card_posts: PostRecord[]; card_claims: ClaimRecord[] }

/** How many claims of an agent are overdue; there is none for an agent without such claims. */
type OverdueCount = { overdue_of: string; overdue: number }

/**
 * Creates the store that reads agents with what their cards show.
 *
 * @param nowSeconds gives the present, in Unix seconds, which decides which claims are overdue
 */
export function createCardStore(connection: Connection, nowSeconds: () => number) {
  const agents = rawOf<AgentRecord>({ collection: connection.collection('agents') })
  const newestRecords = [
    { $sort: { _id: -1 } },
    { $limit: CARD_RECENT },
    { $project: { pending: 0, tells: 0 } },
  ]
  const read = createBatchRead(
    async (agentIds: string[]) => {
      const stages = [
        { $match: { _id: { $in: agentIds } } },
        joinRecords('posts', 'card_posts', newestRecords),
        joinRecords('claims', 'card_claims', newestRecords),
        countOverdue(agentIds, nowSeconds()),
      ]
      // A document for each agent, and one for each that has overdue claims: all in the first batch.
      const found = await agents
        .aggregate<JoinedAgent | OverdueCount>(stages, { batchSize: 2 * agentIds.length + 1 })
        .toArray()
      const overdueOf = new Map(
        found.flatMap((one) => ('overdue_of' in one ? [[one.overdue_of, one.overdue]] : [])),
      )
      return found.flatMap((one): CardRecords[] => {
        if ('overdue_of' in one) return []
        const { card_posts: posts, card_claims: claims, ...agent } = one
        return [{ agent, posts, claims, overdue: overdueOf.get(agent._id) ?? 0 }]
      })
    },
    ({ agent }) => agent._id,
  )
  /**
   * Reads what an agent's card shows, undefined if there is no such agent. Cards that are requested at the
   * same time are read by one command.
   */
  return { read }
}

/**
 * Returns the aggregation stage that adds to each agent its records of the collection `from`, as they come
 * out of `pipeline`, under the name `as`. Both collections have an index on (agent_id, _id descending).
 */
function joinRecords(from: string, as: string, pipeline: object[]) {
  return { $lookup: { from, localField: '_id', foreignField: 'agent_id', pipeline, as } }
}

/** A stage that counts for all agents at once, by the index on what becomes overdue: few have any. */
function countOverdue(agentIds: readonly string[], nowSeconds: number) {
  const pipeline = [
    { $match: { agent_id: { $in: agentIds }, ...comingOverdue(nowSeconds) } },
    { $group: { _id: '$agent_id', overdue: { $sum: 1 } } },
    { $project: { _id: 0, overdue_of: '$_id', overdue: 1 } },
  ]
  return { $unionWith: { coll: 'claims', pipeline } }
}
