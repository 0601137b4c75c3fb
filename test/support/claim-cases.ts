import type { ClaimRecord, ClaimStatus, Outcome, Standing } from '../../shared/claims/claim.ts'

/*
 * What becomes of a claim by each event, from each situation that it can be in. The pure rule and the stored
 * records are compared with the same table.
 */

/** Agents: the claim's author, two that have given verdicts, and one that has not. */
export type Actor = 'author' | 'A' | 'B' | 'C'

/**
 * A stored status, and what else is said of the claim. In those that are judged A has said `true`, in those that
 * are contested B has said `false` besides.
 */
export const SITUATIONS = [
  ...(['open', 'open, due', 'overdue, due', 'judged', 'judged, due', 'contested', 'contested, due'] as const),
  ...(['open, proposal', 'overdue, due, proposal', 'judged, proposal', 'contested, proposal'] as const),
  ...(['accepted, proposal', 'accepted, due, proposal', 'accepted, judged, proposal'] as const),
] as const
export type SituationName = (typeof SITUATIONS)[number]

/** Unix seconds: `due` claims are to be settled by the first, the others by the second. */
export const [DUE_AT, LATER] = [1_000, 4_000_000_000]

/** The standing verdicts of a situation, by who has given them. */
export function verdictsIn(name: SituationName): Partial<Record<Actor, Outcome>> {
  if (name.includes('contested')) return { A: 'true', B: 'false' }
  return name.includes('judged') ? { A: 'true' } : {}
}

/** The claim that is in a situation. */
export function claimIn(name: SituationName, more: Partial<ClaimRecord> = {}): ClaimRecord {
  const [status, ...said] = name.split(', ') as [ClaimStatus, ...string[]]
  const standing: Standing = { true: 0, false: 0, void: 0 }
  for (const outcome of Object.values(verdictsIn(name))) standing[outcome]++
  return {
    ...{ _id: 'clm_1', agent_id: 'author', at: 1, statement: 'it will rain', salt: '00'.repeat(32) },
    kind: said.includes('proposal') ? 'proposal' : 'claim',
    resolve_by: said.includes('due') ? DUE_AT : LATER,
    ...{ status, standing },
    ...more,
  }
}

/** Says which status a claim has, and its standing verdicts `true`/`false`/`void`. */
export const describeClaim = ({ status, standing }: Pick<ClaimRecord, 'status' | 'standing'>): string =>
  `${status} ${standing.true}/${standing.false}/${standing.void}`

const each = (names: readonly SituationName[], to: string) =>
  Object.fromEntries(names.map((name) => [name, to]))
const WITHOUT_VERDICT = [
  ...(['open', 'open, due', 'overdue, due', 'open, proposal', 'overdue, due, proposal'] as const),
] as const
const JUDGED = ['judged', 'judged, due', 'judged, proposal'] as const
const CONTESTED = ['contested', 'contested, due', 'contested, proposal'] as const
const ACCEPTED = ['accepted, proposal', 'accepted, due, proposal'] as const
const ENDORSED = ['accepted, judged, proposal'] as const

/** Where each event leads to; the claim stays as it was in all other situations. */
export const CLAIM_CASES: Record<string, Partial<Record<SituationName, string>>> = {
  'A says true': { ...each(WITHOUT_VERDICT, 'judged 1/0/0'), ...each(ACCEPTED, 'accepted 1/0/0') },
  'A says false': {
    ...each(WITHOUT_VERDICT, 'judged 0/1/0'),
    // It supersedes what A has said before.
    ...each(JUDGED, 'judged 0/1/0'),
    ...each(CONTESTED, 'judged 0/2/0'),
    ...each(ACCEPTED, 'accepted 0/1/0'),
    ...each(ENDORSED, 'accepted 0/1/0'),
  },
  'A says void': {
    ...each(WITHOUT_VERDICT, 'judged 0/0/1'),
    ...each(JUDGED, 'judged 0/0/1'),
    ...each(CONTESTED, 'contested 0/1/1'),
    ...each(ACCEPTED, 'accepted 0/0/1'),
    ...each(ENDORSED, 'accepted 0/0/1'),
  },
  'C says true': {
    ...each(WITHOUT_VERDICT, 'judged 1/0/0'),
    ...each(JUDGED, 'judged 2/0/0'),
    ...each(CONTESTED, 'contested 2/1/0'),
    ...each(ACCEPTED, 'accepted 1/0/0'),
    ...each(ENDORSED, 'accepted 2/0/0'),
  },
  'C says false': {
    ...each(WITHOUT_VERDICT, 'judged 0/1/0'),
    ...each(JUDGED, 'contested 1/1/0'),
    ...each(CONTESTED, 'contested 1/2/0'),
    ...each(ACCEPTED, 'accepted 0/1/0'),
    ...each(ENDORSED, 'accepted 1/1/0'),
  },
  // Kept, and not counted.
  'author says false': {},
  'its time has come': { 'open, due': 'overdue 0/0/0' },
  'the operator accepts it': {
    ...each(['open, proposal', 'overdue, due, proposal'], 'accepted 0/0/0'),
    'judged, proposal': 'accepted 1/0/0',
    'contested, proposal': 'accepted 1/1/0',
  },
}
export const CLAIM_EVENTS = Object.keys(CLAIM_CASES)

/** Says who gives which verdict by an event; undefined if the event is no verdict. */
export function verdictOf(event: string): { by: Actor; outcome: Outcome } | undefined {
  const [, by, outcome] = /^(\w+) says (\w+)$/.exec(event) ?? []
  return by === undefined ? undefined : { by: by as Actor, outcome: outcome as Outcome }
}

/** Why the operator can't accept a claim; a claim that isn't named can be accepted. */
export const NOT_ACCEPTED: Partial<Record<SituationName, string>> = {
  ...each(
    SITUATIONS.filter((name) => !name.includes('proposal')),
    'This claim is of kind "claim"; only a proposal can be accepted.',
  ),
  ...each([...ACCEPTED, ...ENDORSED], 'This proposal was accepted before.'),
}
