import { describe, expect, it } from 'vitest'
import { planFaults } from '../harness/faults/plan.ts'
import { FAULTS, usualKinds, type FaultKind } from '../harness/faults/table.ts'

const SEED = 11
const USUAL = usualKinds(false)
const isOfMonero = (kind: FaultKind): boolean => FAULTS[kind].needs === 'Monero'

describe('the plan of a storm', () => {
  it('has the same faults at the same times for the same seed, and others for another', () => {
    expect(planFaults(SEED, 300)).toEqual(planFaults(SEED, 300))
    expect(planFaults(SEED, 300)).not.toEqual(planFaults(SEED + 1, 300))
  })

  it('has every kind of fault once before any comes again', () => {
    const kinds = planFaults(SEED, 600).map(({ kind }) => kind)
    expect(new Set(kinds.slice(0, USUAL.length)).size).toBe(USUAL.length)
  })

  it('has the faults of Monero only with Monero', () => {
    expect(planFaults(SEED, 600).filter(({ kind }) => isOfMonero(kind))).toEqual([])
    expect(usualKinds(true).filter((kind) => !isOfMonero(kind))).toEqual(USUAL)
    expect(usualKinds(true).filter(isOfMonero).length).toBe(6)
  })

  it('has no fault that only a run with a market can judge', () => {
    expect(usualKinds(true).filter((kind) => FAULTS[kind].needs === 'a market')).toEqual([])
  })
})
