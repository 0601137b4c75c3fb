import { expect, test } from 'vitest'
import { applyChanges, type NewVerdict } from '../../shared/claims/claim-changes.ts'
import type { ClaimRecord, Outcome } from '../../shared/claims/claim.ts'

const claim: ClaimRecord = {
  _id: 'clm_1',
  agent_id: 'agt_author',
  at: 1,
  statement: 'it will rain',
  kind: 'claim',
  salt: '',
  status: 'open',
  standing: { true: 0, false: 0, void: 0 },
}
const verdict = (id: string, outcome: Outcome): { verdict: NewVerdict } => ({
  verdict: { _id: id, claim_id: claim._id, agent_id: 'agt_judge', at: 1, outcome, salt: '' },
})

test('of two verdicts by one agent in a group the first is answered as it stood then, and stored as superseded', () => {
  const changes = [verdict('vrd_1', 'true'), verdict('vrd_2', 'false')]
  const { recorded, writes } = applyChanges(changes, [claim], [], new Map(), 1)
  expect(recorded.map((one) => [one?.verdict?.superseded, one?.claim.standing])).toEqual([
    [false, { true: 1, false: 0, void: 0 }],
    [false, { true: 0, false: 1, void: 0 }],
  ])
  expect(writes.verdicts.map(({ superseded, supersedes }) => [superseded, supersedes])).toEqual([
    [true, null],
    [false, 'vrd_1'],
  ])
})
