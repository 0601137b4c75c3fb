import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_CREDITED_DAYS } from '../../shared/platform/limits.ts'
import { computeMoneyChange, computeMoneySpent } from '../../shared/passes/pass-invoice.ts'
import { dustThreshold } from '../../shared/money/coin.ts'
import {
  checkedInvoiceView,
  invoiceView,
  madeInvoiceView,
  viewCheckedInvoice,
  viewInvoice,
  viewMadeInvoice,
  type CheckedInvoice,
} from '../../shared/money/invoice-views.ts'
import {
  invoiceStatus,
  isPaid,
  missingRaw,
  remainderRaw,
  remainingRaw,
  type InvoiceRecord,
} from '../../shared/money/invoice.ts'
import { isOnWordAlone, isPayment, type PaymentRecord } from '../../shared/money/arrival.ts'

const base: InvoiceRecord & { days: number } = {
  _id: 'inv_1',
  agent_id: 'agt_1',
  at: 1,
  coin: 'xno',
  days: 3,
  price_usd_cents: 300,
  amount_raw: String(3n * 10n ** 30n),
  rate: '1',
  rate_source: 'test',
  rate_at: 1,
  address: 'nano_1',
  address_index: 1,
  expires_at: 2,
  lapsed: false,
  received_raw: '0',
  carried_raw: '0',
  moved_raw: '0',
  unspent: '0',
  credited_days: 0,
  version: 0,
}
type Invoice = typeof base

const receive = (invoice: Invoice, amountRaw: bigint, priceRaw?: bigint): Invoice & { added: number } => {
  const {
    addedDays,
    isSettled: _isSettled,
    ...money
  } = priceRaw === undefined
    ? computeMoneyChange(invoice, amountRaw)
    : computeMoneyChange(invoice, amountRaw, priceRaw)
  return { ...invoice, ...money, added: addedDays }
}
const receiveAll = (invoice: Invoice, parts: readonly bigint[]): Invoice =>
  parts.reduce<Invoice>((now, part) => receive(now, part), invoice)
const lapse = (invoice: Invoice): Invoice => receive({ ...invoice, lapsed: true }, 0n)

const days = () => fc.integer({ min: 1, max: 365 })
const amount = () => fc.bigInt({ min: 1n, max: 2n ** 128n })
const make = (forDays: number, amountRaw: bigint, carried = 0n): Invoice => ({
  ...base,
  days: forDays,
  amount_raw: String(amountRaw),
  carried_raw: String(carried),
  unspent: String(carried * BigInt(forDays)),
})

describe('what money buys', () => {
  // holds: rules.pass.statements.entitled_days_floor_received_days_amount
  it('is floor(received × days / amount) whatever the parts it comes in, once the price is there or the time is over', () => {
    fc.assert(
      fc.property(
        days(),
        amount(),
        fc.array(amount(), { maxLength: 12 }),
        fc.nat({ max: 12 }),
        (forDays, price, parts, lapseAfter) => {
          let invoice = make(forDays, price)
          let received = 0n
          for (const [place, part] of [...parts, 0n].entries()) {
            if (place === lapseAfter) invoice = lapse(invoice)
            if (place < parts.length) {
              invoice = receive(invoice, part)
              received += part
            }
            const owed = (received * BigInt(forDays)) / price
            const isOpen = received >= price || invoice.lapsed
            const entitled = owed > BigInt(MAX_CREDITED_DAYS) ? BigInt(MAX_CREDITED_DAYS) : owed
            expect(BigInt(invoice.credited_days)).toBe(isOpen ? entitled : 0n)
            expect(BigInt(invoice.received_raw)).toBe(received)
            // To the last raw: what came in is days at the price, and what is left.
            expect(BigInt(invoice.credited_days) * price + BigInt(invoice.unspent)).toBe(
              received * BigInt(forDays),
            )
          }
        },
      ),
    )
  })

  it('is the same in whatever order the parts come, and however they are split', () => {
    fc.assert(
      fc.property(
        days(),
        amount(),
        fc.array(amount(), { minLength: 1, maxLength: 8 }),
        (forDays, price, parts) => {
          const total = parts.reduce((sum, part) => sum + part, 0n)
          const inParts = lapse(receiveAll(make(forDays, price), parts))
          const backwards = lapse(receiveAll(make(forDays, price), parts.toReversed()))
          const atOnce = lapse(receive(make(forDays, price), total))
          for (const invoice of [inParts, backwards])
            expect([invoice.credited_days, invoice.unspent, invoice.received_raw]).toEqual([
              atOnce.credited_days,
              atOnce.unspent,
              atOnce.received_raw,
            ])
        },
      ),
    )
  })

  it('counts what was carried over as received, and keeps what moves on to the last raw', () => {
    fc.assert(
      fc.property(days(), amount(), amount(), amount(), (forDays, price, carried, paid) => {
        const invoice = lapse(receive(receive(make(forDays, price, carried), 0n), paid))
        const left = remainderRaw(invoice)
        const spent = BigInt(invoice.credited_days) * price
        const fraction = BigInt(invoice.unspent) - left * BigInt(forDays)
        expect(fraction).toBeGreaterThanOrEqual(0n)
        expect(fraction).toBeLessThan(BigInt(forDays))
        expect(spent + left * BigInt(forDays) + fraction).toBe((carried + paid) * BigInt(forDays))
        if (invoice.credited_days < MAX_CREDITED_DAYS) expect(left * BigInt(forDays)).toBeLessThan(price)
      }),
    )
  })

  // holds: limits.late_money, rules.pass.statements.money_first_seen_after_the_invoice
  it('is never more for late money than for the same money in time, and costs what it is said to cost', () => {
    fc.assert(
      fc.property(days(), amount(), amount(), amount(), amount(), (forDays, price, dearer, early, late) => {
        const lapsed = lapse(receive(make(forDays, price), early))
        const priceNow = price + dearer
        const paid = receive(lapsed, late, priceNow)
        expect(paid.credited_days).toBeLessThanOrEqual(receive(lapsed, late).credited_days)
        expect(BigInt(lapsed.unspent) + late * BigInt(forDays)).toBe(
          BigInt(paid.added) * priceNow + BigInt(paid.unspent),
        )
      }),
    )
  })

  it('refuses a price below the one that was asked', () => {
    expect(() => computeMoneyChange(base, 1n, BigInt(base.amount_raw) - 1n)).toThrow(TypeError)
  })

  // holds: limits.remainders.detail
  it('stops at a century, and what is beyond stays', () => {
    const paid = receive(make(1, 1n), 2n ** 128n)
    expect([paid.credited_days, BigInt(paid.unspent)]).toEqual([
      MAX_CREDITED_DAYS,
      2n ** 128n - BigInt(MAX_CREDITED_DAYS),
    ])
    const twice = receive(paid, 1n)
    expect([twice.added, BigInt(twice.unspent)]).toEqual([0, 2n ** 128n - BigInt(MAX_CREDITED_DAYS) + 1n])
  })
})

describe('an invoice that lacks only dust', () => {
  const DUST = dustThreshold('xno')
  const PRICE = BigInt(base.amount_raw)
  const pay = (amountRaw: bigint, change: Partial<Invoice> = {}, priceRaw?: bigint) =>
    computeMoneySpent(
      { ...base, ...change },
      { source: 'pay_1', at: 7, amountRaw, ...(priceRaw === undefined ? {} : { priceRaw }) },
    )

  it('buys all its days at the lower price that was paid, and is closed', () => {
    const paid = PRICE - DUST + 1n
    expect(pay(paid)).toEqual({
      addedDays: 3,
      priceRaw: paid,
      fields: {
        received_raw: String(paid),
        unspent: '0',
        credited_days: 3,
        has_remainder: false,
        open: false,
      },
      lines: [
        {
          ...{ _id: 'pay_1/sold', at: 7, coin: 'xno', from: 'invoice:inv_1', to: 'sold' },
          ...{ amount_raw: String(paid), agent_id: 'agt_1', invoice_id: 'inv_1' },
        },
      ],
    })
  })

  it('buys nothing yet if it lacks more, and what has come waits in it', () => {
    expect(pay(PRICE - DUST)).toEqual({
      addedDays: 0,
      priceRaw: PRICE,
      fields: {
        ...{ received_raw: String(PRICE - DUST), unspent: String((PRICE - DUST) * 3n), credited_days: 0 },
        has_remainder: false,
      },
      lines: [],
    })
  })

  it('buys the days that are left for what is left, once some were bought', () => {
    const day = PRICE / 3n
    const one = {
      ...{ received_raw: String(day), credited_days: 1, unspent: '0', lapsed: true },
    }
    const { addedDays, fields } = pay(2n * day - 1n, one)
    expect([addedDays, fields.credited_days, BigInt(fields.unspent ?? 0) < PRICE]).toEqual([2, 3, true])
  })

  it('has its full price when what was carried over makes it up', () => {
    const carried = { carried_raw: '5', unspent: '15' }
    expect(pay(PRICE - DUST - 4n, carried).addedDays).toBe(3)
    expect(pay(PRICE - DUST - 5n, carried).addedDays).toBe(0)
  })

  it('is forgiven nothing for late money, whose price has risen', () => {
    const { addedDays, priceRaw, fields } = pay(PRICE - 1n, { lapsed: true }, PRICE + 3n)
    expect([addedDays, priceRaw, fields.open]).toEqual([2, PRICE + 3n, false])
  })

  it('books what is left below a day as the agent’s, and less of it as it is used', () => {
    const lapsed = { lapsed: true, received_raw: '10', unspent: '30', has_remainder: true as const }
    const { lines } = pay(PRICE, lapsed)
    expect(lines.map(({ _id, from, to, amount_raw }) => [_id, from, to, amount_raw])).toEqual([
      ['pay_1/sold', 'invoice:inv_1', 'sold', String(PRICE)],
    ])
    expect(pay(5n, lapsed).lines).toMatchObject([
      { _id: 'pay_1/left', from: 'invoice:inv_1', to: 'remainder:agt_1', amount_raw: '5' },
    ])
  })
})

describe('the status of an invoice', () => {
  const one = 10n ** 30n
  const cases: [status: string, change: Partial<InvoiceRecord>, isUnderWay: boolean][] = [
    ['awaiting_payment', {}, false],
    ['confirming', {}, true],
    ['underpaid', { received_raw: String(one) }, false],
    ['confirming', { received_raw: String(one) }, true],
    ['expired', { lapsed: true }, false],
    ['expired', { lapsed: true, received_raw: String(one), credited_days: 1 }, false],
    ['confirming', { lapsed: true }, true],
    ['settled', { received_raw: String(3n * one) }, false],
    ['settled', { received_raw: String(3n * one), lapsed: true }, true],
    ['settled', { carried_raw: String(2n * one), received_raw: String(one) }, false],
    ['awaiting_payment', { carried_raw: String(2n * one) }, false],
  ]
  // holds: rules.pass.invoice_statuses.*
  it.each(cases)('is %s for %o, a payment under way: %s', (status, change, isUnderWay) => {
    expect(invoiceStatus({ ...base, ...change }, isUnderWay)).toBe(status)
  })

  it('shows what is left only once it can no longer become days here', () => {
    const view = (change: Partial<InvoiceRecord>) =>
      viewCheckedInvoice({
        invoice: { ...base, ...change },
        payments: [],
        isTruncated: false,
        isUnderWay: false,
        requiredConfirmations: 1,
        isReachable: true,
        checkedAt: 1,
        passUntilMs: 0,
      })
    const partly = { received_raw: String(one / 2n), unspent: String((3n * one) / 2n) }
    expect(view(partly)).toMatchObject({
      status: 'underpaid',
      remainder_raw: '0',
      remaining: '2.5',
      uri: `nano:nano_1?amount=${(5n * one) / 2n}`,
    })
    expect(view({ ...partly, lapsed: true })).toMatchObject({
      status: 'expired',
      remainder_raw: String(one / 2n),
    })
    expect(view({})).not.toHaveProperty('pass_until')
    expect(view({ received_raw: String(3n * one), credited_days: 3 })).toMatchObject({
      pass_until: '1970-01-01T00:00:00.000+00:00',
      remaining: '0',
    })
  })
})

describe('a price', () => {
  const DUST = dustThreshold('xno')
  it('is paid if less is missing than the last decimal that a price shows', () => {
    expect([missingRaw('xno', DUST * 3n, DUST * 2n + 1n), missingRaw('xno', DUST * 3n, DUST * 2n)]).toEqual([
      0n,
      DUST,
    ])
    expect(missingRaw('xno', DUST, DUST * 5n)).toBe(0n)
    const price = BigInt(base.amount_raw)
    const paid = { ...base, received_raw: String(price - DUST - 1n), carried_raw: '2' }
    expect([isPaid(paid), remainingRaw(paid)]).toEqual([true, 0n])
    const unpaid = { ...paid, carried_raw: '1' }
    expect([isPaid(unpaid), remainingRaw(unpaid)]).toEqual([false, DUST])
  })

  it('of an order leaves no remainder', () => {
    const { days: _, ...ofAnOrder } = { ...base, unspent: '7' }
    expect([remainderRaw({ ...base, unspent: '7' }), remainderRaw(ofAnOrder)]).toEqual([2n, 0n])
  })
})

const payment: PaymentRecord = {
  ...{ _id: 'pay_1', coin: 'xno', tx: 'ab', address_index: 1, invoice_id: 'inv_1', agent_id: 'agt_1' },
  ...{ amount_raw: String(10n ** 30n), state: 'seen', confirmations: 0, first_seen_at: 5, late: false },
  ...{ by: 'chain', salt: 'cd'.repeat(32) },
}

describe('a payment', () => {
  it('stands on the word of the operator alone until the chain has shown it', () => {
    const byHand: PaymentRecord = { ...payment, by: 'operator', state: 'settled' }
    expect([
      isOnWordAlone(byHand),
      isOnWordAlone({ ...byHand, by: 'chain' }),
      isOnWordAlone({ ...byHand, shown_at: 7 }),
    ]).toEqual([true, false, false])
  })

  it('is an arrival that has an invoice', () => {
    const { invoice_id: _invoice, agent_id: _agent, ...arrival } = payment
    expect([isPayment(payment), isPayment({ ...arrival, came_to: 'unassigned' })]).toEqual([true, false])
  })
})

describe('an invoice as it is shown', () => {
  const SHOWN = {
    ...{ invoice_id: 'inv_1', currency: 'xno', days: 3, amount: '3.000000', amount_raw: base.amount_raw },
    ...{ address: 'nano_1', uri: `nano:nano_1?amount=${base.amount_raw}`, price_usd: 3, rate: '1' },
    ...{ rate_source: 'test', rate_at: 1, status: 'awaiting_payment', expires_at: 2 },
  }
  const { days: _days, ...orderInvoice } = { ...base, order_id: 'ord_1' }
  const checked: CheckedInvoice = {
    ...{ invoice: base, payments: [], isTruncated: false, isUnderWay: false, requiredConfirmations: 1 },
    ...{ isReachable: true, checkedAt: undefined, passUntilMs: undefined },
  }
  const check = (more: Partial<CheckedInvoice>) => viewCheckedInvoice({ ...checked, ...more })

  it('says what is to be paid, where, and until when', () => {
    expect(viewInvoice(base)).toEqual(SHOWN)
    expect(viewInvoice(base, true).status).toBe('confirming')
    expect(viewInvoice(orderInvoice)).toMatchObject({ order_id: 'ord_1' })
    expect(viewInvoice(orderInvoice)).not.toHaveProperty('days')
  })

  it('warns of an address that nobody here has the key to', () => {
    expect(viewInvoice({ ...base, foreign: true }).not_payable).toContain('pay nothing')
  })

  it('that was just made is there twice, on top and under its name; an order has no such answer', () => {
    expect(viewMadeInvoice(base, true)).toEqual({
      ...SHOWN,
      status: 'confirming',
      invoice: { ...SHOWN, status: 'confirming' },
    })
    expect(() => viewMadeInvoice(orderInvoice, false)).toThrow('inv_1')
  })

  it('that was checked says what has come and what the chain says', () => {
    expect(check({})).toEqual({
      ...SHOWN,
      ...{ paid: '0', paid_raw: '0', carried_raw: '0', moved_raw: '0', remaining: '3', remainder_raw: '0' },
      ...{ credited_days: 0, confirmations: 0, required_confirmations: 1, chain: 'reachable' },
      ...{ checked_at: null, payments: [], payments_truncated: false },
    })
    expect(check({ isReachable: false, checkedAt: 9, isTruncated: true })).toMatchObject({
      chain: 'unreachable',
      checked_at: 9,
      payments_truncated: true,
    })
  })

  it('lists its payments, of which the newest says how far it is confirmed', () => {
    const late: PaymentRecord = {
      ...payment,
      ...{ _id: 'pay_2', state: 'settled', confirmations: 7, late: true, price_raw: '9', by: 'operator' },
      ...{ credited_days: 2, unlock_time: 500_000_000 },
    }
    const { confirmations, payments } = check({ payments: [{ ...payment, price_raw: '8' }, late] })
    expect(confirmations).toBe(7)
    expect(payments).toEqual([
      {
        ...{ payment_id: 'pay_1', tx_hash: 'ab', amount: '1', amount_raw: payment.amount_raw, state: 'seen' },
        ...{ confirmations: 0, late: false, credited_days: 0, first_seen_at: 5, settlement: 'automatic' },
        salt: payment.salt,
      },
      {
        ...{ payment_id: 'pay_2', tx_hash: 'ab', amount: '1', amount_raw: payment.amount_raw },
        ...{ state: 'settled', confirmations: 7, unlock_time: 500_000_000, late: true, credited_days: 2 },
        ...{ price_raw: '9', first_seen_at: 5, settlement: 'manual', salt: payment.salt },
      },
    ])
  })

  it('says until when the pass lasts once it has bought days, or is paid', () => {
    const until = (change: Partial<InvoiceRecord>) =>
      check({ invoice: { ...base, ...change }, passUntilMs: 0 }).pass_until
    expect(until({})).toBeUndefined()
    expect(until({ received_raw: base.amount_raw })).toBe('1970-01-01T00:00:00.000+00:00')
    expect(until({ lapsed: true, credited_days: 1 })).toBe('1970-01-01T00:00:00.000+00:00')
    const paid = { ...orderInvoice, received_raw: base.amount_raw }
    expect(check({ invoice: paid, passUntilMs: 0 })).not.toHaveProperty('pass_until')
    expect(check({ invoice: { ...base, credited_days: 1 } })).not.toHaveProperty('pass_until')
  })

  it('has the fields that the API says it has', () => {
    invoiceView.strict().parse(viewInvoice(orderInvoice))
    madeInvoiceView.strict().parse(viewMadeInvoice(base, false))
    checkedInvoiceView.strict().parse(check({ payments: [payment], passUntilMs: 0 }))
    checkedInvoiceView.strict().parse(check({ invoice: { ...base, foreign: true }, isReachable: false }))
  })
})
