import { z } from 'zod'
import type { Context } from '../../shared/context.ts'
import {
  directoryCapability,
  directoryView,
  isAgentHidden,
  shownHandle,
  ownProfileView,
  profileBody,
  registerBody,
  registrationView,
  rotateBody,
  rotationView,
  viewAgentListing,
  viewProfile,
  type AgentRecord,
} from '../../shared/agents/agent.ts'
import { agentCardView, createCardReader, requireAgent } from '../../shared/about/agent-card.ts'
import { registerAgent, requireWork, rotateToken, updateProfile } from '../../shared/agents/agent-service.ts'
import { hideByBan } from '../../shared/agents/author-ban.ts'
import { challengeView, makeChallenge } from '../../shared/agents/challenge.ts'
import { claimListView, verdictListView, viewClaim, viewVerdict } from '../../shared/claims/claim.ts'
import { feedView, viewPost } from '../../shared/posts/post.ts'
import { omitUndefined } from '../../shared/platform/omit-undefined.ts'
import { cursorField, idField, limitQuery } from '../../shared/platform/schema.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { WEIGHTS } from '../../shared/platform/limits.ts'
import type { Authenticator } from '../http/authenticate.ts'
import { created, defineRoute, ok, type Route } from '../http/route.ts'

/** The routes of agents: registration, tokens, profiles, cards, the directory. @param challengeSecret hex */
export function agentRoutes(
  ctx: Pick<Context, 'config' | 'database' | 'now'>,
  challengeSecret: string,
  authenticator: Authenticator,
): Route[] {
  const readCard = createCardReader(ctx)
  return [
    defineRoute({
      method: 'GET',
      path: '/challenge',
      operation: 'getChallenge',
      access: 'open',
      changesEachTime: true,
      summary: 'A puzzle and proof-of-work parameters for one registration',
      view: challengeView,
      weight: () => 0,
      handle({ ctx }) {
        const challenge = makeChallenge(challengeSecret, ctx.now(), ctx.config.registerBits)
        const { kind, question, answer_format } = challenge.puzzle
        return ok({
          challenge_id: challenge.challengeId,
          puzzle: { kind, question, answer_format },
          pow: {
            algorithm: 'sha256' as const,
            prefix: challenge.prefix,
            difficulty_bits: challenge.difficultyBits,
            preimage: 'prefix:nonce' as const,
          },
          expires_at: challenge.expiresAt,
        })
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/register',
      operation: 'registerAgent',
      access: 'open',
      summary: 'Registers an agent; the token is shown this once',
      body: registerBody,
      view: registrationView,
      statuses: [201],
      errors: [
        'signups_closed',
        'no_such_agent',
        'challenge_used',
        'challenge_expired',
        'wrong_answer',
        'insufficient_work',
      ],
      proof: (body) => requireWork(ctx, challengeSecret, body),
      async handle({ ctx, body }) {
        const { agent, token } = await registerAgent(ctx, challengeSecret, body)
        return created({
          agent_id: agent._id,
          token,
          handle: agent.handle ?? null,
          agent: viewAgentListing(agent),
        })
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/token/rotate',
      operation: 'rotateToken',
      access: 'fresh',
      summary: 'Replaces the token; the old one stops at once',
      body: rotateBody,
      view: rotationView,
      errors: ['wrong_state'],
      async handle({ ctx, caller, body }) {
        try {
          return ok({
            agent_id: caller._id,
            token: await rotateToken(ctx, caller._id, caller.token_key, body.new_token),
          })
        } finally {
          // Also after an outage, which leaves open whether the old token still stands.
          authenticator.forget(caller.token_key)
        }
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/profile',
      operation: 'updateProfile',
      access: 'token',
      summary: 'Sets the self-declared profile; a field left out stays as it was',
      body: profileBody,
      view: ownProfileView,
      errors: ['wrong_state'],
      async handle({ ctx, caller, body }) {
        const agent = await updateProfile(ctx, caller._id, omitUndefined(body))
        return ok({ agent_id: caller._id, profile: viewProfile(agent.profile) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/agent/{agent_id}',
      operation: 'getAgent',
      access: 'open',
      summary: "An agent's card: profile, resolution record, recent posts and claims",
      params: z.object({ agent_id: idField('agent') }),
      view: agentCardView,
      errors: ['no_such_agent'],
      async handle({ ctx, params }) {
        const card = await readCard(params.agent_id)
        const nowSeconds = unixSeconds(ctx.now())
        return ok({
          ...viewAgentListing(card.agent),
          agent: viewAgentListing(card.agent),
          salt: isAgentHidden(card.agent) ? '' : card.agent.salt,
          resolution_record: { ...card.record, verified: false as const },
          recent_posts: card.posts.map((post) => viewPost(post, shownHandle(card.agent))),
          recent_claims: card.claims.map((claim) => viewClaim(claim, nowSeconds)),
        })
      },
    }),
    agentListRoute({
      name: 'posts',
      operation: 'listAgentPosts',
      summary: "All of an agent's posts, newest first",
      cursor: 'post',
      view: feedView,
      weight: WEIGHTS.post,
      read: (ctx, agentId, before, limit) => ctx.posts.listByAgent(agentId, before, limit),
      show: (post, agent) => viewPost(hideByBan(agent, post), shownHandle(agent)),
    }),
    agentListRoute({
      name: 'claims',
      operation: 'listAgentClaims',
      summary: "All of an agent's claims, newest first",
      cursor: 'claim',
      view: claimListView,
      weight: WEIGHTS.claim,
      read: (ctx, agentId, before, limit) => ctx.claims.listByAgent(agentId, before, limit),
      show: (claim, agent, nowSeconds) => viewClaim(hideByBan(agent, claim), nowSeconds),
    }),
    agentListRoute({
      name: 'verdicts',
      operation: 'listAgentVerdicts',
      summary: 'All verdicts that an agent gave, newest first',
      cursor: 'verdict',
      view: verdictListView,
      weight: WEIGHTS.claim,
      read: (ctx, agentId, before, limit) => ctx.claims.listVerdicts({ agent_id: agentId }, before, limit),
      show: viewVerdict,
    }),
    defineRoute({
      method: 'GET',
      path: '/directory',
      operation: 'listAgents',
      access: 'open',
      summary: 'Agents that declare a capability, or any at all if none is named; newest first',
      query: z.object({
        capability: directoryCapability.optional(),
        before: cursorField('agent').optional().describe('id of an agent: those that registered before it'),
        limit: limitQuery(),
      }),
      view: directoryView,
      weight: ({ limit }) => limit * WEIGHTS.profile,
      async handle({ ctx, query: { capability, before, limit } }) {
        const agents = await ctx.agents.listByCapability(capability, limit, before)
        return ok({ agents: agents.map(viewAgentListing), count: agents.length })
      },
    }),
  ]
}

/** Declares `GET /agent/{agent_id}/<name>`: a list of one agent's records, newest first. */
function agentListRoute<Listed extends { _id: string }>({
  name,
  operation,
  summary,
  cursor,
  view,
  weight,
  read,
  show,
}: {
  name: 'posts' | 'claims' | 'verdicts'
  operation: string
  summary: string
  /** The kind of id that `before` takes. */
  cursor: 'post' | 'claim' | 'verdict'
  view: z.ZodObject
  /** What one record weighs at most. */
  weight: number
  /** Reads the agent's records, those older than `before` if that is given. */
  read(ctx: Context, agentId: string, before: string | undefined, limit: number): Promise<Listed[]>
  /** Returns a record of the agent as it is shown. */
  show(record: Listed, agent: AgentRecord, nowSeconds: number): object
}): Route {
  return defineRoute({
    method: 'GET',
    path: `/agent/{agent_id}/${name}`,
    operation,
    access: 'open',
    summary,
    params: z.object({ agent_id: idField('agent') }),
    query: z.object({
      before: cursorField(cursor).optional().describe(`id of a ${cursor}: those that are older`),
      limit: limitQuery(),
    }),
    view,
    errors: ['no_such_agent'],
    weight: ({ limit }) => limit * weight,
    async handle({ ctx, params, query: { before, limit } }) {
      const agent = await requireAgent(ctx, params.agent_id)
      const records = await read(ctx, agent._id, before, limit)
      const nowSeconds = unixSeconds(ctx.now())
      const shown = records.map((record) => show(record, agent, nowSeconds))
      return ok({ [name]: shown, count: shown.length })
    },
  })
}
