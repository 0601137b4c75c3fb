import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { comingOverdue } from '../claims/claim-store.ts'
import type { ClaimRecord } from '../claims/claim.ts'
import { createLookUp } from '../servers/group-commit.ts'
import { CARD_RECENT } from '../foundation/limits.ts'
import type { PostRecord } from '../posts/post.ts'
import type { AgentRecord } from '../agents/agent.ts'

/** An agent and what stands on its card. */
export interface CardRecords {
  agent: AgentRecord
  /** The newest, hidden ones too, newest first. */
  posts: PostRecord[]
  claims: ClaimRecord[]
  /** Open claims whose time has passed, which the sweep has not moved on yet. */
  overdue: number
}

/** @param nowSeconds tells which claims are overdue, at the moment when the command is sent */
export function createCardStore(connection: Connection, nowSeconds: () => number) {
  const agents = connection.collection('agents') as unknown as mongoose.mongo.Collection<AgentRecord>
  const newest = [{ $sort: { _id: -1 } }, { $limit: CARD_RECENT }, { $project: { pending: 0 } }]
  const read = createLookUp(
    async (agentIds: string[]) => {
      const overdue = [{ $match: comingOverdue(nowSeconds()) }, { $count: 'count' }]
      const found = await agents
        .aggregate<
          AgentRecord & {
            card_posts: PostRecord[]
            card_claims: ClaimRecord[]
            card_overdue: { count: number }[]
          }
        >(
          [
            { $match: { _id: { $in: agentIds } } },
            ofAgent('posts', 'card_posts', newest),
            ofAgent('claims', 'card_claims', newest),
            ofAgent('claims', 'card_overdue', overdue),
          ],
          { batchSize: agentIds.length + 1 },
        )
        .toArray()
      return found.map(
        ({ card_posts: posts, card_claims: claims, card_overdue: [late], ...agent }): CardRecords => {
          return { agent, posts, claims, overdue: late?.count ?? 0 }
        },
      )
    },
    ({ agent }) => agent._id,
  )
  return {
    /** One command for all cards that are asked for together. */
    read,
  }
}

export type CardStore = ReturnType<typeof createCardStore>

/**
 * Each of the collections has an index on (agent_id, _id descending), and one on the claims of an agent that
 * come overdue.
 */
function ofAgent(from: string, as: string, pipeline: object[]) {
  return { $lookup: { from, localField: '_id', foreignField: 'agent_id', pipeline, as } }
}
