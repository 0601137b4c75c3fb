import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_CREDITED_DAYS } from '../../shared/platform/limits.ts'
import { computeMoneyChange } from '../../shared/passes/pass-invoice.ts'
import {
  invoiceStatus,
  remainderRaw,
  viewCheckedInvoice,
  type InvoiceRecord,
} from '../../shared/money/invoice.ts'

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
