import { spendAllowance } from '../agents/allowance-service.ts'
import { hideByBan } from '../agents/author-ban.ts'
import { authorData, authorOf, readAuthorship } from '../agents/authorship.ts'
import type { Context } from '../context.ts'
import type { SeenLog } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import type { Session } from '../platform/database.ts'
import { makeMark } from '../events/mark.ts'
import { invalidField, Refusal } from '../platform/errors.ts'
import { createGroups, performTogether } from '../platform/group-commit.ts'
import { newId } from '../platform/ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { MAX_PASS_DAYS, MAX_UNENDORSED_PROPOSALS, MIN_PASS_DAYS } from '../platform/limits.ts'
import { oncePer } from '../platform/once-per.ts'
import { creditDays } from '../passes/pass-service.ts'
import { unixSeconds } from '../platform/time.ts'
import {
  applyChanges,
  writesOf,
  type Change,
  type Recorded,
  type RecordedVerdict,
  type Writes,
} from './claim-changes.ts'
import { decideClaim } from './claim-steps.ts'
import type { ClaimStore, ClaimWrites } from './claim-store.ts'
import { claimContent, PROPOSAL, type ClaimRecord, type Outcome, type VerdictRecord } from './claim.ts'

type ClaimContext = Pick<Context, 'config' | 'database' | 'agents' | 'claims' | 'now'>

type Signed = { signature?: string | undefined; seen?: SeenLog | undefined }

/**
 * Stores a claim with its ledger entry, counts it on its author's record, and returns it.
 *
 * @param fields `resolve_by` in Unix seconds
 * @throws Refusal `invalid_field` for a `resolve_by` that is not in the future, or as readAuthorship();
 *   `wrong_state` if it is a proposal and its author has as many unendorsed ones as allowed, or if the author
 *   has used up today's allowance; `unavailable`
 */
export async function makeClaim(
  ctx: ClaimContext,
  agentId: string,
  fields: { statement: string; kind: string; resolve_by?: number | undefined } & Signed,
): Promise<ClaimRecord> {
  const at = unixSeconds(ctx.now())
  if (fields.resolve_by !== undefined && fields.resolve_by <= at) {
    throw invalidField('resolve_by', 'resolve_by lies in the past; expected a time in the future.')
  }
  await spendAllowance(ctx, agentId, 'claims', fields.statement)
  const { statement, kind, resolve_by: resolveBy } = fields
  const author = await readAuthorship(
    ctx,
    agentId,
    'claim',
    { statement, kind, resolve_by: resolveBy },
    fields,
  )
  const id = newId('claim')
  const salt = newSalt()
  const claim: ClaimRecord = {
    _id: id,
    agent_id: agentId,
    at,
    statement,
    kind,
    ...(resolveBy === undefined ? {} : { resolve_by: resolveBy }),
    salt,
    ...authorOf({ author }),
    status: 'open',
    standing: { true: 0, false: 0, void: 0 },
  }
  claim.pending = [claimEntry(claim)]
  if ((await recorderOf(ctx)({ claim })) === undefined)
    throw new Refusal(
      'wrong_state',
      `You have ${MAX_UNENDORSED_PROPOSALS} proposals that nobody has endorsed, which is the limit; make another once one of them is endorsed.`,
      { field: 'kind' },
    )
  return claim
}

/** Makes a claim's ledger entry, from its record alone. */
export function claimEntry(claim: ClaimRecord): PendingEntry {
  const { _id: id, agent_id, at, resolve_by: resolveBy, salt, author } = claim
  return {
    source: `${id}/claim`,
    at,
    kind: 'claim',
    data: {
      claim_id: id,
      agent_id,
      content_hash: commitRecord(id, salt, claimContent(claim)),
      resolve_by: resolveBy ?? null,
      ...authorData(author),
    },
  }
}

/**
 * Records a verdict with its ledger entry. It supersedes the agent's earlier verdict on the same claim, which
 * stays on record. A verdict by the claim's author is recorded but doesn't count. The verdict, the
 * supersession, the claim's status and its author's counts change in one transaction.
 *
 * @returns the verdict, and the claim after it, hidden if its author's ban hides it
 * @throws Refusal `no_such_claim`; `wrong_state` if the agent has used up today's allowance; `unavailable`;
 *   as readAuthorship()
 */
export async function recordVerdict(
  ctx: ClaimContext,
  agentId: string,
  fields: { claim_id: string; outcome: Outcome; evidence?: string | undefined } & Signed,
): Promise<{ verdict: RecordedVerdict; claim: ClaimRecord }> {
  await spendAllowance(ctx, agentId, 'claims', fields.evidence)
  const { claim_id: claimId, outcome, evidence } = fields
  const author = await readAuthorship(
    ctx,
    agentId,
    'verdict',
    { claim_id: claimId, outcome, evidence },
    fields,
  )
  const verdict = {
    _id: newId('verdict'),
    claim_id: claimId,
    agent_id: agentId,
    at: unixSeconds(ctx.now()),
    outcome,
    ...(evidence === undefined ? {} : { evidence }),
    salt: newSalt(),
    ...authorOf({ author }),
  }
  const recorded = await recorderOf(ctx)({ verdict })
  if (recorded?.verdict === undefined)
    throw new Refusal('no_such_claim', 'There is no claim with this id.', { field: 'claim_id' })
  const claimant = await ctx.agents.findAuthor(recorded.claim.agent_id)
  return { claim: hideByBan(claimant, recorded.claim), verdict: recorded.verdict }
}

/**
 * Returns a context's function that stores claims and verdicts in groups, one transaction a group; it resolves with a
 * change's result. One transaction of a process at a time: each has up to eight commands, so larger groups pay more than
 * to write one while another waits for the journal, and no two of them conflict. A conflict with another process is
 * noticed by the database.
 */
const recorderOf = oncePer((ctx: ClaimContext) =>
  createGroups((changes: Change[]) => performTogether(changes, (some) => recordTogether(ctx, some)), {
    patienceMs: ctx.config.requestMs,
    atOnce: 1,
    span: 'commit claims',
  }),
)

/**
 * Stores a group of changes in one transaction, which reads what they depend on, and returns their results.
 *
 * Of two transactions that change the same claim or the same counts, the later one fails and is tried again. Making
 * or endorsing a proposal changes its author's counts: so no two of them count the same unendorsed ones.
 *
 * @throws Refusal `unavailable` if conflicts go on for as long as the database may take
 */
const recordTogether = (ctx: ClaimContext, changes: readonly Change[]): Promise<Recorded[]> =>
  ctx.database.transaction(async (session) => {
    const { claims, standing, unendorsed } = await readKnown(ctx.claims, changes, session)
    const nowSeconds = unixSeconds(ctx.now())
    const { recorded, writes } = applyChanges(changes, claims, standing, unendorsed, nowSeconds)
    const claimsById = new Map(claims.map((claim) => [claim._id, claim]))
    const verdicts = writes.verdicts.map((one) => toVerdictRecord(one, claimsById.get(one.claim_id)))
    await write(ctx, { ...writes, verdicts }, session)
    return recorded
  })

/**
 * Reads what a group of changes depends on: the claims that its verdicts name, the verdicts on these by its agents
 * that stand, and how many unendorsed proposals the authors of its proposals have.
 */
async function readKnown(store: ClaimStore, changes: readonly Change[], session: Session) {
  const verdicts = changes.flatMap((one) => ('verdict' in one ? [one.verdict] : []))
  const proposers = changes.flatMap((one) =>
    'claim' in one && one.claim.kind === PROPOSAL ? [one.claim.agent_id] : [],
  )
  // Not in parallel: the commands of one transaction must be sent one after the other.
  const claims = verdicts.length === 0 ? [] : await store.findByVerdicts(verdicts, session)
  const standing = claims.length === 0 ? [] : await store.findStandingVerdicts(verdicts, session)
  return { claims, standing, unendorsed: await store.countUnendorsed([...new Set(proposers)], session) }
}

/** Stores writes and their counts. */
async function write(
  ctx: ClaimContext,
  writes: ClaimWrites & Pick<Writes, 'counts'>,
  session: Session,
): Promise<void> {
  await ctx.claims.write(writes, session)
  await ctx.agents.addToRecords(writes.counts, session)
}

/**
 * Returns the record of a new verdict, with its pending ledger entry, and a mark for the claim's author
 * unless that is who gave it.
 */
function toVerdictRecord(
  { supersedes, ...verdict }: RecordedVerdict,
  claim: ClaimRecord | undefined,
): VerdictRecord {
  const { _id: id, claim_id, agent_id, at, outcome, by_author, salt } = verdict
  const evidenceHash = commitRecord(id, salt, { evidence: verdict.evidence ?? null })
  const data = {
    verdict_id: id,
    claim_id,
    agent_id,
    outcome,
    by_author,
    supersedes,
    evidence_hash: evidenceHash,
    ...authorData(verdict.author),
  }
  const kind = claim?.kind === PROPOSAL && outcome === 'true' ? 'endorsement' : 'verdict'
  const tells =
    claim === undefined || by_author
      ? []
      : [makeMark(claim.agent_id, kind, id, { claim_id, agent_id, outcome })]
  return { ...verdict, tells, pending: [{ source: `${id}/verdict`, at, kind: 'verdict', data }] }
}

/**
 * Sets the status of open claims whose `resolve_by` has passed to `overdue`; of at most `limit` claims.
 *
 * @returns how many claims were due
 */
export async function storeOverdueClaims(ctx: ClaimContext, limit = 500): Promise<number> {
  const nowSeconds = unixSeconds(ctx.now())
  const due = await ctx.claims.listComingOverdue(nowSeconds, limit)
  for (const { _id } of due) {
    await ctx.database.transaction(async (session) => {
      const claim = await ctx.claims.find(_id, session)
      if (claim === undefined) return
      const decision = decideClaim(claim, { step: 'overdue' }, nowSeconds)
      if (decision.kind === 'stays') return
      await write(ctx, writesOf({ before: claim, after: decision.after }), session)
    })
  }
  return due.length
}

/**
 * Accepts a proposal: it stays `accepted` for ever, and its author's pass is credited, once, in the same
 * transaction.
 *
 * @param days whole days to credit
 * @returns the proposal afterwards
 * @throws Refusal `invalid_field` for other `days`; `no_such_claim`; `wrong_state` if the claim isn't a
 *   proposal or was accepted before
 */
export async function acceptProposal(ctx: ClaimContext, claimId: string, days: number): Promise<ClaimRecord> {
  if (!Number.isInteger(days) || days < MIN_PASS_DAYS || days > MAX_PASS_DAYS) {
    throw invalidField(
      'days',
      `A proposal is accepted with ${MIN_PASS_DAYS} to ${MAX_PASS_DAYS} whole days, not ${days}.`,
    )
  }
  return ctx.database.transaction(async (session) => {
    const claim = await ctx.claims.find(claimId, session)
    if (claim === undefined) throw new Refusal('no_such_claim', 'There is no claim with this id.')
    const decision = decideClaim(claim, { step: 'accepted' }, unixSeconds(ctx.now()))
    if (decision.kind === 'stays')
      throw new Refusal(
        'wrong_state',
        decision.because === 'no_proposal'
          ? `This claim is of kind "${claim.kind}"; only a proposal can be accepted.`
          : 'This proposal was accepted before.',
      )
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
    const after = { ...decision.after, accepted_at: at }
    const tells = [makeMark(author._id, 'proposal_accepted', claimId, { days })]
    const move = { before: claim, after, entries: [acceptance, credit], tells }
    await write(ctx, writesOf(move), session)
    return after
  })
}
