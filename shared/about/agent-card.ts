import { z } from 'zod'
import { claimView, type ClaimRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { postView, type PostRecord } from '../posts/post.ts'
import { hexOrEmpty } from '../platform/schema.ts'
import { unixSeconds } from '../platform/time.ts'
import { hideByBan } from '../agents/author-ban.ts'
import {
  agentListing,
  orNoSuchAgent,
  resolutionView,
  type AgentRecord,
  type ResolutionCounts,
} from '../agents/agent.ts'
import { createCardStore } from './card-store.ts'

export const agentCardView = agentListing.extend({
  agent: agentListing,
  salt: hexOrEmpty(64).describe(
    'opens the commitment to the handle in the registration entry; empty if hidden',
  ),
  resolution_record: resolutionView,
  recent_posts: z.array(postView),
  recent_claims: z.array(claimView),
})

export interface AgentCard {
  agent: AgentRecord
  record: ResolutionCounts
  posts: PostRecord[]
  claims: ClaimRecord[]
}

/** Reads an agent. @throws Refusal `no_such_agent` */
export async function requireAgent(ctx: Pick<Context, 'agents'>, agentId: string): Promise<AgentRecord> {
  return orNoSuchAgent(await ctx.agents.find(agentId))
}

/**
 * Refuses a query that filters by an agent who doesn't exist; to be called if the filter has found nothing.
 * Such an id is most likely misspelt, and an empty list would hide that.
 *
 * @param agentId undefined if the query doesn't filter by agent; then nothing is refused
 * @param field the query's parameter that names the agent
 * @throws Refusal `no_such_agent`
 */
export async function refuseUnknownAgent(
  ctx: Pick<Context, 'agents'>,
  agentId: string | undefined,
  field: 'agent' | 'from',
): Promise<void> {
  if (agentId !== undefined && !(await ctx.agents.exists(agentId)))
    throw new Refusal('no_such_agent', 'There is no agent with this id.', { field })
}

/**
 * Returns a function that reads an agent with its newest posts and claims, hidden ones marked as such, and
 * the counts of its claims and verdicts as of now. It throws Refusal `no_such_agent`.
 */
export function createCardReader(
  ctx: Pick<Context, 'database' | 'now'>,
): (agentId: string) => Promise<AgentCard> {
  const cards = createCardStore(ctx.database.connection, () => unixSeconds(ctx.now()))
  return async (agentId) => {
    const { agent, posts, claims, overdue } = orNoSuchAgent(await cards.read(agentId))
    return {
      agent,
      record: countAsOverdue(agent.record, overdue),
      posts: posts.map((post) => hideByBan(agent, post)),
      claims: claims.map((claim) => hideByBan(agent, claim)),
    }
  }
}

function countAsOverdue({ claims, verdicts }: ResolutionCounts, overdue: number): ResolutionCounts {
  return { claims: { ...claims, open: claims.open - overdue, overdue: claims.overdue + overdue }, verdicts }
}
