import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  endAfterFreeDays,
  endAfterPaidDays,
  isFreePeriod,
  isPassActive,
  priceCentsPerDay,
  usdFromCents,
} from '../../shared/passes/pass.ts'

const DAY = 86_400_000
const time = fc.integer({ min: 0, max: 4_000_000_000_000 })
const end = fc.option(time, { nil: undefined })
const days = fc.integer({ min: 1, max: 365 })

describe('a paid credit', () => {
  // holds: rules.pass.statements.a_paid_credit_adds_whole_days
  it('adds whole days to the later of now and the present end', () => {
    fc.assert(
      fc.property(end, time, days, (until, now, bought) => {
        const after = endAfterPaidDays(until, now, bought)
        expect(after - bought * DAY).toBe(until !== undefined && until > now ? until : now)
      }),
    )
  })

  it('gives the same end in whichever order credits of an active pass come', () => {
    fc.assert(
      fc.property(time, fc.array(days, { minLength: 2, maxLength: 6 }), (now, bought) => {
        const run = (list: readonly number[]) =>
          list.reduce<number | undefined>((until, some) => endAfterPaidDays(until, now, some), undefined)
        expect(run(bought)).toBe(run([...bought].reverse()))
      }),
    )
  })
})

describe('a free credit', () => {
  it('is max(end, min(max(now, end) + days, end of the free period)), and counts whole days', () => {
    fc.assert(
      fc.property(end, time, days, time, (until, now, asked, freeUntil) => {
        const { untilMs, creditedDays } = endAfterFreeDays(until, now, asked, freeUntil)
        const start = Math.max(now, until ?? 0)
        // Never shorter than it was, never past the free period unless it was so before, never more than was
        // asked.
        expect(untilMs).toBeGreaterThanOrEqual(until ?? 0)
        expect(untilMs).toBeLessThanOrEqual(Math.max(until ?? 0, freeUntil))
        expect(untilMs).toBeLessThanOrEqual(start + asked * DAY)
        if (start + asked * DAY <= freeUntil) expect(untilMs).toBe(start + asked * DAY)
        expect(creditedDays).toBe(Math.max(0, Math.floor((untilMs - start) / DAY)))
        expect(Number.isInteger(creditedDays) && creditedDays >= 0 && creditedDays <= asked).toBe(true)
        // The same again gains nothing once the free period's end is reached.
        if (untilMs === freeUntil)
          expect(endAfterFreeDays(untilMs, now, asked, freeUntil)).toEqual({ untilMs, creditedDays: 0 })
      }),
    )
  })

  it('moves the end by a part of a day and then credits 0 days', () => {
    expect(endAfterFreeDays(undefined, 1_000, 3, 1_000 + DAY / 2)).toEqual({
      untilMs: 1_000 + DAY / 2,
      creditedDays: 0,
    })
    expect(endAfterFreeDays(undefined, 1_000, 3, 1_000 + 2.5 * DAY)).toEqual({
      untilMs: 1_000 + 2.5 * DAY,
      creditedDays: 2,
    })
  })
})

describe('a pass and its price', () => {
  it('is active while its end lies ahead', () => {
    expect([isPassActive(undefined, 5), isPassActive(4, 5), isPassActive(5, 5), isPassActive(6, 5)]).toEqual([
      false,
      false,
      false,
      true,
    ])
    expect([isFreePeriod(undefined, 5), isFreePeriod(5, 5), isFreePeriod(6, 5)]).toEqual([false, false, true])
  })

  // holds: limits.pass_price, limits.referral_price, rules.pass.statements.the_price_falls_to_0_15
  it('costs 1.00 USD a day, 0.15 from 50 paying referrals on, and nothing in the free period', () => {
    expect([0, 49, 50, 51].map((paying) => usdFromCents(priceCentsPerDay(paying, false)))).toEqual([
      1, 1, 0.15, 0.15,
    ])
    expect([0, 50].map((paying) => priceCentsPerDay(paying, true))).toEqual([0, 0])
  })
})
