import { describe, expect, it } from 'vitest'
import { isOfMonero, planFaults, USUAL_KINDS, USUAL_KINDS_WITH_MONERO } from '../harness/faults/plan.ts'

const SEED = 11

describe('the plan of a storm', () => {
  it('has the same faults at the same times for the same seed, and others for another', () => {
    expect(planFaults(SEED, 300)).toEqual(planFaults(SEED, 300))
    expect(planFaults(SEED, 300)).not.toEqual(planFaults(SEED + 1, 300))
  })

  it('has every kind of fault once before any comes again', () => {
    const kinds = planFaults(SEED, 600).map(({ kind }) => kind)
    expect(new Set(kinds.slice(0, USUAL_KINDS.length)).size).toBe(USUAL_KINDS.length)
  })

  it('has the faults of Monero only with Monero', () => {
    expect(planFaults(SEED, 600).filter(({ kind }) => isOfMonero(kind))).toEqual([])
    expect(USUAL_KINDS_WITH_MONERO.filter((kind) => !isOfMonero(kind))).toEqual(USUAL_KINDS)
    expect(USUAL_KINDS_WITH_MONERO.filter(isOfMonero).length).toBe(6)
  })
})
