import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseAmount } from '../../shared/money/coin.ts'
import type { MoneyFields } from '../../shared/money/invoice-store.ts'
import {
  carryRemainder,
  computeMoneySpent,
  computeMoneyTakenBack,
  type PassInvoice,
} from '../../shared/passes/pass-invoice.ts'
import {
  endAfterFreeDays,
  endAfterPaidDays,
  endAfterTakenBackDays,
  isFreePeriod,
  isPassActive,
  priceCentsPerDay,
  usdFromCents,
} from '../../shared/passes/pass.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import {
  describeEnd,
  endAt,
  END_NAMES,
  PASS_CASES,
  PASS_EVENT_NAMES,
  PASS_EVENTS,
  TAKEN_BACK_CASES,
  type TakenBackCase,
} from '../support/pass-cases.ts'

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

describe('the end of a pass', () => {
  const NOW = 1_800_000_000_000
  const endAfter = (before: number | undefined, event: (typeof PASS_EVENTS)[keyof typeof PASS_EVENTS]) => {
    switch (event.kind) {
      case 'paid':
        return { untilMs: endAfterPaidDays(before, NOW, event.days), days: event.days }
      case 'free': {
        const { untilMs, creditedDays } = endAfterFreeDays(before, NOW, event.days, NOW + event.freeMs)
        return { untilMs, days: creditedDays }
      }
      case 'taken_back': {
        const decision = endAfterTakenBackDays(before, NOW, event.days)
        return decision.kind === 'moves' ? { untilMs: decision.untilMs, days: -event.days } : decision.kind
      }
    }
  }

  it.each(PASS_EVENT_NAMES)('comes when the table says once %s', (event) => {
    const found = END_NAMES.map((name) => {
      const after = endAfter(endAt(name, NOW), PASS_EVENTS[event])
      return [name, after === 'used_up' ? 'used up' : describeEnd(after.untilMs, NOW, after.days)]
    })
    expect(Object.fromEntries(found)).toEqual(PASS_CASES[event])
  })

  it('may be less than a day ago after days were taken back, and no more', () => {
    expect(endAfterTakenBackDays(NOW + 2 * DAY + 1, NOW, 3)).toEqual({
      kind: 'moves',
      untilMs: NOW - DAY + 1,
    })
    expect(endAfterTakenBackDays(NOW + 2 * DAY, NOW, 3)).toEqual({ kind: 'used_up' })
  })
})

describe('of a payment that is taken back', () => {
  const coins = (text: string) => parseAmount(text, 'xno')
  const ordered: PassInvoice = {
    ...{ _id: 'inv_1', agent_id: 'agt_1', at: 1, coin: 'xno', days: 3, price_usd_cents: 300, rate: '1' },
    ...{ rate_source: 'test', rate_at: 1, address: 'nano_1', address_index: 1, expires_at: 2, lapsed: false },
    ...{ amount_raw: String(coins('3')), received_raw: '0', carried_raw: '0', moved_raw: '0', unspent: '0' },
    ...{ credited_days: 0, version: 0 },
  }

  /** The invoice as its store would have it after a change. */
  function changed(
    { has_remainder: _had, open: _was, ...rest }: PassInvoice,
    fields: MoneyFields,
  ): PassInvoice {
    const { has_remainder: hasRemainder, open: _is, ...money } = fields
    return { ...rest, ...money, ...(hasRemainder === true ? { has_remainder: true } : {}) }
  }

  /** The invoice, and the payments with what they bought, before one of them is taken back. */
  function before({ payments, after }: TakenBackCase) {
    let invoice = ordered
    const settled = payments.map((amount, index) => {
      const amountRaw = coins(amount)
      const spent = computeMoneySpent(invoice, { source: `pay_${index}`, at: 1, amountRaw })
      invoice = changed(invoice, spent.fields)
      const [credited_days, price_raw] = [spent.addedDays, String(spent.priceRaw)]
      return { amount_raw: String(amountRaw), credited_days, price_raw }
    })
    if (after === 'lapse') {
      const lapsed = { ...invoice, lapsed: true }
      invoice = changed(lapsed, computeMoneySpent(lapsed, { source: 'inv_1/lapse', at: 2 }).fields)
    }
    if (after === 'next invoice') invoice = changed(invoice, carryRemainder(invoice).fields)
    return { invoice, settled }
  }

  it.each(Object.entries(TAKEN_BACK_CASES).filter(([, { after }]) => after !== 'use'))(
    '%s, there stands what the table says',
    (_name, one) => {
      const { invoice, settled } = before(one)
      const takeBack = () => {
        const payment = settled[one.taken] ?? { amount_raw: '0' }
        const { lostDays, fields } = computeMoneyTakenBack(invoice, payment, { source: 'pay/undone', at: 3 })
        const received = Number((BigInt(fields.received_raw ?? 0) * 10n) / coins('1')) / 10
        return `${lostDays} days less: ${fields.credited_days} days for ${received}`
      }
      if (one.comes.includes('days less')) expect(takeBack()).toBe(one.comes)
      else expect(takeBack).toThrow(new Refusal('wrong_state', one.comes))
    },
  )

  it('what it had left over leaves the books with it', () => {
    const { invoice, settled } = before({ payments: ['3.5'], taken: 0, comes: '' })
    const { lines } = computeMoneyTakenBack(invoice, settled[0] ?? { amount_raw: '0' }, {
      source: 'u',
      at: 3,
    })
    expect(lines.map(({ _id, from, to, amount_raw: raw, at }) => [_id, from, to, raw, at])).toEqual([
      ['u/sold', 'sold', 'invoice:inv_1', String(coins('3')), 3],
      ['u/left', 'remainder:agt_1', 'invoice:inv_1', String(coins('0.5')), 3],
    ])
  })

  it('moves its rest into the next invoice, once', () => {
    const { invoice } = before({ payments: ['3.5'], taken: 0, comes: '' })
    const { fields, remainder } = carryRemainder(invoice)
    expect(remainder).toBe(coins('0.5'))
    expect(fields).toEqual({ moved_raw: String(coins('0.5')), unspent: '0', has_remainder: false })
    expect(carryRemainder(changed(invoice, fields)).remainder).toBe(0n)
  })
})
