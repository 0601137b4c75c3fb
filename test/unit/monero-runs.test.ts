import { describe, expect, it } from 'vitest'
import { firstOfRun } from '../../shared/money/coins/monero/monero-subaddresses.ts'

const HOUR = 3_600

describe('where a worker begins to make Monero addresses', () => {
  it('is right after what the wallet has, if another began a moment ago: a crash loop makes next to none in vain', () => {
    let made = 300
    for (let at = 0; at < HOUR; at += 5) made = firstOfRun({ highest: made - 1, ageSeconds: 5 }, made)
    expect(made).toBe(300)
    for (let at = 0; at < HOUR; at += 15) made = firstOfRun({ highest: made - 1, ageSeconds: 15 }, made)
    expect(made).toBeLessThanOrEqual(300 + 2 * (HOUR / 15))
  })

  it('is beyond what could have been given out since a backup of everything, and not always at one place', () => {
    const starts = Array.from({ length: 50 }, () => firstOfRun({ highest: 99, ageSeconds: HOUR }, 100))
    expect(Math.min(...starts)).toBeGreaterThanOrEqual(100 + HOUR / 10)
    // Hundreds that no backup knows, also a minute after it.
    const spread = (found: number[]) => Math.max(...found) - Math.min(...found)
    expect(spread(starts)).toBeGreaterThan(500)
    const soon = Array.from({ length: 50 }, () => firstOfRun({ highest: 99, ageSeconds: 60 }, 100))
    expect(spread(soon)).toBeGreaterThan(500)
    expect(firstOfRun({ highest: 99, ageSeconds: 10 * 365 * 24 * HOUR }, 100)).toBeLessThan(100 + 11_001)
  })

  it('is the first address after the primary one, in a new wallet', () => {
    expect(firstOfRun({ highest: -1, ageSeconds: 0 }, 1)).toBe(1)
  })
})
