import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { applyShares, shareId, sortNonces, workOrderTtlDays, workStatusAt } from '../../shared/work/work.ts'

describe('shares on an order', () => {
  it('complete each day once and never more than was ordered, in whatever batches they come', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 20 }),
        (perDay, days, batches) => {
          const order = { shares_accepted: 0, shares_required: perDay * days, shares_per_day: perDay, credited_days: 0 }
          for (const fresh of batches) {
            const { counted, completedDays } = applyShares(order, fresh)
            expect(counted).toBe(Math.min(fresh, order.shares_required - order.shares_accepted))
            expect(completedDays).toBeGreaterThanOrEqual(0)
            order.shares_accepted += counted
            order.credited_days += completedDays
            expect(order.credited_days).toBe(Math.floor(order.shares_accepted / perDay))
          }
          const all = batches.reduce((sum, fresh) => sum + fresh, 0)
          expect(order.shares_accepted).toBe(Math.min(all, perDay * days))
          expect(order.credited_days === days).toBe(all >= perDay * days)
        },
      ),
    )
  })

  it('make the order credited when its last day is, and expired when its time is over before that', () => {
    const order = { credited_days: 0, days: 2, expires_at: 100 }
    expect([
      workStatusAt(order, 99),
      workStatusAt(order, 100),
      workStatusAt({ ...order, credited_days: 2 }, 101),
      workStatusAt({ ...order, credited_days: 1 }, 101),
    ]).toEqual(['open', 'expired', 'credited', 'expired'])
    expect([workOrderTtlDays(1), workOrderTtlDays(365)]).toEqual([31, 395])
  })

  it('have one name for each order and nonce', () => {
    expect(shareId('wrk_a', '1')).not.toBe(shareId('wrk_a', '11'))
    expect(shareId('wrk_a', '1')).not.toBe(shareId('wrk_b', '1'))
  })
})

describe('the nonces of a batch', () => {
  it('are sorted into each canonical one once and what cannot count, with nothing lost', () => {
    const nonce = fc.oneof(
      fc.stringMatching(/^[0-9a-z]{1,20}$/),
      fc.nat(),
      fc.string({ maxLength: 25 }),
      fc.double(),
      fc.constantFrom('7', 7, '07', -1, 1.5, 2 ** 53),
    )
    fc.assert(
      fc.property(fc.array(nonce, { maxLength: 60 }), (sent) => {
        const { nonces, rejected } = sortNonces(sent)
        expect(nonces.length + rejected.length).toBe(sent.length)
        expect(new Set(nonces).size).toBe(nonces.length)
        for (const one of nonces) expect(one).toMatch(/^[0-9a-z]{1,20}$/)
        const isGood = (value: string | number) =>
          typeof value === 'string' ? /^[0-9a-z]{1,20}$/.test(value) : Number.isSafeInteger(value) && value >= 0
        for (const { nonce: value, reason } of rejected) expect(isGood(value) ? 'duplicate' : 'invalid_nonce').toBe(reason)
        expect(new Set(sent.filter(isGood).map(String))).toEqual(new Set(nonces))
      }),
    )
  })

  it('take a number as its decimal text and tell 7 from 07', () => {
    expect(sortNonces([7, '7', '07', 0, '0'])).toEqual({
      nonces: ['7', '07', '0'],
      rejected: [
        { nonce: '7', reason: 'duplicate' },
        { nonce: '0', reason: 'duplicate' },
      ],
    })
  })
})
