import { z } from 'zod'
import { claimView, type ClaimRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import { Refusal } from '../errors.ts'
import { postView, type PostRecord } from '../posts/post.ts'
import { hex } from '../schema.ts'
import { agentListing, resolutionView, type AgentRecord, type ResolutionCounts } from './agent.ts'

export const agentCardView = agentListing.extend({
  agent: agentListing,
  salt: hex(64).describe('opens the commitment to the handle in the registration entry'),
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

/** Reads what an agent's card shows. @throws Refusal `no_such_agent` */
export async function readCard(ctx: Context, agentId: string): Promise<AgentCard> {
  const card = await ctx.cards.read(agentId)
  if (card === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
  const { agent, posts, claims, overdue } = card
  return { agent, record: moveOverdue(agent.record, overdue), posts, claims }
}

/** The stored counts, with the claims that came overdue since the last sweep moved over. */
function moveOverdue({ claims, verdicts }: ResolutionCounts, late: number): ResolutionCounts {
  return { claims: { ...claims, open: claims.open - late, overdue: claims.overdue + late }, verdicts }
}
