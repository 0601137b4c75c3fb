import {
  CLAIM_STATUSES,
  PROPOSAL,
  statusAt,
  type ClaimRecord,
  type ClaimStatus,
  type Outcome,
  type Standing,
} from './claim.ts'

/*
 * What becomes of a claim: functions of the claim, the event and the time. Nothing here reads or stores.
 */

export interface ClaimStepRule {
  /** The statuses in which it can be taken, as stored. */
  from: readonly ClaimStatus[]
  /** The statuses that it can lead to. */
  to: readonly ClaimStatus[]
  /** Who takes it. */
  actor: 'agent' | 'service' | 'operator'
  text: string
}

/** Every step is an update in the transaction that has read the claim. */
export const CLAIM_STEPS = {
  verdict: {
    from: CLAIM_STATUSES,
    to: ['judged', 'contested', 'accepted'],
    actor: 'agent',
    text: "Any agent gives a verdict, which supersedes its earlier one. The author's is kept and counts for nothing. It is judged if all verdicts that stand agree, and contested if they differ; what is accepted stays so.",
  },
  overdue: {
    from: ['open'],
    to: ['overdue'],
    actor: 'service',
    text: 'Its resolve_by has come, and no verdict of another agent stands. Whoever reads it sees it as overdue from that second on.',
  },
  accepted: {
    from: ['open', 'judged', 'contested', 'overdue'],
    to: ['accepted'],
    actor: 'operator',
    text: "It is a proposal. Days are credited to its author's pass in the same transaction.",
  },
} as const satisfies Record<string, ClaimStepRule>

export type ClaimStep = keyof typeof CLAIM_STEPS

/** The step's row of the table, with the type of any row. */
const stepRule = (step: ClaimStep): ClaimStepRule => CLAIM_STEPS[step]

/** What happens to a claim. */
export type ClaimEvent =
  /** `by`: the agent that gives it; `earlier`: the outcome of the verdict of that agent that it supersedes. */
  | { step: 'verdict'; by: string; outcome: Outcome; earlier: Outcome | undefined }
  | { step: 'overdue' | 'accepted' }

export type ClaimDecision =
  | { kind: 'moves'; after: ClaimRecord }
  /** `author` and `same_outcome`: of a verdict that is kept and changes nothing that is counted. */
  | { kind: 'stays'; because: 'status' | 'author' | 'same_outcome' | 'not_due' | 'no_proposal' }

/** Decides what an event makes of a claim. @param at Unix seconds */
export function decideClaim(claim: ClaimRecord, event: ClaimEvent, at: number): ClaimDecision {
  if (!stepRule(event.step).from.includes(claim.status)) return { kind: 'stays', because: 'status' }
  switch (event.step) {
    case 'verdict': {
      const { by, outcome, earlier } = event
      if (by === claim.agent_id) return { kind: 'stays', because: 'author' }
      if (earlier === outcome) return { kind: 'stays', because: 'same_outcome' }
      const standing: Standing = { ...claim.standing }
      standing[outcome]++
      if (earlier !== undefined) standing[earlier]--
      const after = { ...claim, standing }
      return { kind: 'moves', after: { ...after, status: statusAt(after, at) } }
    }
    case 'overdue': {
      const status = statusAt(claim, at)
      return status === 'overdue'
        ? { kind: 'moves', after: { ...claim, status } }
        : { kind: 'stays', because: 'not_due' }
    }
    case 'accepted':
      return claim.kind === PROPOSAL
        ? { kind: 'moves', after: { ...claim, status: 'accepted' } }
        : { kind: 'stays', because: 'no_proposal' }
  }
}
