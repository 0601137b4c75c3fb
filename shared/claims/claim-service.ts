import type { Context } from '../context.ts'
import { commit } from '../crypto/commitment.ts'
import type { Session } from '../database.ts'
import { Refusal } from '../errors.ts'
import { newId } from '../ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { MAX_PASS_DAYS, MIN_PASS_DAYS } from '../limits.ts'
import { createTurns } from '../one-at-a-time.ts'
import { creditDays } from '../passes/pass-service.ts'
import { unixSeconds } from '../time.ts'
import { claimContent, PROPOSAL, statusAt, type ClaimRecord, type ClaimStatus, type Outcome, type VerdictRecord } from './claim.ts'

const takeTurns = createTurns()

/** Puts a claim on record, with its entry, and counts it on its author. @throws Refusal `invalid_field` for a past `resolve_by` */
export async function makeClaim(
  ctx: Context,
  agentId: string,
  fields: { statement: string; kind: string; resolve_by?: number | undefined },
): Promise<ClaimRecord> {
  const at = unixSeconds(ctx.now())
  if (fields.resolve_by !== undefined && fields.resolve_by <= at) {
    throw new Refusal('invalid_field', 'resolve_by lies in the past; expected a time in the future.', { field: 'resolve_by' })
  }
  const id = newId('claim')
  const salt = newSalt()
  const contentHash = commit(Buffer.from(salt, 'hex'), claimContent(fields))
  const claim: ClaimRecord = {
    _id: id,
    agent_id: agentId,
    at,
    statement: fields.statement,
    kind: fields.kind,
    ...(fields.resolve_by === undefined ? {} : { resolve_by: fields.resolve_by }),
    salt,
    status: 'open',
    standing: { true: 0, false: 0, void: 0 },
    pending: [
      {
        source: `${id}/claim`,
        at,
        kind: 'claim',
        data: { claim_id: id, agent_id: agentId, content_hash: contentHash, resolve_by: fields.resolve_by ?? null },
      },
    ],
  }
  await takeTurns(agentId, () =>
    ctx.database.transaction(async (session) => {
      await ctx.claims.insert(claim, session)
      await ctx.agents.countClaims(agentId, { open: 1 }, {}, session)
    }),
  )
  return claim
}

/**
 * Records a verdict. An agent's earlier one on the same claim is superseded and stays on record; the author's own is
 * kept and does not count. Verdict, supersession, the claim's status and the author's counts change in one transaction.
 *
 * @throws Refusal `no_such_claim`
 */
export async function recordVerdict(
  ctx: Context,
  agentId: string,
  fields: { claim_id: string; outcome: Outcome; evidence?: string | undefined },
): Promise<{ verdict: VerdictRecord; claim: ClaimRecord }> {
  const known = await ctx.claims.find(fields.claim_id)
  if (known === undefined) throw new Refusal('no_such_claim', 'There is no claim with this id.', { field: 'claim_id' })
  // Every verdict on a claim of one author changes that author's counts.
  return takeTurns(known.agent_id, () => insertVerdict(ctx, agentId, fields))
}

async function insertVerdict(
  ctx: Context,
  agentId: string,
  fields: { claim_id: string; outcome: Outcome; evidence?: string | undefined },
): Promise<{ verdict: VerdictRecord; claim: ClaimRecord }> {
  const at = unixSeconds(ctx.now())
  const verdictId = newId('verdict')
  const salt = newSalt()
  return ctx.database.transaction(async (session) => {
    const claim = await ctx.claims.find(fields.claim_id, session)
    if (claim === undefined) throw new Error(`claim ${fields.claim_id} was there and is gone`)
    const earlier = await ctx.claims.findStandingVerdict(claim._id, agentId, session)
    const byAuthor = claim.agent_id === agentId
    const verdict: VerdictRecord = {
      _id: verdictId,
      claim_id: claim._id,
      agent_id: agentId,
      at,
      outcome: fields.outcome,
      ...(fields.evidence === undefined ? {} : { evidence: fields.evidence }),
      salt,
      by_author: byAuthor,
      superseded: false,
      pending: [
        {
          source: `${verdictId}/verdict`,
          at,
          kind: 'verdict',
          data: {
            verdict_id: verdictId,
            claim_id: claim._id,
            agent_id: agentId,
            outcome: fields.outcome,
            by_author: byAuthor,
            supersedes: earlier?._id ?? null,
            evidence_hash: commit(Buffer.from(salt, 'hex'), { evidence: fields.evidence ?? null }),
          },
        },
      ],
    }
    if (earlier !== undefined) await ctx.claims.supersede(earlier._id, session)
    await ctx.claims.insertVerdict(verdict, session)
    return { verdict, claim: byAuthor ? claim : await countVerdict(ctx, claim, earlier?.outcome, fields.outcome, at, session) }
  })
}

async function countVerdict(
  ctx: Context,
  claim: ClaimRecord,
  earlier: Outcome | undefined,
  outcome: Outcome,
  nowSeconds: number,
  session: Session,
): Promise<ClaimRecord> {
  if (earlier === outcome) return claim
  const change: Partial<Record<Outcome, number>> = { [outcome]: 1, ...(earlier === undefined ? {} : { [earlier]: -1 }) }
  const standing = { ...claim.standing }
  for (const [key, by] of Object.entries(change) as [Outcome, number][]) standing[key] += by
  return move(ctx, claim, statusAt({ ...claim, standing }, nowSeconds), standing, change, session)
}

/** Moves a claim's status and counts, and its author's record with them. */
async function move(
  ctx: Context,
  claim: ClaimRecord,
  status: ClaimStatus,
  standing: ClaimRecord['standing'],
  verdictChange: Partial<Record<Outcome, number>>,
  session: Session,
  accepted?: { at: number; entries: PendingEntry[] },
): Promise<ClaimRecord> {
  // Inside a transaction the snapshot's claim is the stored one or the write conflicts, and the driver runs it all again.
  if (!(await ctx.claims.moveStatus(claim, status, standing, session, accepted)))
    throw new Error(`claim ${claim._id} changed inside its own transaction`)
  const statusChange = status === claim.status ? {} : { [claim.status]: -1, [status]: 1 }
  await ctx.agents.countClaims(claim.agent_id, statusChange, verdictChange, session)
  return { ...claim, status, standing }
}

/** Moves open claims whose time has passed to `overdue`. */
export async function moveOverdueClaims(ctx: Context, limit = 500): Promise<void> {
  const nowSeconds = unixSeconds(ctx.now())
  const due = await ctx.claims.listComingOverdue(nowSeconds, limit)
  for (const { _id } of due) {
    await ctx.database.transaction(async (session) => {
      const claim = await ctx.claims.find(_id, session)
      if (claim === undefined || claim.status !== 'open' || statusAt(claim, nowSeconds) !== 'overdue') return
      await move(ctx, claim, 'overdue', claim.standing, {}, session)
    })
  }
}

/**
 * Takes up a proposal: it is `accepted` for ever and its author's pass is credited, in one transaction, once.
 *
 * @throws Refusal `no_such_claim`; `wrong_state` where it is no proposal or was accepted before
 */
export async function acceptProposal(ctx: Context, claimId: string, days: number): Promise<ClaimRecord> {
  if (!Number.isInteger(days) || days < MIN_PASS_DAYS || days > MAX_PASS_DAYS) {
    throw new Refusal('invalid_field', `A proposal is accepted with ${MIN_PASS_DAYS} to ${MAX_PASS_DAYS} whole days, not ${days}.`, {
      field: 'days',
    })
  }
  return ctx.database.transaction(async (session) => {
    const claim = await ctx.claims.find(claimId, session)
    if (claim === undefined) throw new Refusal('no_such_claim', 'There is no claim with this id.')
    if (claim.kind !== PROPOSAL) throw new Refusal('wrong_state', `This claim is of kind "${claim.kind}"; only a proposal can be accepted.`)
    if (claim.status === 'accepted') throw new Refusal('wrong_state', 'This proposal was accepted before.')
    const author = await ctx.agents.find(claim.agent_id, session)
    if (author === undefined) throw new Error(`claim ${claimId} has no author`)
    const credit = await creditDays(
      ctx,
      author,
      days,
      { source: `${claimId}/credit`, means: 'proposal', record: { claim_id: claimId } },
      session,
    )
    const { at } = credit
    const acceptance: PendingEntry = {
      source: `${claimId}/accepted`,
      at,
      kind: 'proposal_accepted',
      data: { claim_id: claimId, agent_id: author._id, days },
    }
    const accepted = await move(ctx, claim, 'accepted', claim.standing, {}, session, { at, entries: [acceptance, credit] })
    return { ...accepted, accepted_at: at }
  })
}
