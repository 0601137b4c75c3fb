import { describe, expect, it } from 'vitest'
import { formatCapacity } from '../../scripts/operator/capacity-verbs.ts'
import { measureCapacity } from '../../shared/operation/capacity.ts'
import type { Sample } from '../../shared/operation/sample.ts'
import { REQUEST_BUCKETS } from '../../shared/platform/metrics.ts'

/** A day of minutes in which the API uses `cores` of each minute of the day. */
function makeDay(cores: (minute: number) => number, minutes = 1_440): Sample[] {
  let apiSeconds = 0
  let requests = 0
  return Array.from({ length: minutes }, (_, minute): Sample => {
    apiSeconds += 60 * cores(minute)
    requests += 60 * 100 * cores(minute)
    return {
      at: 60 * minute,
      totals: {
        requests: [...REQUEST_BUCKETS, Infinity].map((_bucket, index) => (index === 1 ? requests : 0)),
        failures: 0,
        jobs: {},
        cpu_seconds: { api: apiSeconds, signer: apiSeconds / 10 },
      },
      levels: {
        'processes/api': 1,
        'processes/signer': 1,
        database_bytes: 1e9 + 1e6 * minute,
        disk_free_bytes: 50e9,
        disk_mark_bytes: 1e9,
        entries: 10 * minute,
        redis_used_bytes: 1e7,
        redis_max_bytes: 0,
      },
    }
  })
}

describe('the capacity of a network', () => {
  it('is what its busiest five minutes leave of a core, by what processes are for', () => {
    // Busy for ten minutes at noon alone.
    const capacity = measureCapacity(makeDay((minute) => (minute >= 720 && minute < 730 ? 0.4 : 0.1)))
    expect(capacity?.roles.map(({ role, isShared }) => ({ role, isShared }))).toEqual([
      { role: 'api', isShared: true },
      { role: 'signer', isShared: false },
    ])
    expect(capacity?.roles[0]?.mostCores).toBeCloseTo(0.4, 9)
    expect(capacity?.roles[0]?.room).toBeCloseTo(2, 9)
    expect(capacity?.requests.most).toBeCloseTo(40, 6)
    expect(capacity?.requests.perSecond).toBeCloseTo(10.2, 1)
  })

  it('says how long the disk lasts down to the mark, by how the database has grown', () => {
    const { disk, entriesPerDay } = measureCapacity(makeDay(() => 0.1)) ?? {}
    expect(disk?.bytesPerDay).toBeCloseTo(1_440e6, 0)
    expect(disk?.daysLeft).toBeCloseTo(49e9 / 1_440e6, 6)
    expect(entriesPerDay).toBeCloseTo(14_400, 6)
  })

  it('says nothing of a day by less than an hour', () => {
    expect(measureCapacity(makeDay(() => 0.1, 60))).toBeUndefined()
    expect(measureCapacity([])).toBeUndefined()
  })

  it('is told in sentences, with what another process helps and what it does not', () => {
    const capacity = measureCapacity(makeDay(() => 0.25))
    if (capacity === undefined) throw new Error('no capacity')
    const text = formatCapacity(capacity).join('\n')
    expect(text).toContain('api       1 process, each 0.25 of a core at most: one more at 3.2 × that work')
    expect(text).toMatch(/signer .* where another process does not help/)
    expect(text).toContain('at this growth the 49.0 GB that are free last 34 days')
    expect(text).toContain('14400 entries a day')
  })
})
