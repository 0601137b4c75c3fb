/* Reads what the service answers to its agents about money. */
import type { Agent } from '../world/agent.ts'
import type { Answered } from '../world/client.ts'
import type { KnownInvoice, Sale, Market } from './world.ts'

export interface PayoutView {
  payout_id: string
  amount_raw: string
  state: 'owed' | 'signed' | 'sent' | 'confirmed' | 'held' | 'manual' | 'withdrawn'
  frozen: boolean
  waits_for_chain: boolean
  to_self: boolean
  address: string | null
  tx_hash: string | null
  at: number
}

export interface OrderView {
  order_id: string
  status:
    'awaiting_payment' | 'paid' | 'delivered' | 'disputed' | 'released' | 'paid_out' | 'refunded' | 'expired'
  amount_raw: string
  fee_raw: string
  pay_by: number
  deliver_by: number | null
  accept_by: number | null
  disputed_by: 'buyer' | 'chain' | null
  refund_address: string | null
  payouts: PayoutView[]
}

export interface InvoiceView {
  invoice_id: string
  status: 'awaiting_payment' | 'confirming' | 'underpaid' | 'settled' | 'expired'
  amount_raw: string
  days?: number
  expires_at: number
  paid_raw: string
  carried_raw: string
  remaining: string
  remainder_raw: string
  moved_raw: string
  credited_days: number
  payments: {
    tx_hash: string
    amount_raw: string
    state: string
    credited_days: number
    price_raw?: string
  }[]
}

/** An order, its invoice and its payouts, as far as possible of one moment: see readBook(). */
export interface OrderBook {
  order: OrderView
  invoice: InvoiceView
  toSeller: PayoutView[]
  toBuyer: PayoutView[]
}

/** Whether a payout is neither with its payee nor withdrawn. */
export const isOpen = ({ state }: PayoutView): boolean =>
  !['confirmed', 'manual', 'withdrawn'].includes(state)

/**
 * Returns the answer's body; undefined if the network has forgotten the order or invoice.
 *
 * @param what was asked for, for the error
 * @throws Error on any other refusal
 */
function jsonOrForgotten(answered: Answered, what: string): Record<string, unknown> | undefined {
  if (answered.error === 'no_such_order' || answered.error === 'no_such_invoice') return undefined
  // 202: the invoice as it is known, since the workers could not be asked to look again.
  if (answered.status !== 200 && answered.status !== 202)
    throw new Error(`${what} could not be read: ${answered.error ?? answered.status ?? answered.lost}`)
  return answered.json
}

/**
 * Reads an order as one side sees it; undefined if the network has forgotten it. Sets `world.isDisputed` if
 * it is.
 */
export async function readOrder(world: Market, agent: Agent, id: string): Promise<OrderView | undefined> {
  const json = jsonOrForgotten(await world.ask(agent, 'read-order', 'GET', `/market/order/${id}`), id)
  const order = json?.['order'] as OrderView | undefined
  if (order?.status === 'disputed') world.isDisputed = true
  return order
}

/** Makes the service look for payments, and reads the invoice; undefined if the network has forgotten it. */
export async function readInvoice(
  world: Market,
  { id, agent }: KnownInvoice,
): Promise<InvoiceView | undefined> {
  const json = jsonOrForgotten(
    await world.ask(agent, 'check-invoice', 'POST', '/invoice/check', { invoice_id: id }),
    id,
  )
  return json as unknown as InvoiceView | undefined
}

const MOST_READINGS = 8

/**
 * Reads an order from both sides and its invoice until two readings in a row agree, or MOST_READINGS times.
 *
 * @returns undefined if the network has forgotten any of them
 */
export async function readBook(world: Market, sale: Sale): Promise<OrderBook | undefined> {
  let before = ''
  for (let tries = 1; ; tries++) {
    const order = await readOrder(world, sale.buyer, sale.id)
    const seen = await readOrder(world, sale.seller, sale.id)
    const invoice = await readInvoice(world, sale.invoice)
    if (order === undefined || seen === undefined || invoice === undefined) return undefined
    const book = { order, invoice, toSeller: seen.payouts, toBuyer: order.payouts }
    const now = JSON.stringify([order.status, seen.status, invoice.paid_raw, book.toSeller, book.toBuyer])
    if (now === before || tries === MOST_READINGS) return book
    before = now
  }
}

/** The row of Nano in a list with a row for each coin. */
export const xnoRow = <Row extends { currency: string }>(rows: unknown): Row | undefined =>
  (rows as Row[]).find(({ currency }) => currency === 'xno')
