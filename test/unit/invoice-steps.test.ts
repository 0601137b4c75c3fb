import { describe, expect, it } from 'vitest'
import { decideInvoice, INVOICE_STEPS, type InvoiceStep } from '../../shared/money/invoice-steps.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import { ENDINGS, type EndingName } from '../support/invoice-cases.ts'

const [BEFORE, AT_ITS_END, AFTER] = [999, 1_000, 1_001]
const NAMES = Object.keys(ENDINGS) as EndingName[]

/** What each event comes to before, at and after the invoice's time, if nothing is under way. */
const over = (before: string, atItsEnd: string, after: string) => [before, atItsEnd, after]
const always = (outcome: string) => over(outcome, outcome, outcome)
const HAPPENS = Object.fromEntries(NAMES.map((name) => [name, always('happens')]))
const MARKED = {
  foreign: always('marked'),
  'foreign, of an order': always('marked'),
  lapsed: always('lapsed'),
  'foreign, lapsed': always('lapsed'),
}
const CASES: Record<InvoiceStep, Record<string, string[]>> = {
  noted: HAPPENS,
  received: HAPPENS,
  undone: HAPPENS,
  carried: HAPPENS,
  expired: {
    open: over('not_over', 'happens', 'happens'),
    'of an order': over('not_over', 'happens', 'happens'),
    lapsed: always('lapsed'),
    foreign: over('not_over', 'happens', 'happens'),
    'foreign, of an order': always('happens'),
    'foreign, lapsed': always('lapsed'),
  },
  closed: {
    open: over('payable', 'happens', 'happens'),
    'of an order': over('payable', 'happens', 'happens'),
    lapsed: over('payable', 'happens', 'happens'),
    foreign: always('happens'),
    'foreign, of an order': always('happens'),
    'foreign, lapsed': always('happens'),
  },
  foreign: { open: always('happens'), 'of an order': always('happens'), ...MARKED },
  own_again: {
    ...MARKED,
    open: always('marked'),
    'of an order': always('marked'),
    foreign: always('happens'),
    'foreign, of an order': always('happens'),
  },
}

describe('an invoice', () => {
  const outcome = (
    invoice: Pick<InvoiceRecord, 'lapsed' | 'expires_at'>,
    step: InvoiceStep,
    isHeld: boolean,
  ) =>
    [BEFORE, AT_ITS_END, AFTER].map((at) => {
      const decision = decideInvoice(invoice, step, at, isHeld)
      return decision.kind === 'stays' ? decision.because : decision.kind
    })
  const STEPS = Object.keys(INVOICE_STEPS) as InvoiceStep[]

  it.each(STEPS)('is %s when the table says, before, at and after its time', (step) => {
    const found = NAMES.map((name) => [name, outcome(ENDINGS[name], step, false)])
    expect(Object.fromEntries(found)).toEqual(CASES[step])
  })

  it.each(STEPS)(
    'is %s all the same while a payment in time is under way, unless that is its end',
    (step) => {
      for (const name of NAMES) {
        const held = CASES[step][name]?.map((end) =>
          step === 'expired' && end === 'happens' ? 'under_way' : end,
        )
        expect(outcome(ENDINGS[name], step, true), name).toEqual(held)
      }
    },
  )
})
