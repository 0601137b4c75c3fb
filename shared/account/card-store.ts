import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { comingOverdue } from '../claims/claim-store.ts'
import type { ClaimRecord } from '../claims/claim.ts'
import { createLookUp } from '../servers/group-commit.ts'
import { CARD_RECENT } from '../foundation/limits.ts'
import type { PostRecord } from '../posts/post.ts'
import type { AgentRecord } from '../agents/agent.ts'

/** An agent, with the records that its card shows. */
export interface CardRecords {
  agent: AgentRecord
  /** The newest, hidden ones too, newest first. */
  posts: PostRecord[]
  claims: ClaimRecord[]
  /** Number of claims whose `resolve_by` has passed and whose stored status is still `open`. */
  overdue: number
}

type JoinedAgent = AgentRecord & {
  card_posts: PostRecord[]
  card_claims: ClaimRecord[]
  card_overdue: { count: number }[]
}

/**
 * Creates the store that reads agents with what their cards show.
 *
 * @param nowSeconds gives the present, in Unix seconds, which decides which claims are overdue
 */
export function createCardStore(connection: Connection, nowSeconds: () => number) {
  const agents = connection.collection('agents') as unknown as mongoose.mongo.Collection<AgentRecord>
  const newestRecords = [{ $sort: { _id: -1 } }, { $limit: CARD_RECENT }, { $project: { pending: 0 } }]
  const read = createLookUp(
    async (agentIds: string[]) => {
      const overdue = [{ $match: comingOverdue(nowSeconds()) }, { $count: 'count' }]
      const stages = [
        { $match: { _id: { $in: agentIds } } },
        joinRecords('posts', 'card_posts', newestRecords),
        joinRecords('claims', 'card_claims', newestRecords),
        joinRecords('claims', 'card_overdue', overdue),
      ]
      const found = agents.aggregate<JoinedAgent>(stages, { batchSize: agentIds.length + 1 })
      return (await found.toArray()).map(
        ({ card_posts: posts, card_claims: claims, card_overdue: [late], ...agent }): CardRecords => {
          return { agent, posts, claims, overdue: late?.count ?? 0 }
        },
      )
    },
    ({ agent }) => agent._id,
  )
  /**
   * Reads what an agent's card shows, undefined if there is no such agent. Cards that are requested at the
   * same time are read by one command.
   */
  return { read }
}

export type CardStore = ReturnType<typeof createCardStore>

/**
 * Returns the aggregation stage that adds to each agent its records of the collection `from`, as they come
 * out of `pipeline`, under the name `as`. Both collections have an index on (agent_id, _id descending), and
 * claims have another one for those that become overdue.
 */
function joinRecords(from: string, as: string, pipeline: object[]) {
  return { $lookup: { from, localField: '_id', foreignField: 'agent_id', pipeline, as } }
}
