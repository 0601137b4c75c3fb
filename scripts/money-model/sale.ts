import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import type { Agent } from '../torture/agent.ts'
import type { Answered } from '../torture/client.ts'
import { checkOrder } from './books.ts'
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
import { check, count, DUST_RAW, isWanted, addInvoice, pay, until, type Sale, type World } from './world.ts'

/** What is sent for a price, and how often so among all. */
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
export const PAYMENT_NAMES = (Object.keys(PAYMENTS) as Payment[]).flatMap((name) =>
  Array<Payment>(PAYMENTS[name][0]).fill(name),
)
/** Those that pay in full, and in time. */
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

/** Everything that is chosen for an order before it is made, by the seed alone. */
function plan(world: World, numbers: SeededNumbers) {
  const [seller, buyer] = numbers.shuffle(world.agents) as [Agent, Agent]
  return {
    ...{
      seller,
      buyer,
      payment: numbers.pick(PAYMENT_NAMES),
      delivery: numbers.pick(DELIVERIES),
      answer: numbers.pick(ANSWERS),
    },
    ...{
      refund: numbers.pick(REFUNDS),
      priceUsd: numbers.between(1, 9),
      pauseMs: numbers.between(0, 1_500),
      dice: numbers.below(1_000),
    },
  }
}
type Plan = ReturnType<typeof plan>

/**
 * Hours in which the seller delivers: no limit that matters, or so few that a run outlasts them if the seller
 * never delivers.
 */
const HOURS = { delivered: 1, missed: 0.0012, 'in-a-hurry': 0.02 } as const

/** An order from its offer to its end, as the seed has chosen it. */
export async function makeSale(world: World, index: number, numbers: SeededNumbers): Promise<void> {
  const chosen = plan(world, numbers)
  if (chosen.dice % 12 === 0 && isWanted(world, 'own-addresses')) await tryVenueAddresses(world, chosen)
  const sale = await order(world, chosen, index)
  if (sale === undefined) return
  await payAsPlanned(world, sale, chosen)
  const end = await followOrder(world, sale, chosen)
  if (end === undefined) return
  if (chosen.refund === 'later') await nameRefundAddress(world, sale, `later-${index}`)
  await waitUntilPaidOut(world, sale)
}

async function order(
  world: World,
  { seller, buyer, priceUsd, delivery, refund }: Plan,
  index: number,
): Promise<Sale | undefined> {
  const { chain } = world
  const sharesAddresses = refund === 'shared'
  const payoutAddress = chain.addressOf(sharesAddresses ? seller.name : `seller-${index}`)
  const refundAddress =
    refund === 'named'
      ? chain.addressOf(`buyer-${index}`)
      : sharesAddresses
        ? chain.addressOf(buyer.name)
        : undefined
  const offered = await world.ask(seller, 'offer', 'POST', '/market/offer', {
    ...{ title: `${index}`, description: 'as agreed', price_usd: priceUsd, delivery_hours: HOURS[delivery] },
    payout_addresses: { xno: payoutAddress },
  })
  if (offered.status !== 201) return undefined
  const offerId = String(offered.json['offer_id'])
  const ordered = await world.ask(buyer, 'order', 'POST', '/market/order', {
    ...{ offer_id: offerId, currency: 'xno', ...(refundAddress && { refund_address: refundAddress }) },
  })
  await world.ask(seller, 'close-offer', 'POST', '/market/offer/close', { offer_id: offerId })
  if (ordered.status !== 201) return undefined
  const invoice = addInvoice(world, buyer, ordered.json['invoice'] as Record<string, unknown>)
  const sale = { seller, buyer, invoice, payoutAddress, refundAddress, sharesAddresses, isForgotten: false }
  const made: Sale = { id: String(ordered.json['order_id']), ...sale }
  world.sales.push(made)
  count(world, 'orders')
  return made
}

async function payAsPlanned(
  world: World,
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
    // Somebody else may have paid it by mistake, as those do who pay to a wrong address.
    await until(world, `order ${sale.id} did not expire`, () =>
      readIfStatus(world, sale, 'paid', 'disputed', ...ENDED),
    )
    pay(world, buyer, address, amountRaw)
  }
  if (payment === 'crumbs' && isWanted(world, 'crumbs')) await payRemainder(world, sale)
}

/** The service says what remains to be paid; who pays exactly that is done. */
async function payRemainder(world: World, { invoice, buyer }: Sale): Promise<void> {
  const read = (): Promise<InvoiceView | 'forgotten'> =>
    readInvoice(world, invoice).then((view) => view ?? 'forgotten')
  const counted = await until(world, `invoice ${invoice.id} does not count a payment`, async () => {
    const view = await read()
    return view === 'forgotten' || BigInt(view.paid_raw) > 0n ? view : undefined
  })
  if (counted === undefined || counted === 'forgotten') return
  if (counted.status === 'settled' || counted.status === 'expired') return
  pay(world, buyer, invoice.address, toRaw(counted.remaining))
  await until(
    world,
    `invoice ${invoice.id} asks for ${counted.remaining} more, and does not count it`,
    async () => {
      const view = await read()
      if (view === 'forgotten' || view.status === 'settled') return true
      // Its time was over in between: then it is counted all the same, and owed to the buyer.
      return view.status === 'expired' && BigInt(view.paid_raw) > BigInt(counted.paid_raw) ? true : undefined
    },
  )
}

function toRaw(amount: string): bigint {
  const [whole = '0', fraction = ''] = amount.split('.')
  return BigInt(whole + fraction.padEnd(30, '0'))
}

async function readIfStatus(
  world: World,
  sale: Sale,
  ...wanted: OrderView['status'][]
): Promise<OrderView | 'forgotten' | undefined> {
  const isMistaken = (): boolean => world.mistakenInvoiceId === sale.invoice.id
  // What is delivered meanwhile could not be taken back: nobody is so quick here.
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

const readPayouts = async (world: World, sale: Sale, side: 'seller' | 'buyer'): Promise<PayoutView[]> =>
  (await readOrder(world, sale[side], sale.id))?.payouts ?? []

/**
 * After a restore a send to an address of several orders may be of one that is forgotten, which nobody can
 * tell before all of them have ended: what is owed there is held until then.
 */
const waitsForOperator = ({ sharesAddresses }: Sale, { state }: PayoutView): boolean =>
  sharesAddresses && state === 'held'

/** A deadline that is so far away is not waited for; open orders are brought to their end after the run. */
const FAR_SECONDS = 120
const ENDED = ['paid_out', 'refunded', 'expired'] as const

/**
 * Delivery, acceptance, dispute or silence, until nothing more happens.
 *
 * @returns undefined if it is forgotten or takes too long
 */
async function followOrder(
  world: World,
  sale: Sale,
  { payment, delivery, answer }: Plan,
): Promise<OrderView | undefined> {
  const see = async (what: string, ...wanted: OrderView['status'][]): Promise<OrderView | undefined> => {
    const seen = await until(world, `order ${sale.id}, paid ${payment}, ${what}`, () =>
      readIfStatus(world, sale, ...wanted),
    )
    return seen === 'forgotten' ? undefined : seen
  }
  await sleep(PAYS_ALL.includes(payment) ? 0 : world.mode.payBySeconds * 1_000)
  const settled = await see(
    'is neither paid nor expired',
    'paid',
    'delivered',
    'disputed',
    'released',
    ...ENDED,
  )
  if (settled === undefined || settled.status !== 'paid') return settled
  const body = { order_id: sale.id }
  const act = async (): Promise<void> => {
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
  await act()
  const what = `order ${sale.id}, paid ${payment}, ${delivery} and ${answer}, does not end`
  const end = await until(world, what, async () => {
    const seen = await readIfStatus(world, sale, 'paid', 'delivered', 'released', ...ENDED)
    if (seen !== undefined && seen !== 'forgotten' && seen.status === 'released')
      return (await readPayouts(world, sale, 'seller')).some((payout) => waitsForOperator(sale, payout))
        ? 'left'
        : undefined
    if (seen === undefined || seen === 'forgotten' || (seen.status !== 'paid' && seen.status !== 'delivered'))
      return seen
    // A restore has taken a step back, or an outage has put off a deadline by an hour.
    if (seen.status === 'paid') await act()
    const due = (seen.status === 'paid' ? seen.deliver_by : seen.accept_by) ?? 0
    return due - Date.now() / 1_000 > FAR_SECONDS ? ('left' as const) : undefined
  })
  return end === 'forgotten' || end === 'left' ? undefined : end
}

async function nameRefundAddress(world: World, sale: Sale, name: string): Promise<void> {
  const address = world.chain.addressOf(name)
  const answered = await world.ask(sale.buyer, 'refund-address', 'POST', '/market/refund-address', {
    order_id: sale.id,
    address,
  })
  // One that was not answered may have been heard, and is refused when it is said again.
  if (answered.status === 200) sale.refundAddress = address
  else
    sale.refundAddress = (await readOrder(world, sale.buyer, sale.id))?.refund_address ?? sale.refundAddress
}

/** Payouts of an order that can be sent: to an address, and enough for a transaction of its own. */
const isSendable = ({ state, frozen, address, amount_raw: raw }: PayoutView): boolean =>
  state !== 'owed' || (!frozen && address !== null && BigInt(raw) >= DUST_RAW)

/** What is owed arrives, and then the order adds up. */
async function waitUntilPaidOut(world: World, sale: Sale): Promise<void> {
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
        (payout) => isOpen(payout) && isSendable(payout) && !waitsForOperator(sale, payout),
      )
      waiting = open.map(({ payout_id: id, state, amount_raw: raw }) => `${id} ${state} ${raw}`)
      return open.length === 0 ? ((await readBook(world, sale)) ?? 'forgotten') : undefined
    },
  )
  if (book !== undefined && book !== 'forgotten') checkOrder(world, book)
}

/** The venue's own addresses, as places to be paid at: money sent there would come back or be lost. */
async function tryVenueAddresses(world: World, { seller, buyer, dice }: Plan): Promise<void> {
  const own = [world.treasury, ...world.invoices.slice(-5).map(({ address }) => address)].filter(
    (address) => address !== undefined,
  )
  const address = own[dice % own.length] ?? ''
  const tell = (where: string, { status, error, json }: Answered): void => {
    count(world, `own address as ${where}: ${status}`)
    // A restore may have taken the offer away.
    const isRefused = (status === 400 && json['field'] !== undefined) || error === 'no_such_offer'
    check(
      world,
      // Without an answer it is the chain that tells, if money goes there.
      isRefused || status === 503 || status === undefined || world.mode.allowsOwnAddresses,
      `the venue's own address ${address} is taken as ${where}`,
    )
  }
  const body = { title: 'to yourself', description: 'as agreed', price_usd: 1, delivery_hours: 1 }
  const offer = (payoutAddress: string): Promise<Answered> =>
    world.ask(seller, 'offer', 'POST', '/market/offer', { ...body, payout_addresses: { xno: payoutAddress } })
  const offered = await offer(address)
  tell('payout address', offered)
  const fair = await offer(world.chain.addressOf(seller.name))
  const order = { offer_id: fair.json['offer_id'], currency: 'xno', refund_address: address }
  tell('refund address', await world.ask(buyer, 'order', 'POST', '/market/order', order))
  for (const { json } of [offered, fair])
    if (json['offer_id'] !== undefined)
      await world.ask(seller, 'close-offer', 'POST', '/market/offer/close', { offer_id: json['offer_id'] })
}
