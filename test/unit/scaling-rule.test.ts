import { describe, expect, it } from 'vitest'
import { createScaler, readScalingRule } from '../harness/bench/scaling-rule.ts'

/** The rule as it is shipped: by what waits, or by the processors, whichever wants more. */
const scalerOf = (name: string) => createScaler(readScalingRule(name))

describe('the rule by which processes are added and removed', () => {
  it('grows by as much as the oldest job is too old, every 15 s twofold at most or by four', () => {
    const scaler = scalerOf('shares')
    expect(scaler.decide(0, [2.1, 0], 1)).toBe(1)
    expect(scaler.decide(15_000, [3, 0], 1)).toBe(2)
    expect(scaler.decide(20_000, [9, 0], 2)).toBe(5)
    expect(scaler.decide(29_000, [9, 0], 5)).toBe(5)
    expect(scaler.decide(35_000, [900, 0], 5)).toBe(10)
    expect(scaler.decide(50_000, [900, 0], 10)).toBe(16)
  })

  it('grows before jobs wait, once the processors are used by more than three fifths', () => {
    const scaler = scalerOf('shares')
    expect(scaler.decide(0, [0, 0.65], 1)).toBe(1)
    expect(scaler.decide(15_000, [0, 0.7], 1)).toBe(2)
  })

  it('shares a value out among the processes if it is an average', () => {
    const scaler = scalerOf('api')
    expect(scaler.decide(0, [1.2], 2)).toBe(2)
    expect(scaler.decide(15_000, [2], 2)).toBe(4)
  })

  it('shrinks after a minute of calm to the most that was wanted in that minute', () => {
    const scaler = scalerOf('shares')
    const calm = [0, 0]
    expect(scaler.decide(0, [4, 0], 8)).toBe(16)
    expect(scaler.decide(15_000, [0, 1.7], 16)).toBe(16)
    expect(scaler.decide(60_000, calm, 16)).toBe(16)
    expect(scaler.decide(60_001, calm, 16)).toBe(3)
    expect(scaler.decide(75_001, calm, 3)).toBe(1)
    expect(scaler.decide(90_001, calm, 1)).toBe(1)
  })

  it('asks for the age of a queue or for used processor time, which processes tell', () => {
    for (const name of ['shares', 'market', 'api'])
      for (const { query } of readScalingRule(name).metrics)
        expect(query).toMatch(
          /^(max\(agent_network_queue_oldest_seconds\{queue="[a-z-]+"\}\)|sum\(rate\(process_cpu_seconds_total\{app="[a-z]+"\}\[30s\]\)\))$/,
        )
  })
})
