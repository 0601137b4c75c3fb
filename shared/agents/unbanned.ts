import { MAX_LIST_PAGES } from '../foundation/limits.ts'
import type { Hideable } from '../ledger/hidden.ts'
import type { AgentStore } from './agent-store.ts'

/** Where a list goes on, and whose records it passes over. */
export interface Past<Listed> {
  after: Listed
  notBy: readonly string[]
}

/** Where a list begins if not at its beginning, and how many of one agent's stand in it at most. */
export interface ListBounds<Listed> {
  begin?: Listed | undefined
  perAgent?: number | undefined
}

/**
 * A list without what banned agents made, and with no more of one agent than is asked for. Where something
 * else stood, it looks further down, past everything of theirs: a flood hides nobody else's.
 *
 * @param read gives the list, from its beginning or past a record
 */
export async function listUnbanned<Listed extends { _id: string; agent_id: string }>(
  agents: AgentStore,
  limit: number,
  read: (limit: number, past?: Past<Listed>) => Promise<readonly Listed[]>,
  { begin, perAgent = Number.POSITIVE_INFINITY }: ListBounds<Listed> = {},
): Promise<Listed[]> {
  const kept: Listed[] = []
  /** Agents of whom no more is shown. */
  const done = new Set<string>()
  const shown = new Map<string, number>()
  let past: Past<Listed> | undefined = begin === undefined ? undefined : { after: begin, notBy: [] }
  for (let page = 0; page < MAX_LIST_PAGES; page++) {
    const listed = await read(limit, past)
    for (const id of await agents.findBanned([...new Set(listed.map((one) => one.agent_id))])) done.add(id)
    for (const one of listed) {
      if (done.has(one.agent_id)) continue
      const count = (shown.get(one.agent_id) ?? 0) + 1
      shown.set(one.agent_id, count)
      if (count >= perAgent) done.add(one.agent_id)
      kept.push(one)
    }
    const last = listed.at(-1)
    if (kept.length >= limit || listed.length < limit || last === undefined) break
    past = { after: last, notBy: [...done] }
  }
  return kept.slice(0, limit)
}

/** A record as it may be shown: hidden if its author's ban hides what it wrote. */
export async function veil<Stored extends Hideable & { agent_id: string; at: number }>(
  agents: AgentStore,
  record: Stored,
): Promise<Stored> {
  const author = await agents.find(record.agent_id)
  return author?.ban_hides === undefined ? record : { ...record, hidden_at: author.banned_at ?? record.at }
}
