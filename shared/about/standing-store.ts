import type { Connection } from 'mongoose'
import type { AgentRecord } from '../agents/agent.ts'
import { createBatchRead } from '../platform/group-commit.ts'
import { MAX_REFERRALS_COUNTED, MAX_UNREAD_COUNTED } from '../platform/limits.ts'
import { WAITING } from '../market/order-store.ts'
import { UNREAD } from '../messages/message-store.ts'
import { MAY_BE_UNPAID } from '../money/payout-store.ts'
import { rawOf } from '../platform/records.ts'

/** How many records of each kind belong to an agent; no kind is counted further than its `most` in KINDS. */
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

type Kind = keyof Belongings
const kinds = Object.keys(KINDS) as Kind[]

type StandingAgent = Pick<AgentRecord, '_id' | 'handle' | 'pass_until_ms' | 'referrals'>

const AGENT_FIELDS = { handle: 1, pass_until_ms: 1, referrals: 1 } as const

/** A fetched document: an agent, or the owner of one record under the name of its kind. */
type Fetched = StandingAgent | Partial<Record<Kind, string>>

const isAgent = (fetched: Fetched): fetched is StandingAgent => '_id' in fetched

/**
 * Creates the store that reads agents with the counts of their records, by one command for all kinds: most
 * agents have no records of most kinds, and a command for each kind would cost six times as much.
 */
export function createStandingStore(connection: Connection) {
  const agents = rawOf<AgentRecord>({ collection: connection.collection('agents') })
  const readTogether = createBatchRead(
    async (agentIds: string[]) => {
      const stages = [
        { $match: { _id: { $in: agentIds } } },
        { $project: AGENT_FIELDS },
        ...kinds.map((kind) => addOwners(kind, agentIds)),
      ]
      const batchSize = agentIds.length + kinds.length * MAX_FETCHED + 1
      const fetched = await agents.aggregate<Fetched>(stages, { batchSize }).toArray()
      const counts = countByOwner(fetched)
      return fetched.filter(isAgent).map((agent) => ({ agent, counts }))
    },
    ({ agent }) => agent._id,
  )
  /** Counts one agent's records of a kind by a command of its own. */
  const countAlone = (kind: Kind, agentId: string): Promise<number> => {
    const { collection, owner, filter, most: limit } = KINDS[kind]
    return connection.collection(collection).countDocuments({ [owner]: agentId, ...filter }, { limit })
  }
  return {
    /**
     * Reads an agent and the counts of its records; agents that are requested at the same time are read by
     * one command.
     *
     * @returns undefined if there is no agent with this id
     */
    async read(agentId: string): Promise<{ agent: StandingAgent; belongings: Belongings } | undefined> {
      const found = await readTogether(agentId)
      if (found === undefined) return undefined
      const belongings = {} as Belongings
      for (const kind of kinds) {
        const counts = found.counts.get(kind)
        const count = counts === undefined ? await countAlone(kind, agentId) : (counts.get(agentId) ?? 0)
        belongings[kind] = Math.min(count, KINDS[kind].most)
      }
      return { agent: found.agent, belongings }
    },
  }
}

/** An aggregation stage that adds the owners of up to MAX_FETCHED records of a kind that belong to these agents. */
function addOwners(kind: Kind, agentIds: string[]) {
  const { collection, owner, filter } = KINDS[kind]
  const pipeline = [
    { $match: { [owner]: { $in: agentIds }, ...filter } },
    { $limit: MAX_FETCHED },
    { $project: { _id: 0, [kind]: `$${owner}` } },
  ]
  return { $unionWith: { coll: collection, pipeline } }
}

/** Counts the fetched records of each kind by owner; no kind is in it of which there may be more than were fetched. */
function countByOwner(fetched: readonly Fetched[]): ReadonlyMap<Kind, ReadonlyMap<string, number>> {
  const complete = new Map<Kind, ReadonlyMap<string, number>>()
  for (const kind of kinds) {
    const owners = fetched.flatMap((document) => (isAgent(document) ? [] : (document[kind] ?? [])))
    if (owners.length === MAX_FETCHED) continue
    const counts = new Map<string, number>()
    for (const owner of owners) counts.set(owner, (counts.get(owner) ?? 0) + 1)
    complete.set(kind, counts)
  }
  return complete
}
