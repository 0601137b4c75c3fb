import { MAX_LIST_PAGES } from '../platform/limits.ts'
import type { Hideable } from '../ledger/hidden.ts'
import type { AgentRecord } from './agent.ts'
import type { AgentStore } from './agent-store.ts'

/** Where a list continues: after a record, without the records of some agents. */
export interface Past<Listed> {
  after: Listed
  /** Ids of the agents whose records are left out. */
  notBy: readonly string[]
}

export interface ListBounds<Listed> {
  /** The list begins after this record. */
  begin?: Listed | undefined
  /** The most records of one agent in the list. */
  perAgent?: number | undefined
  /**
   * Ids of agents who most likely wrote what the list has. Whether these are banned is read at the same time
   * as the list, which saves a query after it.
   */
  expected?: readonly string[]
}

/**
 * Reads up to `limit` records of a list, without those of banned agents, and with at most `perAgent` of each
 * other agent. Further records take the place of those that are left out; they are read without the agents
 * whose records are left out, so one agent's flood doesn't crowd out the others. After MAX_LIST_PAGES reads
 * it returns what it has.
 *
 * @param read reads the list in its order, from its beginning or past a record
 */
export async function listUnbanned<Listed extends { _id: string; agent_id: string }>(
  agents: Pick<AgentStore, 'findBanned'>,
  limit: number,
  read: (limit: number, past?: Past<Listed>) => Promise<readonly Listed[]>,
  { begin, perAgent = Number.POSITIVE_INFINITY, expected = [] }: ListBounds<Listed> = {},
): Promise<Listed[]> {
  const kept: Listed[] = []
  /** Agents whose further records are left out: banned ones, and those with `perAgent` records. */
  const leftOut = new Set<string>()
  /** By agent, how many of its records are kept. */
  const keptOf = new Map<string, number>()
  let past: Past<Listed> | undefined = begin === undefined ? undefined : { after: begin, notBy: [] }
  for (let page = 0; page < MAX_LIST_PAGES; page++) {
    const askedEarly = page === 0 ? expected : []
    const [listed, banned] = await Promise.all([read(limit, past), agents.findBanned(askedEarly)])
    const authors = new Set(listed.map(({ agent_id: agentId }) => agentId))
    for (const agentId of askedEarly) authors.delete(agentId)
    for (const agentId of [...banned, ...(await agents.findBanned([...authors]))]) leftOut.add(agentId)
    for (const record of listed) {
      if (leftOut.has(record.agent_id)) continue
      const count = (keptOf.get(record.agent_id) ?? 0) + 1
      keptOf.set(record.agent_id, count)
      if (count >= perAgent) leftOut.add(record.agent_id)
      kept.push(record)
    }
    const last = listed.at(-1)
    if (kept.length >= limit || listed.length < limit || last === undefined) break
    past = { after: last, notBy: [...leftOut] }
  }
  return kept.slice(0, limit)
}

/**
 * Returns a record as it is to be shown: with `hidden_at` set if the ban of its author, an agent, hides
 * everything that it wrote, otherwise unchanged. Nothing is stored.
 */
export function applyBan<Stored extends Hideable & { at: number }>(
  author: Pick<AgentRecord, 'banned_at' | 'ban_hides'> | undefined,
  record: Stored,
): Stored {
  return author?.ban_hides === undefined ? record : { ...record, hidden_at: author.banned_at ?? record.at }
}

/** Reads a record's author, and applies its ban to the record: see applyBan(). */
export async function applyAuthorBan<Stored extends Hideable & { agent_id: string; at: number }>(
  agents: AgentStore,
  record: Stored,
): Promise<Stored> {
  return applyBan(await agents.findAuthor(record.agent_id), record)
}
