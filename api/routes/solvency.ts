import { z } from 'zod'
import {
  controlProofView,
  readStatement,
  statementView,
  viewProof,
} from '../../shared/about/solvency-page.ts'
import { COINS } from '../../shared/money/coin.ts'
import { countView, cursorField, limitQuery, wholeNumber } from '../../shared/platform/schema.ts'
import { defineRoute, ok, type Route } from '../http/route.ts'

/** What a reserve proof of a large wallet weighs, in KiB. */
const PROOF_WEIGHT = 5
const STATEMENT_WEIGHT = 100

/** The routes of what is owed and held, and of the proofs that it is the venue's. */
export const solvencyRoutes = (): Route[] => [
  defineRoute({
    method: 'GET',
    path: '/solvency',
    operation: 'getSolvencyStatement',
    alsoAtRoot: true,
    access: 'open',
    summary:
      "What a seal states: all that isn't the venue's own, what it holds, and proofs that it controls that",
    query: z.object({ seq: wholeNumber(1).optional().describe('of this seal; of the newest if absent') }),
    view: statementView,
    errors: ['no_such_seal'],
    weight: () => STATEMENT_WEIGHT,
    handle: async ({ ctx, query: { seq } }) => ok(await readStatement(ctx, seq)),
  }),
  defineRoute({
    method: 'GET',
    path: '/solvency/proofs',
    operation: 'listControlProofs',
    alsoAtRoot: true,
    access: 'open',
    summary: 'All proofs that the venue controls what its seals state, ascending',
    query: z.object({
      coin: z.enum(COINS, `expected one of ${COINS.join(', ')}`).optional(),
      after: cursorField('control_proof').optional().describe('the proofs after this one'),
      limit: limitQuery(),
    }),
    view: z.object({ proofs: z.array(controlProofView), ...countView }),
    weight: ({ limit }) => limit * PROOF_WEIGHT,
    async handle({ ctx, query: { coin, after = '', limit } }) {
      const proofs = (await ctx.coins.controls.list(coin, after, limit)).map(viewProof)
      return ok({ proofs, count: proofs.length })
    },
  }),
]
