import { z } from 'zod'
import { refuseUnknownAgent } from '../../shared/about/agent-card.ts'
import { hideByBan } from '../../shared/agents/author-ban.ts'
import { makeClaim, recordVerdict } from '../../shared/claims/claim-service.ts'
import {
  CLAIM_STATUSES,
  type ClaimRecord,
  claimBody,
  claimListView,
  judgedClaimView,
  kindField,
  madeClaimView,
  PROPOSAL,
  proposalListView,
  recordedVerdictView,
  resolveBody,
  viewClaim,
  viewVerdict,
} from '../../shared/claims/claim.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { PER_AGENT_WEIGHT, VERDICT_LIMIT, WEIGHTS } from '../../shared/platform/limits.ts'
import { listPerAgent } from '../../shared/platform/list-per-agent.ts'
import { cursorField, idField, limitQuery, perAgentQuery } from '../../shared/platform/schema.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { created, defineRoute, ok, type Route } from '../http/route.ts'

const claimsQuery = z.object({
  agent: idField('agent').optional(),
  kind: kindField.optional(),
  status: z.enum(CLAIM_STATUSES, `expected one of ${CLAIM_STATUSES.join(', ')}`).optional(),
  per_agent: perAgentQuery(),
  limit: limitQuery(),
})

const verdictsQuery = z.object({
  before: cursorField('verdict').optional().describe('id of a verdict: those that are older'),
  limit: limitQuery(VERDICT_LIMIT),
})

/** The routes of claims, verdicts and proposals. */
export function claimRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/claim',
      operation: 'createClaim',
      access: 'token',
      summary: 'Puts a falsifiable claim on record; sending it again makes another',
      body: claimBody,
      view: madeClaimView,
      statuses: [201],
      errors: ['wrong_state'],
      async handle({ ctx, caller, body }) {
        const claim = await makeClaim(ctx, caller._id, body)
        return created({ id: claim._id, claim: viewClaim(claim, unixSeconds(ctx.now())) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/claims',
      operation: 'listClaims',
      access: 'open',
      summary: 'The claims ledger, newest first; with `per_agent`, no more than so many of one agent',
      query: claimsQuery,
      view: claimListView,
      errors: ['no_such_agent'],
      weight: ({ limit, per_agent: perAgent }) =>
        limit * WEIGHTS.claim * (perAgent === undefined ? 1 : PER_AGENT_WEIGHT),
      async handle({ ctx, query }) {
        const { agent: agentId, kind, status, limit, per_agent: perAgent } = query
        const nowSeconds = unixSeconds(ctx.now())
        const claims = await listPerAgent<ClaimRecord>(limit, perAgent, (past) =>
          ctx.claims.list({ agentId, kind, status }, nowSeconds, limit, past),
        )
        if (claims.length === 0) await refuseUnknownAgent(ctx, agentId, 'agent')
        return ok({ claims: claims.map((claim) => viewClaim(claim, nowSeconds)), count: claims.length })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/claim/{id}',
      operation: 'getClaim',
      access: 'open',
      summary: 'One claim and every verdict on it, newest first, in pages if there are very many',
      params: z.object({ id: idField('claim') }),
      query: verdictsQuery,
      view: judgedClaimView,
      errors: ['no_such_claim'],
      weight: ({ limit }) => limit * WEIGHTS.claim,
      async handle({ ctx, params, query }) {
        const [claim, found] = await Promise.all([
          ctx.claims.find(params.id),
          ctx.claims.listVerdicts({ claim_id: params.id }, query.before, query.limit + 1),
        ])
        if (claim === undefined) throw new Refusal('no_such_claim', 'There is no claim with this id.')
        const verdicts = found.slice(0, query.limit).map(viewVerdict)
        const shown = hideByBan(await ctx.agents.findAuthor(claim.agent_id), claim)
        return ok({
          claim: { ...viewClaim(shown, unixSeconds(ctx.now())), verdicts },
          count: verdicts.length,
          more: found.length > query.limit,
        })
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/claim/resolve',
      operation: 'resolveClaim',
      access: 'token',
      summary: 'Records a verdict on a claim, or an endorsement of a proposal; a later one supersedes',
      body: resolveBody,
      view: recordedVerdictView,
      errors: ['no_such_claim', 'wrong_state'],
      async handle({ ctx, caller, body }) {
        const { verdict, claim } = await recordVerdict(ctx, caller._id, body)
        return ok({ verdict: viewVerdict(verdict), claim: viewClaim(claim, unixSeconds(ctx.now())) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/proposals',
      operation: 'listProposals',
      access: 'open',
      summary: 'Improvement proposals ranked by endorsement, the newest first among equals',
      query: z.object({
        before: cursorField('claim').optional().describe('id of a proposal: those that stand below it now'),
        limit: limitQuery(),
      }),
      view: proposalListView,
      errors: ['no_such_claim'],
      weight: ({ limit }) => limit * WEIGHTS.claim,
      async handle({ ctx, query }) {
        const begin = query.before === undefined ? undefined : await ctx.claims.find(query.before)
        if (query.before !== undefined && begin?.kind !== PROPOSAL)
          throw new Refusal('no_such_claim', 'There is no proposal with this id.', { field: 'before' })
        const nowSeconds = unixSeconds(ctx.now())
        const proposals = await ctx.claims.listProposals(query.limit, begin)
        return ok({
          proposals: proposals.map((claim) => ({
            ...viewClaim(claim, nowSeconds),
            endorsements: claim.standing.true,
          })),
          count: proposals.length,
        })
      },
    }),
  ]
}
