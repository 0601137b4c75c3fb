import { describe, expect, it } from 'vitest'
import { CLAIM_STEPS, decideClaim, type ClaimEvent, type ClaimStep } from '../../shared/claims/claim-steps.ts'
import type { ClaimRecord, ClaimStatus } from '../../shared/claims/claim.ts'
import {
  claimIn,
  CLAIM_CASES,
  CLAIM_EVENTS,
  describeClaim,
  DUE_AT,
  NOT_ACCEPTED,
  SITUATIONS,
  verdictOf,
  verdictsIn,
  type SituationName,
} from '../support/claim-cases.ts'

/** The event as the services name it. */
function eventFor(name: string, situation: SituationName): ClaimEvent {
  const verdict = verdictOf(name)
  if (verdict !== undefined)
    return { step: 'verdict', ...verdict, earlier: verdictsIn(situation)[verdict.by] }
  return { step: name === 'its time has come' ? 'overdue' : 'accepted' }
}

const decide = (event: string, name: SituationName, claim: ClaimRecord = claimIn(name), at = DUE_AT) =>
  decideClaim(claim, eventFor(event, name), at)

describe('a claim', () => {
  it.each(CLAIM_EVENTS)(
    'comes to where the table says when %s, and stays in all other situations',
    (event) => {
      const found = SITUATIONS.flatMap((name) => {
        const decision = decide(event, name)
        return decision.kind === 'moves' ? [[name, describeClaim(decision.after)]] : []
      })
      expect(Object.fromEntries(found)).toEqual(CLAIM_CASES[event])
    },
  )

  it('goes by each step to the statuses that its row names, from those that it names, and to no other', () => {
    const found: Partial<Record<ClaimStep, { from: Set<ClaimStatus>; to: Set<ClaimStatus> }>> = {}
    for (const event of CLAIM_EVENTS)
      for (const name of SITUATIONS) {
        const decision = decide(event, name)
        if (decision.kind === 'stays') continue
        const { from, to } = (found[eventFor(event, name).step] ??= { from: new Set(), to: new Set() })
        from.add(claimIn(name).status)
        to.add(decision.after.status)
      }
    const rows = Object.entries(CLAIM_STEPS).map(([step, { from, to }]) => [
      step,
      { from: new Set(from), to: new Set(to) },
    ])
    expect(found).toEqual(Object.fromEntries(rows))
  })

  it('keeps all else as it was', () => {
    const { status, standing, ...before } = claimIn('contested', { hidden_at: 7 })
    const decision = decide('A says void', 'contested', { ...before, status, standing })
    if (decision.kind === 'stays') throw new Error(`it stays: ${decision.because}`)
    const { status: _status, standing: _standing, ...after } = decision.after
    expect(after).toEqual(before)
    expect(standing).toEqual(claimIn('contested').standing)
  })

  it('is overdue from its time on, and never without one', () => {
    const event = 'its time has come'
    const claim = claimIn('open, due')
    expect(decide(event, 'open, due', claim, DUE_AT - 1)).toEqual({ kind: 'stays', because: 'not_due' })
    expect(decide(event, 'open, due', claim, DUE_AT)).toMatchObject({ kind: 'moves' })
    delete claim.resolve_by
    expect(decide(event, 'open, due', claim, Number.MAX_SAFE_INTEGER)).toMatchObject({ because: 'not_due' })
  })

  it('that stays says what is in the way', () => {
    const because = (event: string, name: SituationName) => {
      const decision = decide(event, name)
      return decision.kind === 'stays' ? decision.because : undefined
    }
    expect([
      because('author says false', 'open'),
      because('A says true', 'judged'),
      because('its time has come', 'judged, due'),
      because('its time has come', 'open'),
    ]).toEqual(['author', 'same_outcome', 'status', 'not_due'])
    for (const name of SITUATIONS) {
      const sentence = NOT_ACCEPTED[name] ?? ''
      const expected = sentence.includes('of kind') ? 'no_proposal' : sentence === '' ? undefined : 'status'
      expect([name, because('the operator accepts it', name)]).toEqual([name, expected])
    }
  })
})
