import { MAX_LIST_PAGES } from '../foundation/limits.ts'
import type { Hideable } from '../ledger/hidden.ts'
import type { AgentStore } from './agent-store.ts'

/** Where a list continues, and which agents' records it leaves out. */
export interface Past<Listed> {
  after: Listed
  notBy: readonly string[]
}

export interface ListBounds<Listed> {
  /** The list begins after this record. */
  begin?: Listed | undefined
  /** The most records of one agent in the list. */
  perAgent?: number | undefined
  /** Agents whose records the list has, most likely: whether they are banned is asked while it is read. */
  expected?: readonly string[]
}

/**
 * Reads a list without the records of banned agents, and with at most `perAgent` of each other agent. Records
 * that are left out are made up for from further down, past everything by the same agents, so one agent's
 * flood doesn't crowd out the others. It gives up after MAX_LIST_PAGES reads.
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
  /** Agents whose further records are left out. */
  const done = new Set<string>()
  const shown = new Map<string, number>()
  let past: Past<Listed> | undefined = begin === undefined ? undefined : { after: begin, notBy: [] }
  for (let page = 0; page < MAX_LIST_PAGES; page++) {
    const asked = page === 0 ? expected : []
    const [listed, banned] = await Promise.all([read(limit, past), agents.findBanned(asked)])
    const authors = new Set(listed.map(({ agent_id: agentId }) => agentId))
    for (const agentId of asked) authors.delete(agentId)
    for (const agentId of [...banned, ...(await agents.findBanned([...authors]))]) done.add(agentId)
    for (const record of listed) {
      if (done.has(record.agent_id)) continue
      const count = (shown.get(record.agent_id) ?? 0) + 1
      shown.set(record.agent_id, count)
      if (count >= perAgent) done.add(record.agent_id)
      kept.push(record)
    }
    const last = listed.at(-1)
    if (kept.length >= limit || listed.length < limit || last === undefined) break
    past = { after: last, notBy: [...done] }
  }
  return kept.slice(0, limit)
}

/** Marks a record as hidden if its author is banned with everything that it wrote hidden. */
export async function hideIfBanned<Stored extends Hideable & { agent_id: string; at: number }>(
  agents: AgentStore,
  record: Stored,
): Promise<Stored> {
  const author = await agents.findAuthor(record.agent_id)
  return author?.ban_hides === undefined ? record : { ...record, hidden_at: author.banned_at ?? record.at }
}
