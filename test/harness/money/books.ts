/* Checks that one invoice and one order add up, by what the service answers about them. */
import { sumRaw } from '../auditor/money.ts'
import { isOpen, type InvoiceView, type OrderBook, type PayoutView } from './views.ts'
import { check, DUST_RAW, type World } from './world.ts'

/** What is owed and what was paid, without what was withdrawn, in raw. */
const owedOrPaid = (payouts: readonly PayoutView[]): bigint =>
  sumRaw(payouts.filter(({ state }) => state !== 'withdrawn'))
/** What was paid, in raw. */
const paidOut = (payouts: readonly PayoutView[]): bigint =>
  owedOrPaid(payouts.filter((payout) => !isOpen(payout)))

/**
 * Checks that what was received for an order is its seller's, its buyer's, the venue's fee or held, as its
 * status says, and that nothing is left over.
 */
export function checkOrder(world: World, { order, invoice, toSeller, toBuyer }: OrderBook): void {
  const { order_id: id, status, disputed_by: disputedBy } = order
  const [amount, fee, received] = [BigInt(order.amount_raw), BigInt(order.fee_raw), BigInt(invoice.paid_raw)]
  const [seller, buyer] = [owedOrPaid(toSeller), owedOrPaid(toBuyer)]
  const shares = `received ${received}, to its seller ${seller}, to its buyer ${buyer}, fee ${fee}, price ${amount}`
  /** Checks one rule. @param what what is wrong with the order if it does not hold */
  const mustHold = (holds: boolean, what: string): void =>
    check(world, holds, `order ${id} is ${status} and ${what}: ${shares}`)
  if (status === 'disputed' && disputedBy === 'chain')
    return mustHold(paidOut(toSeller) + paidOut(toBuyer) <= received, 'has paid out more than it received')
  const isPaid = !['awaiting_payment', 'expired'].includes(status)
  // What is missing of the price below dust is the venue's loss.
  const lacks = amount > received ? amount - received : 0n
  mustHold(!isPaid || lacks < DUST_RAW, 'was not paid')
  const isReleased = status === 'released' || status === 'paid_out'
  mustHold(seller === (isReleased ? amount - fee : 0n), 'owes its seller something else')
  let held = 0n
  if (status === 'awaiting_payment') held = received
  else if (['paid', 'delivered', 'disputed'].includes(status)) held = amount
  const total = seller + buyer + held + (isReleased ? fee : 0n)
  mustHold(total === received || (isPaid && total === received + lacks), `accounts for ${total}`)
}

/**
 * Checks that what was paid and carried into an invoice of days is equal to its days at their price, what is
 * left, and what moved on to another invoice.
 */
export function checkPassInvoice(world: World, invoice: InvoiceView): void {
  const {
    invoice_id: id,
    credited_days: credited,
    paid_raw: paid,
    carried_raw: carried,
    remainder_raw: remainder,
    moved_raw: moved,
  } = invoice
  const [days, price] = [BigInt(invoice.days ?? 0), BigInt(invoice.amount_raw)]
  const settled = invoice.payments.filter(({ state }) => state === 'settled')
  check(
    world,
    sumRaw(settled) === BigInt(paid),
    `invoice ${id} is paid ${paid}, and its payments are ${sumRaw(settled)}`,
  )
  // Days that no payment bought were bought when the invoice expired, or by what was carried in: at its own
  // price.
  let spent = BigInt(credited) * price
  for (const payment of settled)
    spent += BigInt(payment.credited_days) * (BigInt(payment.price_raw ?? price) - price)
  const left = (BigInt(paid) + BigInt(carried) - BigInt(moved)) * days - spent
  const isCounting = credited > 0 || invoice.status === 'settled' || invoice.status === 'expired'
  const unnamed = isCounting ? left - BigInt(remainder) * days : 0n
  const what = `${paid} paid, ${carried} carried in, ${credited} days at ${price} for ${days}, ${remainder} left, ${moved} moved on`
  // A fraction is below one raw; what lacks below dust is the venue's loss.
  check(world, unnamed < days && unnamed > -DUST_RAW * days, `invoice ${id} does not add up: ${what}`)
}
