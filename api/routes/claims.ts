import { z } from 'zod'
import { makeClaim, recordVerdict } from '../../shared/claims/claim-service.ts'
import {
  CLAIM_STATUSES,
  claimBody,
  claimListView,
  judgedClaimView,
  madeClaimView,
  proposalListView,
  recordedVerdictView,
  resolveBody,
  viewClaim,
  viewVerdict,
} from '../../shared/claims/claim.ts'
import { Refusal } from '../../shared/errors.ts'
import { createSharedReads } from '../../shared/group-commit.ts'
import { VERDICT_LIMIT } from '../../shared/limits.ts'
import { idField, limitQuery } from '../../shared/schema.ts'
import { unixSeconds } from '../../shared/time.ts'
import { writeJson } from '../http/answer.ts'
import { created, defineRoute, ok, type Route } from '../http/route.ts'

const claimsQuery = z.object({
  agent: idField('agent').optional(),
  status: z.enum(CLAIM_STATUSES, `expected one of ${CLAIM_STATUSES.join(', ')}`).optional(),
  limit: limitQuery(),
})

const verdictsQuery = z.object({
  before: idField('verdict').optional().describe('id of a verdict: those that are older'),
  limit: limitQuery(VERDICT_LIMIT),
})

export function claimRoutes(): Route[] {
  const shareList = createSharedReads<Buffer>()
  const shareProposals = createSharedReads<Buffer>()
  return [
    defineRoute({
      method: 'POST',
      path: '/claim',
      access: 'token',
      summary: 'Puts a falsifiable claim on record; sending it again makes another',
      body: claimBody,
      view: madeClaimView,
      statuses: [201],
      async handle({ ctx, caller, body }) {
        const claim = await makeClaim(ctx, caller._id, body)
        return created({ id: claim._id, claim: viewClaim(claim, unixSeconds(ctx.now())) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/claims',
      access: 'open',
      summary: 'The claims ledger, newest first',
      query: claimsQuery,
      view: claimListView,
      async handle({ ctx, query }) {
        const { agent: agentId, status, limit } = query
        const json = await shareList(JSON.stringify([agentId, status, limit]), async () => {
          const nowSeconds = unixSeconds(ctx.now())
          const claims = await ctx.claims.list({ agentId, status }, nowSeconds, limit)
          return writeJson({ claims: claims.map((claim) => viewClaim(claim, nowSeconds)), count: claims.length })
        })
        return { status: 200, json }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/claim/{id}',
      access: 'open',
      summary: 'One claim and every verdict on it, newest first, in pages where there are very many',
      params: z.object({ id: idField('claim') }),
      query: verdictsQuery,
      view: judgedClaimView,
      errors: ['no_such_claim'],
      async handle({ ctx, params, query }) {
        const [claim, found] = await Promise.all([
          ctx.claims.find(params.id),
          ctx.claims.listVerdicts(params.id, query.before, query.limit + 1),
        ])
        if (claim === undefined) throw new Refusal('no_such_claim', 'There is no claim with this id.')
        const verdicts = found.slice(0, query.limit).map(viewVerdict)
        return ok({
          claim: { ...viewClaim(claim, unixSeconds(ctx.now())), verdicts },
          count: verdicts.length,
          more: found.length > query.limit,
        })
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/claim/resolve',
      access: 'token',
      summary: 'Records a verdict on a claim, or an endorsement of a proposal; a later one supersedes',
      body: resolveBody,
      view: recordedVerdictView,
      errors: ['no_such_claim'],
      async handle({ ctx, caller, body }) {
        const { verdict, claim } = await recordVerdict(ctx, caller._id, body)
        return ok({ verdict: viewVerdict(verdict), claim: viewClaim(claim, unixSeconds(ctx.now())) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/proposals',
      access: 'open',
      summary: 'Improvement proposals ranked by endorsement, the oldest first among equals',
      query: z.object({ limit: limitQuery() }),
      view: proposalListView,
      async handle({ ctx, query }) {
        const json = await shareProposals(String(query.limit), async () => {
          const nowSeconds = unixSeconds(ctx.now())
          const proposals = await ctx.claims.listProposals(query.limit)
          return writeJson({
            proposals: proposals.map((claim) => ({ ...viewClaim(claim, nowSeconds), endorsements: claim.standing.true })),
            count: proposals.length,
          })
        })
        return { status: 200, json }
      },
    }),
  ]
}
