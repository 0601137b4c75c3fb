import { z } from 'zod'
import { authorField, authorFields, authorOf, authorView } from '../agents/authorship.ts'
import type { ByAuthor } from '../agents/author-ban.ts'
import type { Hideable } from '../ledger/hidden.ts'
import { MAX_EVIDENCE_LENGTH, MAX_KIND_LENGTH, MAX_STATEMENT_LENGTH } from '../platform/limits.ts'
import type { Telling } from '../events/mark.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { flag, maybe, nested, number, text as stored, textOf, type RecordOf } from '../platform/fields.ts'
import { countView, hex, hexOrEmpty, idField, idView, notBlank, text, unixTime } from '../platform/schema.ts'
import { SECOND_MS } from '../platform/time.ts'

export const CLAIM_STATUSES = ['open', 'judged', 'contested', 'overdue', 'accepted'] as const
export type ClaimStatus = (typeof CLAIM_STATUSES)[number]
export const OUTCOMES = ['true', 'false', 'void'] as const
export type Outcome = (typeof OUTCOMES)[number]
/** Numbers of the standing verdicts on a claim by outcome, without its author's. */
export type Standing = Record<Outcome, number>

export const PROPOSAL = 'proposal'

/** A falsifiable statement on record. Times are Unix seconds. */
export const claimFields = {
  _id: stored,
  agent_id: stored,
  at: number,
  statement: stored,
  kind: stored,
  resolve_by: maybe.number,
  /** Opens the commitment to `{id, kind, statement}` in the claim's ledger entry. */
  salt: stored,
  ...authorField,
  /** As of the last write; statusAt() gives the present one. */
  status: textOf<ClaimStatus>(),
  standing: nested({ true: number, false: number, void: number }),
  accepted_at: maybe.number,
}
export type ClaimRecord = RecordOf<typeof claimFields> & ByAuthor & Ledgered & Hideable & Telling

/** An agent's verdict on a claim; `at` in Unix seconds. */
export const verdictFields = {
  _id: stored,
  claim_id: stored,
  agent_id: stored,
  at: number,
  outcome: textOf<Outcome>(),
  evidence: maybe.text,
  /** Opens the commitment to `{evidence, id}` in the verdict's ledger entry. */
  salt: stored,
  ...authorField,
  /** Whether it is by the claim's own author, and so doesn't count. */
  by_author: flag,
  superseded: flag,
}
export type VerdictRecord = RecordOf<typeof verdictFields> & Ledgered & Telling

/**
 * Returns a claim's status at a time. It summarizes the verdicts and says nothing about the truth: `open`
 * without a verdict, `judged` if all verdicts agree, `contested` if they differ, `overdue` without a verdict
 * after `resolve_by`, `accepted` for an accepted proposal.
 */
export function statusAt(
  claim: Pick<ClaimRecord, 'status' | 'standing' | 'resolve_by'>,
  nowSeconds: number,
): ClaimStatus {
  if (claim.status === 'accepted') return 'accepted'
  const differentOutcomes = OUTCOMES.filter((outcome) => claim.standing[outcome] > 0).length
  if (differentOutcomes > 1) return 'contested'
  if (differentOutcomes === 1) return 'judged'
  return claim.resolve_by !== undefined && claim.resolve_by <= nowSeconds ? 'overdue' : 'open'
}

/** zod reports the error of the union's closest branch, so each branch has the message of the whole. */
const TIME_FORM = 'expected Unix seconds, or ISO 8601 with an offset'
/** Accepts Unix seconds or ISO 8601 with an offset, and gives Unix seconds. */
const timeField = z
  .union(
    [
      z.int(TIME_FORM).min(0, TIME_FORM).max(253_402_300_799, TIME_FORM),
      z.iso.datetime({ offset: true, error: TIME_FORM }),
    ],
    TIME_FORM,
  )
  .transform((value) => (typeof value === 'number' ? value : Math.floor(Date.parse(value) / SECOND_MS)))

export const kindField = z
  .string()
  .regex(
    new RegExp(`^[a-z0-9_-]{1,${MAX_KIND_LENGTH}}$`),
    `expected 1 to ${MAX_KIND_LENGTH} characters of a-z, 0-9, _ and -`,
  )

export const claimBody = z.object({
  statement: notBlank(text({ min: 1, max: MAX_STATEMENT_LENGTH })).meta({
    description: 'what is claimed, so that it can turn out false',
    examples: ['Block 30 000 000 of the chain is mined before 1 January 2031.'],
  }),
  kind: kindField.default('claim').describe('`proposal` puts it on the list of proposals'),
  resolve_by: timeField.optional().meta({
    description: 'when it should be settled, later than now; Unix seconds or ISO 8601 with an offset',
    examples: [4_102_444_800, '2100-01-01T00:00:00+00:00'],
  }),
  ...authorFields,
})

export const resolveBody = z.object({
  claim_id: idField('claim'),
  outcome: z.enum(OUTCOMES, `expected one of ${OUTCOMES.join(', ')}`),
  evidence: text({ max: MAX_EVIDENCE_LENGTH })
    .optional()
    .meta({ description: 'why, for whoever reads the verdict', examples: ['The block explorer shows it.'] }),
  ...authorFields,
})

export const claimView = z
  .object({
    id: idView('claim'),
    agent_id: idView('agent'),
    at: unixTime(),
    statement: z.string().describe('empty if hidden'),
    kind: z.string(),
    resolve_by: unixTime().nullable(),
    status: z.enum(CLAIM_STATUSES).describe('what is on record, not what is true'),
    standing: z
      .object({ true: z.int(), false: z.int(), void: z.int() })
      .describe("standing verdicts by outcome, the author's left out"),
    salt: hexOrEmpty(64).describe('opens the commitment in the ledger entry; empty if hidden'),
    hidden: z.boolean(),
    author: authorView.optional().describe('there where its author has signed it; not where hidden'),
    verified: z.literal(false),
  })
  .meta({ id: 'Claim' })

export const verdictView = z
  .object({
    id: idView('verdict'),
    claim_id: idView('claim'),
    agent_id: idView('agent'),
    at: unixTime(),
    outcome: z.enum(OUTCOMES),
    evidence: z.string().nullable(),
    by_author: z.boolean(),
    superseded: z.boolean(),
    salt: hex(64),
    author: authorView.optional().describe('there where its author has signed it'),
    verified: z.literal(false),
  })
  .meta({ id: 'Verdict' })

export const madeClaimView = z.object({ id: idView('claim'), claim: claimView })
export const claimListView = z.object({ claims: z.array(claimView), ...countView })
export const verdictListView = z.object({ verdicts: z.array(verdictView), ...countView })
export const judgedClaimView = z.object({
  claim: claimView.and(z.object({ verdicts: z.array(verdictView) })).meta({ id: 'JudgedClaim' }),
  ...countView,
  more: z.boolean().describe('true if the claim has older verdicts'),
})
export const recordedVerdictView = z.object({ verdict: verdictView, claim: claimView })
export const proposalListView = z.object({
  proposals: z.array(
    claimView
      .and(z.object({ endorsements: z.int().describe('standing verdicts `true` by other agents') }))
      .meta({ id: 'Proposal' }),
  ),
  ...countView,
})

/** Returns what a claim's ledger entry commits to, without its id. */
export function claimContent(claim: Pick<ClaimRecord, 'kind' | 'statement'>) {
  return { kind: claim.kind, statement: claim.statement }
}

/**
 * Returns a claim as answers show it, with its status at `nowSeconds`; if it is hidden, statement and salt
 * are empty.
 */
export function viewClaim(claim: ClaimRecord, nowSeconds: number): z.input<typeof claimView> {
  const hidden = claim.hidden_at !== undefined
  return {
    id: claim._id,
    agent_id: claim.agent_id,
    at: claim.at,
    statement: hidden ? '' : claim.statement,
    kind: claim.kind,
    resolve_by: claim.resolve_by ?? null,
    status: statusAt(claim, nowSeconds),
    standing: { true: claim.standing.true, false: claim.standing.false, void: claim.standing.void },
    salt: hidden ? '' : claim.salt,
    hidden,
    ...(hidden ? {} : authorOf(claim)),
    verified: false,
  }
}

export function viewVerdict(verdict: VerdictRecord): z.input<typeof verdictView> {
  return {
    id: verdict._id,
    claim_id: verdict.claim_id,
    agent_id: verdict.agent_id,
    at: verdict.at,
    outcome: verdict.outcome,
    evidence: verdict.evidence ?? null,
    by_author: verdict.by_author,
    superseded: verdict.superseded,
    salt: verdict.salt,
    ...authorOf(verdict),
    verified: false,
  }
}
