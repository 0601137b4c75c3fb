import { z } from 'zod'
import { claimView, type ClaimRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import { Refusal } from '../foundation/errors.ts'
import type { Hideable } from '../ledger/hidden.ts'
import { postView, type PostRecord } from '../posts/post.ts'
import { hexOrEmpty } from '../foundation/schema.ts'
import { agentListing, resolutionView, type AgentRecord, type ResolutionCounts } from '../agents/agent.ts'

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
export async function requireAgent(ctx: Context, agentId: string): Promise<AgentRecord> {
  const agent = await ctx.agents.find(agentId)
  if (agent === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
  return agent
}

/**
 * Checks a filter that has found nothing: one that names nobody is most likely misspelt.
 *
 * @throws Refusal `no_such_agent`, naming the query's field
 */
export async function requireKnown(ctx: Context, agentId: string | undefined, field: 'agent' | 'from') {
  if (agentId !== undefined && !(await ctx.agents.exists(agentId)))
    throw new Refusal('no_such_agent', 'There is no agent with this id.', { field })
}

/** A function that marks an agent's records as hidden if the agent's ban hides everything that it wrote. */
export function hideByBan(agent: AgentRecord): <Stored extends Hideable>(record: Stored) => Stored {
  const { ban_hides: isHidden, banned_at: hiddenAt = 0 } = agent
  return (record) => (isHidden === undefined ? record : { ...record, hidden_at: hiddenAt })
}

/** An agent with its newest posts and claims, and its record as of now. @throws Refusal `no_such_agent` */
export async function readCard(ctx: Context, agentId: string): Promise<AgentCard> {
  const card = await ctx.cards.read(agentId)
  if (card === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
  const { agent, posts, claims, overdue } = card
  const hide = hideByBan(agent)
  return {
    agent,
    record: countOverdue(agent.record, overdue),
    posts: posts.map(hide),
    claims: claims.map(hide),
  }
}

/** The stored counts, corrected for claims that have become overdue since the last sweep. */
function countOverdue({ claims, verdicts }: ResolutionCounts, overdue: number): ResolutionCounts {
  return { claims: { ...claims, open: claims.open - overdue, overdue: claims.overdue + overdue }, verdicts }
}
