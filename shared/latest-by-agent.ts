import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { createGroups, type Outcomes } from './group-commit.ts'

/**
 * A function that gives an agent's newest records out of a collection, newest first and without their marks: one command
 * for all agents that are asked for together. The collection needs an index on (agent_id, _id descending).
 */
export function createLatestByAgent<Found>(
  connection: Connection,
  collection: string,
): (agentId: string, limit: number) => Promise<Found[]> {
  const agents = connection.collection('agents') as unknown as mongoose.mongo.Collection<{ _id: string }>
  const records = connection.collection(collection)
  const read = createGroups(async (asked: { agentId: string; limit: number }[]): Promise<Outcomes<Found[]>> => {
    const agentIds = [...new Set(asked.map(({ agentId }) => agentId))]
    const most = Math.max(...asked.map(({ limit }) => limit))
    const [agentId] = agentIds
    if (agentIds.length === 1 && agentId !== undefined) {
      // A join of one costs several times the plain query.
      const own = await records
        .find({ agent_id: agentId }, { projection: { pending: 0 } })
        .sort({ _id: -1 })
        .limit(most)
        .toArray()
      return asked.map(({ limit }) => ({ status: 'fulfilled', value: own.slice(0, limit) as unknown as Found[] }))
    }
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
