import { spendAllowance } from '../agents/allowance-service.ts'
import { veil } from '../agents/unbanned.ts'
import { authorData, authorOf, readAuthorship } from '../agents/authorship.ts'
import type { Context } from '../context.ts'
import type { SeenLog } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { isOutage, Overtaken, requireOwn, type Session, unlessOvertaken } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { createGroups, performEachAlone, type Outcomes } from '../servers/group-commit.ts'
import { newId } from '../foundation/ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { MAX_PASS_DAYS, MAX_UNENDORSED_PROPOSALS, MIN_PASS_DAYS } from '../foundation/limits.ts'
import { oncePer } from '../foundation/once-per.ts'
import { creditDays } from '../passes/pass-service.ts'
import { unixSeconds } from '../foundation/time.ts'
import { applyChanges, type Change, type Recorded, type RecordedVerdict, type Writes } from './claim-book.ts'
import { STANDING_VERDICT_KEY } from './claim-store.ts'
import {
  claimContent,
  PROPOSAL,
  statusAt,
  type ClaimRecord,
  type ClaimStatus,
  type Outcome,
  type VerdictRecord,
} from './claim.ts'

type Signed = { signature?: string | undefined; seen?: SeenLog | undefined }

/**
 * Puts a claim on record, with its entry, and counts it on its author.
 *
 * @throws Refusal `invalid_field` for a past `resolve_by`, and as readAuthorship(); `wrong_state` for a
 *   proposal too many
 */
export async function makeClaim(
  ctx: Context,
  agentId: string,
  fields: { statement: string; kind: string; resolve_by?: number | undefined } & Signed,
): Promise<ClaimRecord> {
  const at = unixSeconds(ctx.now())
  if (fields.resolve_by !== undefined && fields.resolve_by <= at) {
    throw new Refusal('invalid_field', 'resolve_by lies in the past; expected a time in the future.', {
      field: 'resolve_by',
    })
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
  if ((await bookOf(ctx)({ claim })) === undefined)
    throw new Refusal(
      'wrong_state',
      `You have ${MAX_UNENDORSED_PROPOSALS} proposals that nobody has endorsed, which is the most; make another when one of them is.`,
      { field: 'kind' },
    )
  return claim
}

/** All of it is in the record. */
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
 * Records a verdict. An agent's earlier one on the same claim is superseded and stays on record; the author's
 * own is kept and does not count. Verdict, supersession, the claim's status and the author's counts change in
 * one transaction.
 *
 * @throws Refusal `no_such_claim`; as readAuthorship()
 */
export async function recordVerdict(
  ctx: Context,
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
  const recorded = await bookOf(ctx)({ verdict })
  if (recorded?.verdict === undefined)
    throw new Refusal('no_such_claim', 'There is no claim with this id.', { field: 'claim_id' })
  return { claim: await veil(ctx.agents, recorded.claim), verdict: recorded.verdict }
}

/** Transactions of claims and verdicts under way at once. */
const BOOKED_AT_ONCE = 3
/** Claims whose author is remembered. */
const KNOWN_CLAIMS = 10_000

/**
 * Claims and verdicts in groups. Each changes the counts of one author, and of two transactions that change
 * the same counts one pauses and tries again: so what concerns one author is in one of them at a time. Before
 * a claim's author is known, its verdicts go by the claim alone; the database notices what that misses, and
 * what other processes do.
 */
const bookOf = oncePer((ctx: Context): ((change: Change) => Promise<Recorded>) => {
  const authors = new Map<string, string>()
  const aboutClaim = (claimId: string): string[] => {
    const author = authors.get(claimId)
    return author === undefined ? [claimId] : [claimId, author]
  }
  return createGroups(
    async (changes: Change[]) => {
      const outcomes = await recordGroup(ctx, changes)
      for (const outcome of outcomes) if (outcome.status === 'fulfilled') remember(authors, outcome.value)
      return outcomes
    },
    {
      patienceMs: ctx.config.requestMs,
      atOnce: BOOKED_AT_ONCE,
      keysOf: (change) => ('claim' in change ? [change.claim.agent_id] : aboutClaim(change.verdict.claim_id)),
    },
  )
})

/** Who made a claim never changes. */
function remember(authors: Map<string, string>, recorded: Recorded): void {
  if (recorded === undefined || authors.has(recorded.claim._id)) return
  if (authors.size === KNOWN_CLAIMS) authors.delete(authors.keys().next().value as string)
  authors.set(recorded.claim._id, recorded.claim.agent_id)
}

async function recordGroup(ctx: Context, changes: Change[]): Promise<Outcomes<Recorded>> {
  try {
    return (await recordChanges(ctx, changes)).map((value) => ({ status: 'fulfilled', value }))
  } catch (error) {
    // A transaction stores all or nothing; but if the database is away, it is open which.
    if (changes.length === 1 || isOutage(error) || error instanceof Refusal) throw error
    return performEachAlone(changes, async (change) => (await recordChanges(ctx, [change]))[0])
  }
}

/**
 * Stores a group of changes in one transaction. What they depend on is read before, all at once; each write
 * names what was read, and on a conflict nothing is stored and all of it is made again.
 */
async function recordChanges(ctx: Context, changes: readonly Change[]): Promise<Recorded[]> {
  const asked = changes.flatMap((change) => ('verdict' in change ? [change.verdict] : []))
  const proposers = [
    ...new Set(
      changes.flatMap((change) =>
        'claim' in change && change.claim.kind === PROPOSAL ? [change.claim.agent_id] : [],
      ),
    ),
  ]
  const untilMs = performance.now() + ctx.config.databaseMs
  do {
    const [claims, standing, unendorsed] = await Promise.all([
      asked.length === 0 ? [] : ctx.claims.findAll(asked),
      asked.length === 0 ? [] : ctx.claims.findStandingVerdicts(asked),
      ctx.claims.countUnendorsed(proposers),
    ])
    const { recorded, writes } = applyChanges(changes, claims, standing, unendorsed, unixSeconds(ctx.now()))
    if (await storeChanges(ctx, writes, unendorsed)) return recorded
  } while (performance.now() < untilMs)
  throw new Refusal(
    'unavailable',
    'Too many verdicts on these claims arrive at this moment; nothing was stored. Try again.',
  )
}

/** @returns false on a conflict; then nothing is stored */
async function storeChanges(
  ctx: Context,
  writes: Writes,
  unendorsed: ReadonlyMap<string, number>,
): Promise<boolean> {
  if (writes.claims.length === 0 && writes.verdicts.length === 0) return true
  const storing = ctx.database.transaction(async (session) => {
    // Whoever makes or endorses a proposal of the same author writes the author's counts too, so this holds
    // at the commit.
    for (const [agentId, count] of await ctx.claims.countUnendorsed([...unendorsed.keys()], session))
      if (count !== unendorsed.get(agentId)) throw new Overtaken()
    // Commands of one transaction go one after the other.
    if (!(await ctx.claims.write({ ...writes, verdicts: writes.verdicts.map(withEntry) }, session)))
      throw new Overtaken()
    await ctx.agents.addToRecords(writes.counts, session)
  })
  return unlessOvertaken(storing, STANDING_VERDICT_KEY)
}

function withEntry({ supersedes, ...verdict }: RecordedVerdict): VerdictRecord {
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
  return { ...verdict, pending: [{ source: `${id}/verdict`, at, kind: 'verdict', data }] }
}

/** Moves a claim's status, and its author's record with it. */
async function move(
  ctx: Context,
  claim: ClaimRecord,
  status: ClaimStatus,
  session: Session,
  accepted?: { at: number; entries: PendingEntry[] },
): Promise<ClaimRecord> {
  await requireOwn(ctx.claims.moveStatus(claim, status, session, accepted), `claim ${claim._id}`)
  const statusChange = status === claim.status ? {} : { [claim.status]: -1, [status]: 1 }
  await ctx.agents.addToRecords(new Map([[claim.agent_id, { claims: statusChange, verdicts: {} }]]), session)
  return { ...claim, status }
}

/** Moves open claims whose time has passed to `overdue`. */
export async function moveOverdueClaims(ctx: Context, limit = 500): Promise<void> {
  const nowSeconds = unixSeconds(ctx.now())
  const due = await ctx.claims.listComingOverdue(nowSeconds, limit)
  for (const { _id } of due) {
    await ctx.database.transaction(async (session) => {
      const claim = await ctx.claims.find(_id, session)
      if (claim === undefined || claim.status !== 'open' || statusAt(claim, nowSeconds) !== 'overdue') return
      await move(ctx, claim, 'overdue', session)
    })
  }
}

/**
 * Takes up a proposal: it is `accepted` for ever and its author's pass is credited, in one transaction, once.
 *
 * @throws Refusal `no_such_claim`; `wrong_state` if it is no proposal or was accepted before
 */
export async function acceptProposal(ctx: Context, claimId: string, days: number): Promise<ClaimRecord> {
  if (!Number.isInteger(days) || days < MIN_PASS_DAYS || days > MAX_PASS_DAYS) {
    throw new Refusal(
      'invalid_field',
      `A proposal is accepted with ${MIN_PASS_DAYS} to ${MAX_PASS_DAYS} whole days, not ${days}.`,
      {
        field: 'days',
      },
    )
  }
  return ctx.database.transaction(async (session) => {
    const claim = await ctx.claims.find(claimId, session)
    if (claim === undefined) throw new Refusal('no_such_claim', 'There is no claim with this id.')
    if (claim.kind !== PROPOSAL)
      throw new Refusal(
        'wrong_state',
        `This claim is of kind "${claim.kind}"; only a proposal can be accepted.`,
      )
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
    const accepted = await move(ctx, claim, 'accepted', session, { at, entries: [acceptance, credit] })
    return { ...accepted, accepted_at: at }
  })
}
