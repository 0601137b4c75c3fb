import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { createGroups } from './group-commit.ts'

/**
 * A function that gives an agent's newest records out of a collection, newest first and without their marks: one command
 * for all agents that are asked for together. The collection needs an index on (agent_id, _id descending).
 */
export function createLatestByAgent<Found>(
  connection: Connection,
  collection: string,
): (agentId: string, limit: number) => Promise<Found[]> {
  const agents = connection.collection('agents') as unknown as mongoose.mongo.Collection<{ _id: string }>
  const read = createGroups(async (asked: { agentId: string; limit: number }[]) => {
    const agentIds = [...new Set(asked.map(({ agentId }) => agentId))]
    const most = Math.max(...asked.map(({ limit }) => limit))
    const newest = [{ $sort: { _id: -1 } }, { $limit: most }, { $project: { pending: 0 } }]
    const found = await agents
      .aggregate<{ _id: string; found: Found[] }>(
        [
          { $match: { _id: { $in: agentIds } } },
          { $project: { _id: 1 } },
          { $lookup: { from: collection, localField: '_id', foreignField: 'agent_id', pipeline: newest, as: 'found' } },
        ],
        { batchSize: agentIds.length + 1 },
      )
      .toArray()
    const byAgent = new Map(found.map((one) => [one._id, one.found]))
    return asked.map(({ agentId, limit }) => ({ status: 'fulfilled', value: (byAgent.get(agentId) ?? []).slice(0, limit) }))
  })
  return (agentId, limit) => read({ agentId, limit })
}
