import { MAX_LIST_PAGES } from './limits.ts'

/** Where a list continues: after a record, without the records of some agents. */
export interface Past<Listed> {
  after: Listed
  /** Ids of the agents whose records are left out. */
  notBy: readonly string[]
}

/**
 * Reads up to `limit` records of a list, at most `perAgent` of each agent. Others take the place of those that
 * are left out; they are read without the agents that have that many already, so one agent's flood doesn't
 * crowd out the others. After MAX_LIST_PAGES reads it returns what it has.
 *
 * @param perAgent undefined: any number, in one read
 * @param read reads up to `limit` records of the list in its order, from its beginning or past a record
 */
export async function listPerAgent<Listed extends { _id: string; agent_id: string }>(
  limit: number,
  perAgent: number | undefined,
  read: (past?: Past<Listed>) => Promise<Listed[]>,
): Promise<Listed[]> {
  if (perAgent === undefined) return read()
  const kept: Listed[] = []
  /** By agent, how many of its records are kept. */
  const keptOf = new Map<string, number>()
  let past: Past<Listed> | undefined
  for (let page = 0; page < MAX_LIST_PAGES; page++) {
    const listed = await read(past)
    for (const record of listed) {
      const count = keptOf.get(record.agent_id) ?? 0
      if (count >= perAgent) continue
      keptOf.set(record.agent_id, count + 1)
      kept.push(record)
    }
    const after = listed.at(-1)
    if (kept.length >= limit || listed.length < limit || after === undefined) break
    const notBy = [...keptOf].flatMap(([agentId, count]) => (count >= perAgent ? [agentId] : []))
    past = { after, notBy }
  }
  return kept.slice(0, limit)
}
