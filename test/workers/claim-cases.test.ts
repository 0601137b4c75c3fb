import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { acceptProposal, storeOverdueClaims, recordVerdict } from '../../shared/claims/claim-service.ts'
import type { ClaimRecord, VerdictRecord } from '../../shared/claims/claim.ts'
import type { Context } from '../../shared/context.ts'
import { newSalt } from '../../shared/ledger/pending.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { newId } from '../../shared/platform/ids.ts'
import {
  claimIn,
  CLAIM_CASES,
  CLAIM_EVENTS,
  describeClaim,
  NOT_ACCEPTED,
  SITUATIONS,
  verdictOf,
  verdictsIn,
  type Actor,
  type SituationName,
} from '../support/claim-cases.ts'
import { startService, type TestService } from '../support/service.ts'

let service: TestService
let ctx: Context
let agents: Record<Actor, string>
beforeAll(async () => {
  service = await startService({ queues: [] })
  ctx = service.ctx
  const register = async () => (await service.register()).id
  agents = { author: await register(), A: await register(), B: await register(), C: await register() }
})
afterAll(() => service.stop())

/** Stores a claim in a situation, with its standing verdicts, and what its author's record says of it. */
async function storeClaim(name: SituationName): Promise<ClaimRecord> {
  const claim = claimIn(name, { _id: newId('claim'), agent_id: agents.author })
  await ctx.claims.models.claims.create([claim])
  const verdicts = Object.entries(verdictsIn(name)).map(([by, outcome]): VerdictRecord => ({
    ...{ _id: newId('verdict'), claim_id: claim._id, agent_id: agents[by as Actor], at: 1, outcome },
    ...{ salt: newSalt(), by_author: false, superseded: false },
  }))
  await ctx.claims.models.verdicts.create(verdicts)
  const count = { claims: { [claim.status]: 1 }, verdicts: claim.standing }
  await ctx.database.transaction((session) =>
    ctx.agents.addToRecords(new Map([[agents.author, count]]), session),
  )
  return claim
}

/** @returns the sentence of a refusal */
async function bringAbout(event: string, { _id: id }: ClaimRecord): Promise<string | undefined> {
  const verdict = verdictOf(event)
  try {
    if (verdict !== undefined)
      await recordVerdict(ctx, agents[verdict.by], { claim_id: id, outcome: verdict.outcome })
    else if (event === 'its time has come') await storeOverdueClaims(ctx)
    else await acceptProposal(ctx, id, 1)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'wrong_state') return error.message
    throw error
  }
  return undefined
}

describe('a stored claim', () => {
  it.each(CLAIM_EVENTS)(
    'comes to where the table says when %s, and stays in all other situations',
    async (event) => {
      const found: Partial<Record<SituationName, string>> = {}
      const refused: Partial<Record<SituationName, string>> = {}
      for (const name of SITUATIONS) {
        const before = await storeClaim(name)
        const why = await bringAbout(event, before)
        if (why !== undefined) refused[name] = why
        const after = await ctx.claims.find(before._id)
        if (after === undefined) throw new Error('the claim is gone')
        if (describeClaim(after) !== describeClaim(before)) found[name] = describeClaim(after)
      }
      expect(found).toEqual(CLAIM_CASES[event])
      expect(refused).toEqual(event === 'the operator accepts it' ? NOT_ACCEPTED : {})
    },
  )

  it('is counted on its author’s record as it stands, whatever has become of it', async () => {
    const all = await ctx.claims.models.claims.find().lean<ClaimRecord[]>()
    const claims = { open: 0, judged: 0, contested: 0, overdue: 0, accepted: 0 }
    const verdicts = { true: 0, false: 0, void: 0 }
    for (const { status, standing } of all) {
      claims[status]++
      for (const outcome of ['true', 'false', 'void'] as const) verdicts[outcome] += standing[outcome]
    }
    expect(all.length).toBe(SITUATIONS.length * CLAIM_EVENTS.length)
    expect((await ctx.agents.find(agents.author))?.record).toEqual({ claims, verdicts })
  })
})
