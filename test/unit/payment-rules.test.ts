import { describe, expect, it } from 'vitest'
import type { InvoiceRecord, PaymentRecord } from '../../shared/money/invoice.ts'
import {
  isLateArrival,
  judgeExpiry,
  judgeLoss,
  judgePayment,
  judgeSighting,
} from '../../shared/money/payment-rules.ts'

const [BEFORE, AT_ITS_END, AFTER] = [999, 1_000, 1_001]

type Ending = Pick<InvoiceRecord, 'lapsed' | 'foreign' | 'order_id' | 'expires_at'>
const open: Ending = { lapsed: false, expires_at: 1_000 }
/** Every state of an invoice that its end depends on; `foreign`: its address is of another wallet. */
const INVOICES = {
  open,
  'of an order': { ...open, order_id: 'mkt_1' },
  lapsed: { ...open, lapsed: true },
  foreign: { ...open, foreign: true },
  'foreign, of an order': { ...open, foreign: true, order_id: 'mkt_1' },
  'foreign, lapsed': { ...open, foreign: true, lapsed: true },
} as const satisfies Record<string, Ending>
type InvoiceName = keyof typeof INVOICES

const over = (...verdicts: [before: string, atItsEnd: string, after: string]) => verdicts

describe('an invoice', () => {
  /** What becomes of it before, at and after its time, if nothing is under way. */
  const ENDS: Record<InvoiceName, string[]> = {
    open: over('not_over', 'expires', 'expires'),
    'of an order': over('not_over', 'expires', 'expires'),
    lapsed: over('lapsed', 'lapsed', 'lapsed'),
    foreign: over('not_over', 'expires', 'expires'),
    'foreign, of an order': over('expires', 'expires', 'expires'),
    'foreign, lapsed': over('lapsed', 'lapsed', 'lapsed'),
  }
  const NAMES = Object.keys(INVOICES) as InvoiceName[]

  it.each(NAMES)(
    'that is %s expires when the table says, and never while a payment in time is under way',
    (name) => {
      const verdicts = (isHeldOpen: boolean) =>
        [BEFORE, AT_ITS_END, AFTER].map((at) => {
          const verdict = judgeExpiry(INVOICES[name], isHeldOpen, at)
          return verdict.kind === 'expires' ? verdict.kind : verdict.because
        })
      expect(verdicts(false)).toEqual(ENDS[name])
      expect(verdicts(true)).toEqual(ENDS[name].map((end) => (end === 'expires' ? 'under_way' : end)))
    },
  )

  /** Whether money is late that the chain shows, and that the operator records, after a round at each time. */
  const LATE: Record<InvoiceName, { chain: boolean[]; operator: boolean[] }> = {
    open: { chain: [false, false, true], operator: [false, false, false] },
    'of an order': { chain: [false, false, true], operator: [false, false, false] },
    lapsed: { chain: [true, true, true], operator: [true, true, true] },
    foreign: { chain: [true, true, true], operator: [true, true, true] },
    'foreign, of an order': { chain: [true, true, true], operator: [true, true, true] },
    'foreign, lapsed': { chain: [true, true, true], operator: [true, true, true] },
  }

  it.each(NAMES)('that is %s gets money late when the table says', (name) => {
    const late = (by: PaymentRecord['by']) =>
      [BEFORE, AT_ITS_END, AFTER].map((roundAt) => isLateArrival(INVOICES[name], { by, roundAt }, 2_000))
    expect({ chain: late('chain'), operator: late('operator') }).toEqual(LATE[name])
  })

  it('gets no money late by a round of a clock that is ahead', () => {
    expect(isLateArrival(open, { by: 'chain', roundAt: AFTER }, AT_ITS_END)).toBe(false)
  })

  /** What a confirmed payment comes to that was in time, and that was noted as late. */
  const BUYS: Record<InvoiceName, { inTime: string[]; late: string[] }> = {
    open: {
      inTime: over('buys', 'buys', 'buys'),
      late: over('buys', 'waits', 'waits'),
    },
    'of an order': {
      inTime: over('buys', 'buys', 'buys'),
      late: over('buys', 'waits', 'waits'),
    },
    lapsed: {
      inTime: over('buys', 'buys', 'buys'),
      late: over('buys late', 'buys late', 'buys late'),
    },
    foreign: {
      inTime: over('buys', 'buys', 'buys'),
      late: over('waits', 'waits', 'waits'),
    },
    'foreign, of an order': {
      inTime: over('buys', 'buys', 'buys'),
      late: over('waits', 'waits', 'waits'),
    },
    'foreign, lapsed': {
      inTime: over('buys', 'buys', 'buys'),
      late: over('buys late', 'buys late', 'buys late'),
    },
  }

  it.each(NAMES)('that is %s is bought by a confirmed payment as the table says', (name) => {
    const bought = (late: boolean) =>
      [BEFORE, AT_ITS_END, AFTER].map((at) => {
        const verdict = judgePayment({ state: 'seen', late }, INVOICES[name], at)
        return verdict.kind === 'buys' && verdict.late ? 'buys late' : verdict.kind
      })
    expect({ inTime: bought(false), late: bought(true) }).toEqual(BUYS[name])
  })
})

describe('a payment', () => {
  type Recorded = Pick<PaymentRecord, 'state' | 'by' | 'shown_at' | 'reversed_at'>
  const byOperator = { by: 'operator' } as const
  /** What each event makes of it: the chain has it, has it locked, has it confirmed, and lacks it. */
  const PAYMENTS: [
    name: string,
    payment: Recorded,
    found: string,
    locked: string,
    confirmed: string,
    lacking: string,
  ][] = [
    ['seen', { state: 'seen', by: 'chain' }, 'stays', 'stays', 'buys', 'gone'],
    ['locked', { state: 'locked', by: 'chain' }, 'seen', 'stays', 'not_seen', 'gone'],
    ['gone', { state: 'gone', by: 'chain' }, 'seen', 'locked', 'not_seen', 'stays'],
    ['settled', { state: 'settled', by: 'chain' }, 'stays', 'stays', 'not_seen', 'reversed'],
    [
      'settled and taken back by the chain',
      { state: 'settled', by: 'chain', reversed_at: 5 },
      ...(['stays', 'stays', 'not_seen', 'stays'] as const),
    ],
    ['seen, by the operator', { state: 'seen', ...byOperator }, 'stays', 'stays', 'buys', 'stays'],
    ['settled by the operator', { state: 'settled', ...byOperator }, 'stays', 'stays', 'not_seen', 'stays'],
    [
      'settled by the operator and shown by the chain',
      { state: 'settled', ...byOperator, shown_at: 4 },
      ...(['stays', 'stays', 'not_seen', 'reversed'] as const),
    ],
  ]

  it.each(PAYMENTS)('that is %s becomes by each event what the table says', (_name, payment, ...expected) => {
    const sighting = (isLocked: boolean) => {
      const verdict = judgeSighting(payment, isLocked)
      return verdict.kind === 'moves' ? verdict.to : verdict.kind
    }
    const confirmed = judgePayment({ ...payment, late: false }, open, BEFORE).kind
    expect([sighting(false), sighting(true), confirmed, judgeLoss(payment).kind]).toEqual(expected)
  })
})
