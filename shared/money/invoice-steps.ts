import type { InvoiceRecord } from './invoice.ts'

/*
 * What can happen to an invoice: functions of the invoice, the event and the time. Nothing here reads or stores.
 */

/**
 * Why an event can't happen to an invoice: it has expired before; its time isn't over; a payment that came in time is
 * under way; it can still be paid; or its address is already marked so.
 */
export const INVOICE_BARS = ['lapsed', 'not_over', 'under_way', 'payable', 'marked'] as const
export type InvoiceBar = (typeof INVOICE_BARS)[number]

export interface InvoiceStepRule {
  /** What keeps it from happening. */
  unless: readonly InvoiceBar[]
  text: string
}

/** Which status each of them leads to follows from what is stored then: see invoiceStatus(). */
export const INVOICE_STEPS = {
  noted: {
    unless: [],
    text: 'A payment of it is stored, or seen again. While one that came in time is `seen`, it does not expire.',
  },
  received: {
    unless: [],
    text: 'A payment of it is settled. If the price is there but for dust, it is paid and not open.',
  },
  expired: {
    unless: ['lapsed', 'not_over', 'under_way'],
    text: "A whole look at the chain after its time found nothing more, or its coin is off; an order's with a foreign address need not wait. It is lapsed and not open: its money buys whole days, or is owed to the buyer.",
  },
  undone: {
    unless: [],
    text: "A payment of it is undone: its money counts no more, and an order's is lapsed no more.",
  },
  carried: {
    unless: [],
    text: "Its agent's next invoice in the coin is made: what it has left below a day counts as paid there.",
  },
  closed: {
    unless: ['payable'],
    text: 'Its agent asks for another: it is not open. Money that still comes counts.',
  },
  foreign: {
    unless: ['lapsed', 'marked'],
    text: 'A reconciliation finds its address to be of another wallet: nobody is to pay it, and what comes is late.',
  },
  own_again: {
    unless: ['lapsed', 'marked'],
    text: 'Its wallet is back.',
  },
} as const satisfies Record<string, InvoiceStepRule>

export type InvoiceStep = keyof typeof INVOICE_STEPS

/** The step's row of the table, with the type of any row. */
const stepRule = (step: InvoiceStep): InvoiceStepRule => INVOICE_STEPS[step]

type Ending = Pick<InvoiceRecord, 'lapsed' | 'foreign' | 'order_id' | 'expires_at'>

export type InvoiceDecision = { kind: 'happens' } | { kind: 'stays'; because: InvoiceBar }

/**
 * Decides whether an event happens to an invoice. What becomes of its money is decided by what it is for (Purpose).
 *
 * @param at Unix seconds
 * @param isHeldOpen whether a payment that came in time is under way
 */
export function decideInvoice(
  invoice: Ending,
  step: InvoiceStep,
  at: number,
  isHeldOpen = false,
): InvoiceDecision {
  const isForeign = invoice.foreign === true
  const isTimeOver = invoice.expires_at <= at
  const bars: Record<InvoiceBar, boolean> = {
    lapsed: invoice.lapsed,
    // An order's invoice whose address is of another wallet can't be paid by anybody.
    not_over: !isTimeOver && !(isForeign && invoice.order_id !== undefined),
    under_way: isHeldOpen,
    payable: !isTimeOver && !isForeign,
    marked: isForeign === (step === 'foreign'),
  }
  const because = stepRule(step).unless.find((bar) => bars[bar])
  return because === undefined ? { kind: 'happens' } : { kind: 'stays', because }
}
