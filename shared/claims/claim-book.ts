import { MAX_UNENDORSED_PROPOSALS } from '../foundation/limits.ts'
import {
  OUTCOMES,
  PROPOSAL,
  statusAt,
  type ClaimRecord,
  type ClaimStatus,
  type Outcome,
  type Standing,
  type VerdictRecord,
} from './claim.ts'

/**
 * A verdict as it is asked for: whether it is its author's own and what it supersedes is seen when it is
 * recorded.
 */
export type NewVerdict = Omit<VerdictRecord, 'by_author' | 'superseded' | 'pending'>

/** What is put on record: claims, and verdicts on claims that stand already. */
export type Change = { claim: ClaimRecord } | { verdict: NewVerdict }

/** A claim's author's counts, by how much they change. */
export interface CountChange {
  claims: Partial<Record<ClaimStatus, number>>
  verdicts: Partial<Record<Outcome, number>>
}

/** Everything that a group of changes writes, all of it in one transaction. */
export interface Writes {
  claims: ClaimRecord[]
  /** With who supersedes whom inside the group already told. */
  verdicts: RecordedVerdict[]
  /** Verdicts stored before that these supersede. */
  supersededIds: string[]
  /** Claims that stand otherwise after the group; `before` is what the database has. */
  moved: { before: ClaimRecord; after: ClaimRecord }[]
  counts: Map<string, CountChange>
}

export type RecordedVerdict = NewVerdict &
  Pick<VerdictRecord, 'by_author' | 'superseded'> & { supersedes: string | null }

/**
 * What one change came to; undefined for a verdict on a claim that is not there, and for a proposal too many.
 */
export type Recorded = { claim: ClaimRecord; verdict?: RecordedVerdict } | undefined

const standingKey = (verdict: Pick<VerdictRecord, 'claim_id' | 'agent_id'>): string =>
  `${verdict.claim_id} ${verdict.agent_id}`

/**
 * What a group of changes, one after the other, comes to, and the fewest writes that say so.
 *
 * @param claims the claims that its verdicts name, as they are stored
 * @param standing of the verdicts stored on them by its agents, those that are not superseded
 * @param unendorsed how many proposals without an endorsement the authors of its proposals have
 */
export function applyChanges(
  changes: readonly Change[],
  claims: readonly ClaimRecord[],
  standing: readonly Pick<VerdictRecord, '_id' | 'claim_id' | 'agent_id' | 'outcome'>[],
  unendorsed: ReadonlyMap<string, number>,
  nowSeconds: number,
): { recorded: Recorded[]; writes: Writes } {
  const stored = new Map(claims.map((claim) => [claim._id, claim]))
  const present = new Map(stored)
  const standingBy = new Map<string, { _id: string; outcome: Outcome; inGroup?: RecordedVerdict }>(
    standing.map((verdict) => [standingKey(verdict), verdict]),
  )
  const proposals = new Map(unendorsed)
  const writes: Writes = { claims: [], verdicts: [], supersededIds: [], moved: [], counts: new Map() }

  function record(change: Change): Recorded {
    if ('claim' in change) {
      if (change.claim.kind === PROPOSAL) {
        const has = proposals.get(change.claim.agent_id) ?? 0
        if (has >= MAX_UNENDORSED_PROPOSALS) return undefined
        proposals.set(change.claim.agent_id, has + 1)
      }
      writes.claims.push(change.claim)
      count(writes.counts, change.claim.agent_id, 'claims', change.claim.status, 1)
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
    const after = byAuthor ? claim : afterVerdict(claim, earlier?.outcome, verdict.outcome, nowSeconds)
    present.set(claim._id, after)
    // The verdict as it is now: a later one of the same group may yet supersede it.
    return { claim: after, verdict: { ...verdict } }
  }

  const recorded = changes.map(record)
  for (const [id, before] of stored) {
    const after = present.get(id)
    if (after === undefined || after === before) continue
    writes.moved.push({ before, after })
    if (after.status !== before.status) {
      count(writes.counts, before.agent_id, 'claims', before.status, -1)
      count(writes.counts, before.agent_id, 'claims', after.status, 1)
    }
    for (const outcome of OUTCOMES)
      count(
        writes.counts,
        before.agent_id,
        'verdicts',
        outcome,
        after.standing[outcome] - before.standing[outcome],
      )
  }
  return { recorded, writes }
}

/** The claim after a verdict by another than its author. */
function afterVerdict(
  claim: ClaimRecord,
  earlier: Outcome | undefined,
  outcome: Outcome,
  nowSeconds: number,
): ClaimRecord {
  if (earlier === outcome) return claim
  const standing: Standing = { ...claim.standing }
  standing[outcome]++
  if (earlier !== undefined) standing[earlier]--
  return { ...claim, standing, status: statusAt({ ...claim, standing }, nowSeconds) }
}

function count<Of extends keyof CountChange>(
  counts: Map<string, CountChange>,
  agentId: string,
  of: Of,
  name: keyof CountChange[Of] & string,
  by: number,
): void {
  if (by === 0) return
  const change = counts.get(agentId) ?? { claims: {}, verdicts: {} }
  counts.set(agentId, change)
  const group = change[of] as Record<string, number>
  group[name] = (group[name] ?? 0) + by
}
