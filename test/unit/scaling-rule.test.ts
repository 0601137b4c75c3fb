import { describe, expect, it } from 'vitest'
import { createScaler } from '../harness/bench/scaling-rule.ts'

const shares = () => createScaler({ min: 1, max: 16, threshold: 2, metricType: 'Value' })

describe('the rule by which processes are added and removed', () => {
  it('grows by as much as the value is too high, at most twofold, every 15 s', () => {
    const scaler = shares()
    expect(scaler.decide(0, 2.1, 1)).toBe(1)
    expect(scaler.decide(15_000, 3, 1)).toBe(2)
    expect(scaler.decide(20_000, 9, 2)).toBe(2)
    expect(scaler.decide(30_000, 9, 2)).toBe(4)
    expect(scaler.decide(45_000, 900, 10)).toBe(16)
  })

  it('shares a value out among the processes if it is an average', () => {
    const scaler = createScaler({ min: 2, max: 16, threshold: 0.6, metricType: 'AverageValue' })
    expect(scaler.decide(0, 1.2, 2)).toBe(2)
    expect(scaler.decide(15_000, 2, 2)).toBe(4)
  })

  it('shrinks after a minute of calm, by half every 30 s, to no less than the least', () => {
    const scaler = shares()
    expect(scaler.decide(0, 4, 8)).toBe(16)
    expect(scaler.decide(15_000, 0, 16)).toBe(16)
    expect(scaler.decide(60_000, 0, 16)).toBe(16)
    expect(scaler.decide(75_001, 0, 16)).toBe(8)
    expect(scaler.decide(90_000, 0, 8)).toBe(8)
    expect(scaler.decide(105_001, 0, 8)).toBe(4)
    expect([135_002, 165_003, 195_004].map((atMs, place) => scaler.decide(atMs, 0, 4 / 2 ** place))).toEqual([
      2, 1, 1,
    ])
  })
})
