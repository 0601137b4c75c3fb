import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import type { Agent } from '../torture/agent.ts'
import { checkOrder, readBook, readInvoice } from './books.ts'
import { isOpen, sum, type OrderView, type PayoutView } from './views.ts'
import { check, count, DUST_RAW, isWanted, noteInvoice, pay, readOrder, until, type Sale, type World } from './world.ts'

/** How a price is paid, and how often so among all. */
const PAYMENTS = {
  exact: 12,
  parts: 3,
  over: 2,
  twice: 1,
  'short-by-1': 1,
  half: 1,
  'dust-then-rest': 1,
  'too-little-then-all': 1,
  late: 1,
  never: 1,
  'to-another-invoice': 1,
  'to-the-treasury': 1,
  crumbs: 1,
} as const
export type Payment = keyof typeof PAYMENTS
const DELIVERIES = { delivered: 8, missed: 2, 'almost-missed': 1 } as const
const ANSWERS = { accepted: 5, silence: 2, disputed: 3 } as const
const REFUNDS = { named: 5, later: 2, never: 1, shared: 2 } as const

export function choose<Name extends string>(numbers: SeededNumbers, weights: Readonly<Record<Name, number>>): Name {
  const names = Object.keys(weights) as Name[]
  return numbers.pick(names.flatMap((name) => Array<Name>(weights[name]).fill(name)))
}

/** Everything that is chosen for an order before it is made, by the seed alone. */
function plan(world: World, numbers: SeededNumbers) {
  const [seller, buyer] = numbers.shuffle(world.agents) as [Agent, Agent]
  return {
    ...{ seller, buyer, payment: choose(numbers, PAYMENTS), delivery: choose(numbers, DELIVERIES) },
    ...{ answer: choose(numbers, ANSWERS), refund: choose(numbers, REFUNDS), priceUsd: numbers.between(1, 9) },
    ...{ parts: numbers.between(2, 4), pauseMs: numbers.between(0, 1_500), tricks: numbers.below(12), numbers },
  }
}
type Plan = ReturnType<typeof plan>

/** Hours in which the seller delivers: none, or some that pass within a run where it does not. */
const HOURS = { delivered: 1, missed: 0.0012, 'almost-missed': 0.02 } as const

/** An order from its offer to its end, as the seed has chosen it. */
export async function makeSale(world: World, index: number, numbers: SeededNumbers): Promise<void> {
  const chosen = plan(world, numbers)
  if (chosen.tricks === 0 && isWanted(world, 'own-addresses')) await tryOwnAddresses(world, chosen)
  const sale = await order(world, chosen, index)
  if (sale === undefined) return
  await payAsPlanned(world, sale, chosen)
  const end = await carryOut(world, sale, chosen)
  if (end === undefined) return
  if (chosen.refund === 'later') await nameRefundAddress(world, sale, `later-${index}`)
  await seeItPaid(world, sale)
}

async function order(world: World, { seller, buyer, priceUsd, delivery, refund }: Plan, index: number): Promise<Sale | undefined> {
  const { coins } = world.chain
  const sharesAddresses = refund === 'shared'
  const payoutAddress = coins.addressOf(sharesAddresses ? seller.name : `seller-${index}`)
  const refundAddress = refund === 'named' ? coins.addressOf(`buyer-${index}`) : sharesAddresses ? coins.addressOf(buyer.name) : undefined
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
  const invoice = noteInvoice(world, buyer, ordered.json['invoice'] as Record<string, unknown>)
  const sale = { seller, buyer, invoice, payoutAddress, refundAddress, sharesAddresses, isForgotten: false }
  const made: Sale = { id: String(ordered.json['order_id']), ...sale }
  world.sales.push(made)
  count(world, 'orders')
  return made
}

async function payAsPlanned(world: World, sale: Sale, { payment, parts, pauseMs, buyer, numbers }: Plan): Promise<void> {
  const { invoice } = sale
  const { address, amountRaw } = invoice
  const send = (raw: bigint): void => void pay(world, buyer, address, raw)
  await sleep(pauseMs)
  switch (payment) {
    case 'exact':
      return send(amountRaw)
    case 'over':
      return send((amountRaw * 13n) / 10n)
    case 'twice':
      send(amountRaw)
      return send(amountRaw)
    case 'half':
      return send(amountRaw / 2n)
    case 'short-by-1':
      return send(amountRaw - 1n)
    case 'parts':
      for (let part = 1; part < parts; part++) {
        send(amountRaw / BigInt(parts))
        await sleep(pauseMs / 2)
      }
      return send(amountRaw - (amountRaw / BigInt(parts)) * BigInt(parts - 1))
    case 'dust-then-rest':
      send(DUST_RAW)
      return send(amountRaw - DUST_RAW)
    case 'too-little-then-all':
      send(DUST_RAW - 1n)
      return send(amountRaw)
    case 'never':
      return
    case 'late':
      await until(
        world,
        () => `order ${sale.id} did not expire`,
        [sale.id],
        () => whenStatus(world, sale, 'expired'),
      )
      return send(amountRaw)
    case 'to-the-treasury':
      if (world.treasury !== undefined) pay(world, buyer, world.treasury, amountRaw)
      return
    case 'to-another-invoice': {
      const others = world.invoices.filter(({ agent }) => agent !== buyer)
      return void pay(world, buyer, others.length === 0 ? address : numbers.pick(others).address, amountRaw)
    }
    case 'crumbs':
      send(amountRaw - 1n)
      return isWanted(world, 'crumbs') ? payWhatIsAsked(world, sale) : undefined
  }
}

/** The service says what remains to be paid; who pays exactly that is done. */
async function payWhatIsAsked(world: World, sale: Sale): Promise<void> {
  const { id } = sale.invoice
  const counted = async () => {
    const view = await readInvoice(world, sale.invoice)
    return view === undefined || BigInt(view.paid_raw) > 0n ? { view } : undefined
  }
  const found = await until(world, () => `invoice ${id} does not count a payment`, [id, sale.id], counted)
  if (found?.view === undefined || found.view.status === 'settled') return
  pay(world, sale.buyer, sale.invoice.address, toRaw(found.view.remaining))
  await until(
    world,
    () => `invoice ${id} asks for ${found.view?.remaining}, and does not count it`,
    [id, sale.id],
    async () => {
      const view = await readInvoice(world, sale.invoice)
      return view === undefined || view.status === 'settled' ? true : undefined
    },
  )
}

function toRaw(amount: string): bigint {
  const [whole = '0', fraction = ''] = amount.split('.')
  return BigInt(whole + fraction.padEnd(30, '0'))
}

async function whenStatus(world: World, sale: Sale, ...wanted: OrderView['status'][]): Promise<OrderView | 'forgotten' | undefined> {
  const view = await readOrder(world, sale.buyer, sale.id)
  if (view === undefined) {
    sale.isForgotten = sale.invoice.isForgotten = true
    return 'forgotten'
  }
  return wanted.includes(view.status) ? view : undefined
}

/** A deadline that is so far away is not waited for; open orders are brought to their end after the run. */
const FAR_SECONDS = 120
const ENDED = ['paid_out', 'refunded', 'expired'] as const

/** Delivery, acceptance, dispute or silence, until nothing more happens. @returns undefined if it is forgotten or takes too long */
async function carryOut(world: World, sale: Sale, { payment, delivery, answer }: Plan): Promise<OrderView | undefined> {
  const words = [sale.id, sale.invoice.id]
  const see = async (what: string, ...wanted: OrderView['status'][]): Promise<OrderView | undefined> => {
    const seen = await until(
      world,
      () => `order ${sale.id}, paid ${payment}, ${what}`,
      words,
      () => whenStatus(world, sale, ...wanted),
    )
    return seen === 'forgotten' ? undefined : seen
  }
  await sleep(
    ['never', 'half', 'short-by-1', 'to-the-treasury', 'to-another-invoice'].includes(payment) ? world.mode.payBySeconds * 1_000 : 0,
  )
  const settled = await see('is neither paid nor expired', 'paid', 'delivered', 'disputed', 'released', ...ENDED)
  if (settled === undefined || settled.status !== 'paid') return settled
  const body = { order_id: sale.id }
  const act = async (): Promise<void> => {
    if (delivery === 'missed') return
    const delivered = await world.ask(sale.seller, 'deliver', 'POST', '/market/deliver', { ...body, delivery: `for ${sale.id}` })
    if (delivered.status === 200) count(world, 'deliveries')
    if (answer === 'accepted') await world.ask(sale.buyer, 'accept', 'POST', '/market/accept', body)
    else if (answer === 'disputed') await world.ask(sale.buyer, 'dispute', 'POST', '/market/dispute', { ...body, reason: 'not as agreed' })
  }
  await act()
  const what = (): string => `order ${sale.id}, paid ${payment}, ${delivery} and ${answer}, does not end`
  const end = await until(world, what, words, async () => {
    const seen = await whenStatus(world, sale, 'paid', 'delivered', ...ENDED)
    if (seen === undefined || seen === 'forgotten' || (seen.status !== 'paid' && seen.status !== 'delivered')) return seen
    // A restore has taken a step back, or an outage has put off a deadline by an hour.
    if (seen.status === 'paid') await act()
    const due = (seen.status === 'paid' ? seen.deliver_by : seen.accept_by) ?? 0
    return due - Date.now() / 1_000 > FAR_SECONDS ? ('left' as const) : undefined
  })
  return end === 'forgotten' || end === 'left' ? undefined : end
}

async function nameRefundAddress(world: World, sale: Sale, name: string): Promise<void> {
  const address = world.chain.coins.addressOf(name)
  const answered = await world.ask(sale.buyer, 'refund-address', 'POST', '/market/refund-address', { order_id: sale.id, address })
  if (answered.status === 200) sale.refundAddress = address
}

/** Payouts of an order that can be sent: to an address, and enough for a transaction of its own. */
const isSendable = ({ state, frozen, address, amount_raw: raw }: PayoutView): boolean =>
  state !== 'owed' || (!frozen && address !== null && BigInt(raw) >= DUST_RAW)

/** What is owed arrives, and then the order adds up. */
async function seeItPaid(world: World, sale: Sale): Promise<void> {
  let waiting: PayoutView[] = []
  const book = await until(
    world,
    () =>
      `of order ${sale.id} ${sum(waiting)} raw are not paid out: ${waiting.map(({ payout_id: id, state }) => `${id} ${state}`).join(', ')}`,
    [sale.id],
    async () => {
      const read = await readBook(world, sale)
      if (read === undefined) return 'forgotten' as const
      waiting = [...read.toSeller, ...read.toBuyer].filter((payout) => isOpen(payout) && isSendable(payout))
      return waiting.length === 0 ? read : undefined
    },
  )
  if (book === undefined || book === 'forgotten') return
  checkOrder(world, sale, book)
}

/** The venue's own addresses, as places to be paid at: money sent there would come back or be lost. */
async function tryOwnAddresses(world: World, { seller, buyer, numbers }: Plan): Promise<void> {
  const own = [world.treasury, ...world.invoices.slice(-5).map(({ address }) => address)].filter((address) => address !== undefined)
  if (own.length === 0) return
  const address = numbers.pick(own)
  const tell = (where: string, status: number | undefined, field: unknown): void => {
    count(world, `own address as ${where}: ${status}`)
    if (world.mode.allowsOwnAddresses) return
    const isRefused = status === 400 && typeof field === 'string'
    check(world, isRefused, `the venue's own address is taken as ${where}`, address)
  }
  const body = { title: 'to yourself', description: 'as agreed', price_usd: 1, delivery_hours: 1 }
  const offered = await world.ask(seller, 'offer-own', 'POST', '/market/offer', { ...body, payout_addresses: { xno: address } })
  tell('payout address', offered.status, offered.json['field'])
  const fair = await world.ask(seller, 'offer', 'POST', '/market/offer', {
    ...{ ...body, payout_addresses: { xno: world.chain.coins.addressOf(seller.name) } },
  })
  const ordered = await world.ask(buyer, 'order-own', 'POST', '/market/order', {
    ...{ offer_id: fair.json['offer_id'], currency: 'xno', refund_address: address },
  })
  if (ordered.status !== 503) tell('refund address', ordered.status, ordered.json['field'])
  for (const { json } of [offered, fair])
    if (json['offer_id'] !== undefined)
      await world.ask(seller, 'close-offer', 'POST', '/market/offer/close', { offer_id: json['offer_id'] })
}
