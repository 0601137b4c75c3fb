import { collectFindings, type Finding } from './finding.ts'
import type { SeenAgent } from './seen.ts'
import type { StoredMoney } from './money.ts'
import type { Stored } from './stored.ts'

/**
 * Finds events that are missing or too many: each agent should have exactly one for each stored message to it,
 * verdict on its claims, agent that it referred and step of its orders.
 *
 * @param agents without events if these could not be read
 * @param orders as they were read with `stored`
 * @param laterOrders as they were read after the events: a deadline may have moved one on
 */
export function checkEvents(
  agents: readonly Pick<SeenAgent, 'id' | 'events'>[],
  stored: Stored,
  orders: StoredMoney['orders'],
  laterOrders: StoredMoney['orders'],
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const versions = new Map(laterOrders.map(({ _id, version }) => [`order ${_id}`, version]))
  /** Events that an order may have beyond those of its stored version. */
  const laterSteps = new Map(
    orders.map(({ _id, version }) => [`order ${_id}`, (versions.get(`order ${_id}`) ?? 0) - version]),
  )
  const authors = new Map(stored.claims.map(({ _id, agent_id: author }) => [_id, author]))
  for (const { id, events } of agents) {
    if (events === undefined) continue
    const expected = [
      ...stored.messages.filter(({ to }) => to === id).map(({ _id }) => `message ${_id}`),
      ...stored.verdicts
        .filter(({ claim_id: claim, by_author: byAuthor }) => authors.get(claim) === id && !byAuthor)
        .map(({ _id }) => `verdict ${_id}`),
      ...stored.agents
        .filter(({ ref }) => ref === id)
        .flatMap(({ _id, first_paid_at: paid }) => [
          `referral ${_id} registered`,
          ...(paid === undefined ? [] : [`referral ${_id} paying`]),
        ]),
      ...orders
        .filter(({ buyer_id: buyer, seller_id: seller }) => buyer === id || seller === id)
        .flatMap(({ _id, version }) => Array.from({ length: version + 1 }, () => `order ${_id}`)),
    ]
    const told = events
      .filter(({ kind }) => COMPARED.has(kind))
      .map(
        ({ kind, id: about, state }) =>
          `${comparedKind(kind)} ${about}${kind === 'referral' ? ` ${state}` : ''}`,
      )
    /** How many more were expected than told, of each. */
    const missing = countEach(expected)
    for (const [what, count] of countEach(told)) missing.set(what, (missing.get(what) ?? 0) - count)
    for (const [what, count] of missing)
      if (count > 0 || -count > (laterSteps.get(what) ?? 0))
        addFinding(
          count > 0
            ? `${id} was not told of ${what} (${count} times)`
            : `${id} was told of ${what} ${-count} times too often`,
          what.split(' ')[1] ?? '',
        )
  }
  return findings
}

/** A proposal's endorsement is stored as a verdict. */
const comparedKind = (kind: string): string => (kind === 'endorsement' ? 'verdict' : kind)
const COMPARED = new Set(['message', 'verdict', 'endorsement', 'referral', 'order'])

function countEach(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}
