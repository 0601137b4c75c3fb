/*
 * What has to add up in one invoice and in one order, by what the service answers about them.
 */
import { check, DUST_RAW, readOrder, wasForgotten, type KnownInvoice, type Sale, type World } from './world.ts'
import { isOpen, sum, type InvoiceView, type OrderView, type PayoutView } from './views.ts'

/** Readings of one order until two in a row agree. */
const MOST_READINGS = 8

export interface OrderBook {
  /** As the buyer sees it. */
  order: OrderView
  invoice: InvoiceView
  toSeller: PayoutView[]
  toBuyer: PayoutView[]
}

export async function readInvoice(world: World, { id, agent }: KnownInvoice): Promise<InvoiceView | undefined> {
  const answered = await world.ask(agent, 'check-invoice', 'POST', '/invoice/check', { invoice_id: id })
  if (wasForgotten(answered)) return undefined
  if (answered.status !== 200) throw new Error(`invoice ${id} could not be read: ${answered.status ?? answered.lost}`)
  return answered.json as unknown as InvoiceView
}

/** Everything about an order, at one moment; undefined where the network has forgotten it. */
export async function readBook(world: World, sale: Sale): Promise<OrderBook | undefined> {
  let before = ''
  for (let tries = 0; ; tries++) {
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

const counted = (payouts: readonly PayoutView[]): bigint => sum(payouts.filter(({ state }) => state !== 'withdrawn'))

/** What was received for an order is its seller's, its buyer's, the venue's fee or held, by its status; nothing is left over. */
export function checkOrder(world: World, sale: Sale, { order, invoice, toSeller, toBuyer }: OrderBook): void {
  const { status, disputed_by: disputedBy } = order
  const [amount, fee] = [BigInt(order.amount_raw), BigInt(order.fee_raw)]
  const received = BigInt(invoice.paid_raw)
  const [seller, buyer] = [counted(toSeller), counted(toBuyer)]
  const words = [sale.id, invoice.invoice_id, ...[...toSeller, ...toBuyer].map(({ payout_id: id }) => id)]
  const shares = `received ${received}, to its seller ${seller}, to its buyer ${buyer}, fee ${fee}, price ${amount}`
  const wrong = (what: string): string =>
    `order ${sale.id} is ${status}${disputedBy === 'chain' ? ' by the chain' : ''} and ${what}: ${shares}`
  if (status === 'disputed' && disputedBy === 'chain') {
    const gone = (payouts: PayoutView[]): bigint => counted(payouts.filter((payout) => !isOpen(payout)))
    check(world, gone(toSeller) + gone(toBuyer) <= received, wrong('has paid out more than it received'), ...words)
    return
  }
  const isPaid = !['awaiting_payment', 'expired'].includes(status)
  const lacks = amount > received ? amount - received : 0n
  check(world, !isPaid || lacks < DUST_RAW, wrong('was not paid'), ...words)
  const isReleased = status === 'released' || status === 'paid_out'
  check(world, seller === (isReleased ? amount - fee : 0n), wrong('owes its seller something else'), ...words)
  const held = ['paid', 'delivered', 'disputed'].includes(status) ? amount : status === 'awaiting_payment' ? received : 0n
  const total = seller + buyer + held + (isReleased ? fee : 0n)
  // What is missing of the price below dust is the venue's loss.
  check(world, total === received || (isPaid && total === received + lacks), wrong(`accounts for ${total}`), ...words)
}

/** Of a pass invoice: paid and carried are days at their price, what is left, and what moved on to another invoice. */
export function checkPassInvoice(world: World, { agent }: KnownInvoice, invoice: InvoiceView): void {
  const { invoice_id: id, payments, credited_days: creditedDays } = invoice
  const days = BigInt(invoice.days ?? 0)
  const price = BigInt(invoice.amount_raw)
  const settled = payments.filter(({ state }) => state === 'settled')
  const received = BigInt(invoice.paid_raw)
  check(world, sum(settled) === received, `invoice ${id} is paid ${received}, and its payments are ${sum(settled)}`, id, agent.name)
  const bought = settled.reduce((total, payment) => total + BigInt(payment.credited_days), 0n)
  // Days that no payment bought were bought when the invoice expired, or by what was carried in: at its own price.
  const spent =
    settled.reduce((total, payment) => total + BigInt(payment.credited_days) * BigInt(payment.price_raw ?? price), 0n) +
    (BigInt(creditedDays) - bought) * price
  const inflow = (received + BigInt(invoice.carried_raw)) * days
  const left = inflow - spent - BigInt(invoice.moved_raw) * days
  const isCounting = creditedDays > 0 || ['settled', 'expired'].includes(invoice.status)
  const shown = isCounting ? BigInt(invoice.remainder_raw) * days : left
  const what = `${received} paid, ${invoice.carried_raw} carried in, ${creditedDays} days at ${price} for ${days}, ${invoice.remainder_raw} left, ${invoice.moved_raw} moved on`
  // Below a raw is a fraction; what lacks below dust is the venue's loss.
  check(world, left - shown < days && left - shown > -DUST_RAW * days, `invoice ${id} does not add up: ${what}`, id, agent.name)
}
