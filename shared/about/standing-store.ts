import type { Connection } from 'mongoose'
import type { AgentRecord } from '../agents/agent.ts'
import { createBatchRead } from '../platform/group-commit.ts'
import { MAX_REFERRALS_COUNTED, MAX_UNREAD_COUNTED } from '../platform/limits.ts'
import { WAITING } from '../market/order-store.ts'
import { UNREAD } from '../messages/message-store.ts'
import { MAY_BE_UNPAID } from '../money/payout-store.ts'
import { rawOf } from '../platform/records.ts'

/** Counts of records that belong to an agent; each stops at `most` of its kind, see KINDS. */
export interface Belongings {
  /** Agents that named it as their referrer. */
  referred: number
  /** Messages to it. */
  unread: number
  /** 1 if it has an order to deliver. */
  selling: number
  /** 1 if it has a delivery to accept. */
  buying: number
  /** 1 if it has a payout that is owed or on its way. */
  unpaid: number
}

/**
 * The most records of a kind that one command fetches for a group of agents. If it fetches that many, there
 * may be more, and this kind is counted for each agent by a command of its own.
 */
const MAX_FETCHED = 1_000

/** For each kind: collection, owner field, filter of what counts, and how far it is counted. */
const KINDS = {
  referred: { collection: 'agents', owner: 'ref', filter: {}, most: MAX_REFERRALS_COUNTED },
  unread: { collection: 'messages', owner: 'to', filter: UNREAD, most: MAX_UNREAD_COUNTED },
  selling: { collection: 'orders', owner: WAITING.seller.id, filter: WAITING.seller.filter, most: 1 },
  buying: { collection: 'orders', owner: WAITING.buyer.id, filter: WAITING.buyer.filter, most: 1 },
  unpaid: { collection: 'payouts', owner: 'agent_id', filter: MAY_BE_UNPAID, most: 1 },
} as const satisfies Record<
  keyof Belongings,
  { collection: string; owner: string; filter: object; most: number }
>

const kinds = Object.keys(KINDS) as (keyof Belongings)[]

/** What of an agent its standing tells. */
type StandingAgent = Pick<AgentRecord, '_id' | 'handle' | 'pass_until_ms' | 'referrals'>

const AGENT_FIELDS = { handle: 1, pass_until_ms: 1, referrals: 1 } as const

/** A fetched document: an agent, or the owner of one record under the name of its kind. */
type Fetched = StandingAgent | Partial<Record<keyof Belongings, string>>

const isAgent = (fetched: Fetched): fetched is StandingAgent => '_id' in fetched

/**
 * Creates the store that reads agents with the counts of their records, by one command for all kinds: most
 * agents have no records of most kinds, and a command for each kind would cost six times as much.
 */
export function createStandingStore(connection: Connection) {
  const agents = rawOf<AgentRecord>({ collection: connection.collection('agents') })
  /** Returns an aggregation stage that adds the owners of records of a kind, for these agents. */
  const unionWith = (kind: keyof Belongings, agentIds: string[]) => {
    const { collection, owner, filter } = KINDS[kind]
    const pipeline = [
      { $match: { [owner]: { $in: agentIds }, ...filter } },
      { $limit: MAX_FETCHED },
      { $project: { _id: 0, [kind]: `$${owner}` } },
    ]
    return { $unionWith: { coll: collection, pipeline } }
  }
  const read = createBatchRead(
    async (agentIds: string[]) => {
      const unions = kinds.map((kind) => unionWith(kind, agentIds))
      const batchSize = agentIds.length + kinds.length * MAX_FETCHED + 1
      const stages = [{ $match: { _id: { $in: agentIds } } }, { $project: AGENT_FIELDS }, ...unions]
      const fetched = await agents.aggregate<Fetched>(stages, { batchSize }).toArray()
      const counts = new Map(kinds.map((kind) => [kind, countOwners(kind, fetched)]))
      return fetched
        .filter(isAgent)
        .map((agent) => ({ agent, countOf: (kind: keyof Belongings) => counts.get(kind)?.(agent._id) }))
    },
    ({ agent }) => agent._id,
  )
  return {
    /**
     * Reads an agent and the counts of its records; agents that are requested at the same time are read by
     * one command.
     *
     * @returns undefined if there is no agent with this id
     */
    async read(agentId: string): Promise<{ agent: StandingAgent; belongings: Belongings } | undefined> {
      const found = await read(agentId)
      if (found === undefined) return undefined
      /** Counts one kind of records of this agent by a command of its own. */
      const countAlone = (kind: keyof Belongings): Promise<number> => {
        const { collection, owner, filter, most: limit } = KINDS[kind]
        return connection.collection(collection).countDocuments({ [owner]: agentId, ...filter }, { limit })
      }
      const belongings = {} as Belongings
      for (const kind of kinds)
        belongings[kind] = Math.min(found.countOf(kind) ?? (await countAlone(kind)), KINDS[kind].most)
      return { agent: found.agent, belongings }
    },
  }
}

/**
 * Counts the fetched records of a kind by owner.
 *
 * @returns a function that gives an agent's count, or undefined if there may be more records than were
 *   fetched
 */
function countOwners(kind: keyof Belongings, fetched: readonly Fetched[]) {
  const counts = new Map<string, number>()
  let total = 0
  for (const document of fetched) {
    if (isAgent(document)) continue
    const owner = document[kind]
    if (owner === undefined) continue
    total++
    counts.set(owner, (counts.get(owner) ?? 0) + 1)
  }
  return (agentId: string): number | undefined =>
    total < MAX_FETCHED ? (counts.get(agentId) ?? 0) : undefined
}
