import { MAX_UNENDORSED_PROPOSALS } from '../platform/limits.ts'
import type { EventMark } from '../events/mark.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { decideClaim } from './claim-steps.ts'
import {
  OUTCOMES,
  PROPOSAL,
  type ClaimRecord,
  type ClaimStatus,
  type Outcome,
  type VerdictRecord,
} from './claim.ts'

/**
 * A verdict before it is recorded, which decides whether the claim's author gave it and what it supersedes.
 */
export type NewVerdict = Omit<VerdictRecord, 'by_author' | 'superseded' | 'pending'>

/** A claim or a verdict to be recorded. */
export type Change = { claim: ClaimRecord } | { verdict: NewVerdict }

/** Changes to the counts on an agent's record, as differences. */
export interface CountChange {
  claims: Partial<Record<ClaimStatus, number>>
  verdicts: Partial<Record<Outcome, number>>
}

/** Everything that a group of changes writes, in one transaction. */
export interface Writes {
  claims: ClaimRecord[]
  /** New verdicts; one that a later one of the group supersedes is already marked as superseded. */
  verdicts: RecordedVerdict[]
  /** Ids of stored verdicts that the new ones supersede. */
  supersededIds: string[]
  /** Stored claims whose status or counts change. */
  moved: ClaimMove[]
  /** By agent id. */
  counts: Map<string, CountChange>
}

export interface ClaimMove {
  /** What the database has. */
  before: ClaimRecord
  after: ClaimRecord
  /** Stored with it. */
  entries?: readonly PendingEntry[]
  tells?: readonly EventMark[]
}

export type RecordedVerdict = NewVerdict &
  Pick<VerdictRecord, 'by_author' | 'superseded'> & { supersedes: string | null }

/**
 * The result of one change; undefined for a verdict on a claim that doesn't exist, and for a proposal above
 * MAX_UNENDORSED_PROPOSALS.
 */
export type Recorded = { claim: ClaimRecord; verdict?: RecordedVerdict } | undefined

/** Returns a key of claim and agent: an agent has one standing verdict on a claim. */
const standingKey = (verdict: Pick<VerdictRecord, 'claim_id' | 'agent_id'>): string =>
  `${verdict.claim_id} ${verdict.agent_id}`

/**
 * Computes what a group of changes does, applied one after the other; nothing is stored.
 *
 * @param claims the stored claims that the group's verdicts name
 * @param standing stored verdicts on these claims by the group's agents that are not superseded
 * @param unendorsed by agent id, how many unendorsed proposals each author of a proposal of the group has
 * @returns for each change its result, in order, and the fewest writes that store them all
 */
export function applyChanges(
  changes: readonly Change[],
  claims: readonly ClaimRecord[],
  standing: readonly Pick<VerdictRecord, '_id' | 'claim_id' | 'agent_id' | 'outcome'>[],
  unendorsed: ReadonlyMap<string, number>,
  nowSeconds: number,
): { recorded: Recorded[]; writes: Writes } {
  const stored = new Map(claims.map((claim) => [claim._id, claim]))
  /** The claims after the changes so far. */
  const present = new Map(stored)
  const standingBy = new Map<string, { _id: string; outcome: Outcome; inGroup?: RecordedVerdict }>(
    standing.map((verdict) => [standingKey(verdict), verdict]),
  )
  const proposals = new Map(unendorsed)
  const writes = noWrites()

  /** Applies one change: adds its writes, and returns its result. */
  function apply(change: Change): Recorded {
    if ('claim' in change) {
      if (change.claim.kind === PROPOSAL) {
        const existing = proposals.get(change.claim.agent_id) ?? 0
        if (existing >= MAX_UNENDORSED_PROPOSALS) return undefined
        proposals.set(change.claim.agent_id, existing + 1)
      }
      writes.claims.push(change.claim)
      addToCount(writes.counts, change.claim.agent_id, 'claims', change.claim.status, 1)
      return { claim: change.claim }
    }
    const claim = present.get(change.verdict.claim_id)
    if (claim === undefined) return undefined
    const key = standingKey(change.verdict)
    const earlier = standingBy.get(key)
    if (earlier?.inGroup !== undefined) earlier.inGroup.superseded = true
    else if (earlier !== undefined) writes.supersededIds.push(earlier._id)
    const byAuthor = claim.agent_id === change.verdict.agent_id
    const verdict: RecordedVerdict = {
      ...change.verdict,
      by_author: byAuthor,
      superseded: false,
      supersedes: earlier?._id ?? null,
    }
    writes.verdicts.push(verdict)
    standingBy.set(key, { _id: verdict._id, outcome: verdict.outcome, inGroup: verdict })
    const { agent_id: by, outcome } = verdict
    const decision = decideClaim(
      claim,
      { step: 'verdict', by, outcome, earlier: earlier?.outcome },
      nowSeconds,
    )
    const after = decision.kind === 'moves' ? decision.after : claim
    present.set(claim._id, after)
    // A copy: a later verdict of the group may mark this one as superseded.
    return { claim: after, verdict: { ...verdict } }
  }

  const recorded = changes.map(apply)
  for (const [id, before] of stored) {
    const after = present.get(id)
    if (after !== undefined && after !== before) addMove(writes, { before, after })
  }
  return { recorded, writes }
}

/** Returns the writes of one claim's move, by no verdict. */
export function writesOf(move: ClaimMove): Writes & { verdicts: [] } {
  const writes = noWrites()
  addMove(writes, move)
  return { ...writes, verdicts: [] }
}

const noWrites = (): Writes => ({
  claims: [],
  verdicts: [],
  supersededIds: [],
  moved: [],
  counts: new Map(),
})

/** Adds a claim's move, and what it changes in the counts of its author. */
function addMove({ moved, counts }: Writes, move: ClaimMove): void {
  const { before, after } = move
  moved.push(move)
  if (after.status !== before.status) {
    addToCount(counts, before.agent_id, 'claims', before.status, -1)
    addToCount(counts, before.agent_id, 'claims', after.status, 1)
  }
  for (const outcome of OUTCOMES)
    addToCount(
      counts,
      before.agent_id,
      'verdicts',
      outcome,
      after.standing[outcome] - before.standing[outcome],
    )
}

/**
 * Adds to one of an agent's counts.
 *
 * @param kind counts of its claims by status, or of verdicts on them by outcome
 */
function addToCount<Kind extends keyof CountChange>(
  counts: Map<string, CountChange>,
  agentId: string,
  kind: Kind,
  name: keyof CountChange[Kind] & string,
  difference: number,
): void {
  if (difference === 0) return
  const change = counts.get(agentId) ?? { claims: {}, verdicts: {} }
  counts.set(agentId, change)
  const countsOfKind = change[kind] as Record<string, number>
  countsOfKind[name] = (countsOfKind[name] ?? 0) + difference
}
