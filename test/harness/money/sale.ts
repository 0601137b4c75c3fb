import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'
import { parseAmount } from '../../../shared/money/coin.ts'
import type { Agent } from '../world/agent.ts'
import type { Answered } from '../world/client.ts'
import { DUST_RAW, findWrongInOrder } from '../auditor/outside.ts'
import { checkNotStuck } from './overtaken.ts'
import {
  isOpen,
  readBook,
  readInvoice,
  readOrder,
  type InvoiceView,
  type OrderView,
  type PayoutView,
} from './views.ts'
import { check, checkNone, count, addInvoice, pay, until, type Sale, type Market } from './world.ts'

/** The ways to pay: how often each is chosen among all, and the amounts that are sent for a price, in raw. */
export const PAYMENTS = {
  exact: [12, (price) => [price]],
  parts: [3, (price) => [price / 3n, price / 3n, price - 2n * (price / 3n)]],
  over: [2, (price) => [(price * 13n) / 10n]],
  twice: [1, (price) => [price, price]],
  'dust-then-rest': [1, (price) => [DUST_RAW, price - DUST_RAW]],
  'too-little-then-all': [1, (price) => [DUST_RAW - 1n, price]],
  'short-by-1': [1, (price) => [price - 1n]],
  half: [1, (price) => [price / 2n]],
  dust: [1, () => [DUST_RAW]],
  never: [1, () => []],
  late: [1, () => []],
  'wrong-address': [1, () => []],
  crumbs: [1, (price) => [price - 1n]],
} as const satisfies Record<string, readonly [number, (price: bigint) => bigint[]]>
export type Payment = keyof typeof PAYMENTS
/** Each way as often as it is to be chosen. */
export const PAYMENT_NAMES = (Object.keys(PAYMENTS) as Payment[]).flatMap((name) =>
  Array<Payment>(PAYMENTS[name][0]).fill(name),
)
/** The ways that pay in full, and in time. */
export const PAYS_ALL: readonly Payment[] = [
  'exact',
  'parts',
  'over',
  'twice',
  'dust-then-rest',
  'too-little-then-all',
]

const DELIVERIES = ['delivered', 'delivered', 'delivered', 'delivered', 'missed', 'in-a-hurry'] as const
const ANSWERS = ['accepted', 'accepted', 'silence', 'disputed'] as const
const REFUNDS = ['named', 'named', 'later', 'shared', 'never'] as const

/** Chooses, by the seed alone, who sells and buys and what each does. */
function choosePlan(world: Market, numbers: SeededNumbers) {
  const [seller, buyer] = numbers.shuffle(world.agents) as [Agent, Agent]
  return {
    seller,
    buyer,
    payment: numbers.pick(PAYMENT_NAMES),
    delivery: numbers.pick(DELIVERIES),
    answer: numbers.pick(ANSWERS),
    refund: numbers.pick(REFUNDS),
    priceUsd: numbers.between(1, 9),
    pauseMs: numbers.between(0, 1_500),
    dice: numbers.below(1_000),
  }
}
type Plan = ReturnType<typeof choosePlan>

/**
 * The hours that an offer gives for delivery. At `missed` the seller never delivers, so they end within a
 * run.
 */
const DELIVERY_HOURS = { delivered: 1, missed: 0.0012, 'in-a-hurry': 0.02 } as const

/** Plays an order from its offer to its end, as the seed has chosen it. */
export async function makeSale(world: Market, index: number, numbers: SeededNumbers): Promise<void> {
  const plan = choosePlan(world, numbers)
  if (plan.dice % 12 === 0 && world.mode.tricks.includes('own-addresses'))
    await tryVenueAddresses(world, plan)
  const sale = await placeOrder(world, plan, index)
  if (sale === undefined) return
  await payAsPlanned(world, sale, plan)
  const ended = await followOrder(world, sale, plan)
  if (ended === undefined) return
  if (plan.refund === 'later') await nameRefundAddress(world, sale, `later-${index}`)
  await waitUntilPaidOut(world, sale)
}

/** Makes an offer, orders it and closes it. @returns undefined if the offer or the order was refused */
async function placeOrder(
  world: Market,
  { seller, buyer, priceUsd, delivery, refund }: Plan,
  index: number,
): Promise<Sale | undefined> {
  const { coins } = world
  const sharesAddresses = refund === 'shared'
  const payoutAddress = coins.addressOf(sharesAddresses ? seller.name : `seller-${index}`)
  let refundAddress: string | undefined
  if (refund === 'named') refundAddress = coins.addressOf(`buyer-${index}`)
  else if (sharesAddresses) refundAddress = coins.addressOf(buyer.name)
  const offered = await world.ask(seller, 'offer', 'POST', '/market/offer', {
    title: `${index}`,
    description: 'as agreed',
    price_usd: priceUsd,
    delivery_hours: DELIVERY_HOURS[delivery],
    payout_addresses: { xno: payoutAddress },
  })
  if (offered.status !== 201) return undefined
  const offerId = String(offered.json['offer_id'])
  const ordered = await world.ask(buyer, 'order', 'POST', '/market/order', {
    offer_id: offerId,
    currency: 'xno',
    ...(refundAddress && { refund_address: refundAddress }),
  })
  await world.ask(seller, 'close-offer', 'POST', '/market/offer/close', { offer_id: offerId })
  if (ordered.status !== 201) return undefined
  const invoice = addInvoice(world, buyer, ordered.json['invoice'] as Record<string, unknown>)
  const id = String(ordered.json['order_id'])
  const addresses = { payoutAddress, refundAddress, sharesAddresses }
  const sale: Sale = { id, seller, buyer, invoice, ...addresses, isForgotten: false }
  world.sales.push(sale)
  count(world, 'orders')
  return sale
}

/** Pays the order's invoice in the way that was chosen; `late` waits for the order's end first. */
async function payAsPlanned(
  world: Market,
  sale: Sale,
  { payment, pauseMs, buyer, dice }: Plan,
): Promise<void> {
  const { address, amountRaw } = sale.invoice
  for (const raw of PAYMENTS[payment][1](amountRaw)) {
    await sleep(pauseMs)
    pay(world, buyer, address, raw)
  }
  if (payment === 'wrong-address') {
    const wrong = [
      world.treasury,
      ...world.invoices.filter(({ agent }) => agent !== buyer).map((other) => other.address),
    ]
    pay(world, buyer, wrong[dice % wrong.length] ?? address, amountRaw)
  }
  if (payment === 'late') {
    // Instead of expiring it may have been paid by another buyer, who chose its address as the wrong one.
    await until(world, `order ${sale.id} did not expire`, () =>
      readOrderIfStatus(world, sale, 'paid', 'disputed', ...ENDED),
    )
    pay(world, buyer, address, amountRaw)
  }
  if (payment === 'crumbs' && world.mode.tricks.includes('crumbs')) await payRemainder(world, sale)
}

/** Pays exactly what the service says remains to be paid, and checks that the invoice is settled by that. */
async function payRemainder(world: Market, { invoice, buyer }: Sale): Promise<void> {
  const read = (): Promise<InvoiceView | 'forgotten'> =>
    readInvoice(world, invoice).then((view) => view ?? 'forgotten')
  const counted = await until(world, `invoice ${invoice.id} does not count a payment`, async () => {
    const view = await read()
    return view === 'forgotten' || BigInt(view.paid_raw) > 0n ? view : undefined
  })
  if (counted === undefined || counted === 'forgotten') return
  if (counted.status === 'settled' || counted.status === 'expired') return
  pay(world, buyer, invoice.address, parseAmount(counted.remaining, 'xno'))
  await until(
    world,
    `invoice ${invoice.id} asks for ${counted.remaining} more, and does not count it`,
    async () => {
      const view = await read()
      if (view === 'forgotten' || view.status === 'settled') return true
      // If its time ended meanwhile, the payment is counted all the same, and owed to the buyer.
      return view.status === 'expired' && BigInt(view.paid_raw) > BigInt(counted.paid_raw) ? true : undefined
    },
  )
}

/**
 * Reads an order as its buyer.
 *
 * @returns the order if its status is one of those wanted, otherwise undefined; undefined, too, while the
 *   operator's mistaken payment of it stands; `forgotten` if a restore has taken the order away
 */
async function readOrderIfStatus(
  world: Market,
  sale: Sale,
  ...wanted: OrderView['status'][]
): Promise<OrderView | 'forgotten' | undefined> {
  const isMistaken = (): boolean => world.mistakenInvoiceId === sale.invoice.id
  // A mistaken payment cannot be taken back once the seller has delivered, so nobody goes on meanwhile.
  if (isMistaken()) return undefined
  const view = await readOrder(world, sale.buyer, sale.id)
  if (isMistaken()) return undefined
  if (view === undefined) {
    sale.isForgotten = sale.invoice.isForgotten = true
    return 'forgotten'
  }
  if (view.status === 'released') checkNotStuck(world, sale, await readPayouts(world, sale, 'seller'))
  return wanted.includes(view.status) ? view : undefined
}

const readPayouts = async (world: Market, sale: Sale, side: 'seller' | 'buyer'): Promise<PayoutView[]> =>
  (await readOrder(world, sale[side], sale.id))?.payouts ?? []

/**
 * Whether a payout is held, until the operator decides or other orders end, because its address is that of
 * several orders. After a restore, nobody can tell which of them an earlier send to it was for.
 */
const isHeldForSharedAddress = ({ sharesAddresses }: Sale, { state }: PayoutView): boolean =>
  sharesAddresses && state === 'held'

/** A deadline further away is not waited for: open orders are brought to their end after the run. */
const FAR_SECONDS = 120
const ENDED = ['paid_out', 'refunded', 'expired'] as const

/**
 * Waits until an order is paid or has ended; a paid one is delivered, and accepted or disputed, as planned.
 *
 * @returns the order in its last status; undefined if it was forgotten, is not waited for, or did not end in
 *   time
 */
async function followOrder(
  world: Market,
  sale: Sale,
  { payment, delivery, answer }: Plan,
): Promise<OrderView | undefined> {
  await sleep(PAYS_ALL.includes(payment) ? 0 : world.mode.payBySeconds * 1_000)
  const isNotPaid = `order ${sale.id}, paid ${payment}, is neither paid nor expired`
  const settled = await until(world, isNotPaid, () =>
    readOrderIfStatus(world, sale, 'paid', 'delivered', 'disputed', 'released', ...ENDED),
  )
  if (settled === undefined || settled === 'forgotten') return undefined
  if (settled.status !== 'paid') return settled
  const body = { order_id: sale.id }
  const deliverAndAnswer = async (): Promise<void> => {
    if (delivery === 'missed') return
    const delivered = await world.ask(sale.seller, 'deliver', 'POST', '/market/deliver', {
      ...body,
      delivery: `for ${sale.id}`,
    })
    if (delivered.status === 200) count(world, 'deliveries')
    if (answer === 'accepted') await world.ask(sale.buyer, 'accept', 'POST', '/market/accept', body)
    else if (answer === 'disputed')
      await world.ask(sale.buyer, 'dispute', 'POST', '/market/dispute', { ...body, reason: 'not as agreed' })
  }
  await deliverAndAnswer()
  const doesNotEnd = `order ${sale.id}, paid ${payment}, ${delivery} and ${answer}, does not end`
  const ended = await until(world, doesNotEnd, async () => {
    const seen = await readOrderIfStatus(world, sale, 'paid', 'delivered', 'released', ...ENDED)
    if (seen === undefined || seen === 'forgotten') return seen
    if (seen.status === 'released') {
      const payouts = await readPayouts(world, sale, 'seller')
      return payouts.some((payout) => isHeldForSharedAddress(sale, payout)) ? 'not waited for' : undefined
    }
    if (seen.status !== 'paid' && seen.status !== 'delivered') return seen
    // A restore has taken a step back, or an outage has put off a deadline by an hour.
    if (seen.status === 'paid') await deliverAndAnswer()
    const due = (seen.status === 'paid' ? seen.deliver_by : seen.accept_by) ?? 0
    return due - Date.now() / 1_000 > FAR_SECONDS ? 'not waited for' : undefined
  })
  return ended === 'forgotten' || ended === 'not waited for' ? undefined : ended
}

/** Names a refund address for an order, and notes the one that the service then has. */
async function nameRefundAddress(world: Market, sale: Sale, name: string): Promise<void> {
  const address = world.coins.addressOf(name)
  const answered = await world.ask(sale.buyer, 'refund-address', 'POST', '/market/refund-address', {
    order_id: sale.id,
    address,
  })
  // After a request without an answer, its repetition is refused if the first one had its effect.
  if (answered.status === 200) sale.refundAddress = address
  else
    sale.refundAddress = (await readOrder(world, sale.buyer, sale.id))?.refund_address ?? sale.refundAddress
}

/** Whether a payout was sent or can be: not frozen, with an address, and enough for a transaction. */
const isSendable = ({ state, frozen, address, amount_raw: raw }: PayoutView): boolean =>
  state !== 'owed' || (!frozen && address !== null && BigInt(raw) >= DUST_RAW)

/** Waits until all payouts of an order that can be sent have arrived, and checks that the order adds up. */
async function waitUntilPaidOut(world: Market, sale: Sale): Promise<void> {
  let waiting: string[] = []
  const book = await until(
    world,
    () => `of order ${sale.id} is not paid out: ${waiting.join(', ')}`,
    async () => {
      const payouts = [
        ...(await readPayouts(world, sale, 'seller')),
        ...(await readPayouts(world, sale, 'buyer')),
      ]
      checkNotStuck(world, sale, payouts)
      const open = payouts.filter(
        (payout) => isOpen(payout) && isSendable(payout) && !isHeldForSharedAddress(sale, payout),
      )
      waiting = open.map(({ payout_id: id, state, amount_raw: raw }) => `${id} ${state} ${raw}`)
      return open.length === 0 ? ((await readBook(world, sale)) ?? 'forgotten') : undefined
    },
  )
  if (book !== undefined && book !== 'forgotten') checkNone(world, findWrongInOrder(book))
}

/** Names the venue's own addresses as those of an offer and an order, and checks that both are refused. */
async function tryVenueAddresses(world: Market, { seller, buyer, dice }: Plan): Promise<void> {
  const venueAddresses = [world.treasury, ...world.invoices.slice(-5).map(({ address }) => address)].filter(
    (address) => address !== undefined,
  )
  const address = venueAddresses[dice % venueAddresses.length] ?? ''
  const checkRefused = (where: string, { status, error, json }: Answered): void => {
    count(world, `own address as ${where}: ${status}`)
    // A restore may have taken the offer away.
    const isRefused = (status === 400 && json['field'] !== undefined) || error === 'no_such_offer'
    check(
      world,
      // Without an answer, money that goes there is found in the chain.
      isRefused || status === 503 || status === undefined || world.mode.allowsOwnAddresses,
      `the venue's own address ${address} is taken as ${where}`,
    )
  }
  const body = { title: 'to yourself', description: 'as agreed', price_usd: 1, delivery_hours: 1 }
  const offer = (payoutAddress: string): Promise<Answered> =>
    world.ask(seller, 'offer', 'POST', '/market/offer', { ...body, payout_addresses: { xno: payoutAddress } })
  const offered = await offer(address)
  checkRefused('payout address', offered)
  const fair = await offer(world.coins.addressOf(seller.name))
  const order = { offer_id: fair.json['offer_id'], currency: 'xno', refund_address: address }
  checkRefused('refund address', await world.ask(buyer, 'order', 'POST', '/market/order', order))
  for (const { json } of [offered, fair])
    if (json['offer_id'] !== undefined)
      await world.ask(seller, 'close-offer', 'POST', '/market/offer/close', { offer_id: json['offer_id'] })
}
