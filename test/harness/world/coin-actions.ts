import { SECOND_MS } from '../../../shared/platform/time.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { ask, nextMarker, type Agent, type World } from './agent.ts'
import { fateOf } from './history.ts'
import type { Action } from './actions.ts'
import { payOnRecord } from '../testbed/coins.ts'

type PaidCoin = 'xno' | 'xmr'

/** An invoice that an agent received, for pass days or an order. */
export interface KnownInvoice {
  id: string
  coin: PaidCoin
  address: string
  amountRaw: bigint
  by: string
}

/** A market order that the agents know of. */
export interface KnownOrder {
  id: string
  seller: string
  buyer: string
  invoice: KnownInvoice
}

/** How much of an invoice's amount an agent pays at once, drawn from these. */
const PERCENTAGES = [100, 100, 100, 100, 50, 50, 130]

/** A random item; undefined from an empty list. */
function pick<T>(agent: Agent, items: readonly T[]): T | undefined {
  return items.length === 0 ? undefined : items[agent.numbers.below(items.length)]
}

/** Pays a part of an invoice's amount to its address, over the coin's network directly; in Monero soon. */
function pay(world: World, agent: Agent, invoice: KnownInvoice, percent: number): void {
  const { coins, monero, history } = world
  if (coins === undefined) return
  const amountRaw = (invoice.amountRaw * BigInt(percent)) / 100n
  const payment = { who: agent.name, address: invoice.address, invoiceId: invoice.id }
  if (invoice.coin === 'xmr') monero?.pay({ ...payment, amountPico: amountRaw })
  else payOnRecord(coins, history, { ...payment, amountRaw })
}

/** Monero for every other one, if the network has it. */
const drawCoin = (world: World, agent: Agent): PaidCoin =>
  world.monero !== undefined && agent.numbers.below(2) === 0 ? 'xmr' : 'xno'

/** An agent's addresses in the coins that the network has. */
async function addressesOf({ coins, monero }: World, { name }: Agent): Promise<Record<string, string>> {
  return {
    ...(coins && { xno: coins.addressOf(name) }),
    ...(monero && { xmr: await monero.addressOf(name) }),
  }
}

const toInvoice = (json: Record<string, unknown>, by: string): KnownInvoice => ({
  id: String(json['invoice_id']),
  coin: json['currency'] === 'xmr' ? 'xmr' : 'xno',
  address: String(json['address']),
  amountRaw: BigInt(String(json['amount_raw'])),
  by,
})

/** Buys a day in a coin, again and again until an invoice is given. @throws TimeoutError if none is */
export async function buyDay(world: World, agent: Agent, coin: PaidCoin): Promise<void> {
  const buy = async (): Promise<KnownInvoice | undefined> => {
    const body = { currency: coin, days: 1 }
    const answer = await ask(world, agent, 'coin-invoice', 'POST', '/invoice', { body })
    return fateOf(answer) === 'yes' ? toInvoice(answer.json, agent.name) : undefined
  }
  const invoice = await waitFor(`an invoice in ${coin}`, buy, { limitMs: 120_000, everyMs: SECOND_MS })
  world.invoices.push(invoice)
  pay(world, agent, invoice, 100)
}

const coinInvoice: Action = {
  name: 'coin-invoice',
  weight: 8,
  async run(world, agent) {
    const answer = await ask(world, agent, 'coin-invoice', 'POST', '/invoice', {
      body: { currency: drawCoin(world, agent), days: agent.numbers.between(1, 3) },
    })
    if (fateOf(answer) !== 'yes') return
    const invoice = toInvoice(answer.json, agent.name)
    if (!world.invoices.some(({ id }) => id === invoice.id)) world.invoices.push(invoice)
    if (agent.numbers.below(4) > 0) pay(world, agent, invoice, agent.numbers.pick(PERCENTAGES))
  },
}

const checkInvoice: Action = {
  name: 'check-invoice',
  weight: 8,
  async run(world, agent) {
    const own = world.invoices.filter(({ by }) => by === agent.name)
    const invoice = pick(agent, own.slice(-4))
    if (invoice === undefined) return
    if (agent.numbers.below(4) === 0) pay(world, agent, invoice, 50)
    await ask(world, agent, 'check-invoice', 'POST', '/invoice/check', { body: { invoice_id: invoice.id } })
  },
}

const offer: Action = {
  name: 'offer',
  weight: 4,
  async run(world, agent) {
    if (world.coins === undefined) return
    const marker = nextMarker(agent)
    const body = {
      title: marker,
      description: 'as agreed',
      price_usd: agent.numbers.between(1, 9),
      // A few seconds, so that deadlines pass within the run.
      delivery_hours: agent.numbers.below(2) === 0 ? 0.003 : 1,
      payout_addresses: await addressesOf(world, agent),
    }
    const { status, json } = await ask(world, agent, 'offer', 'POST', '/market/offer', { body, marker })
    if (status === 201) world.offers.push({ id: String(json['offer_id']), by: agent.name })
  },
}

const order: Action = {
  name: 'order',
  weight: 8,
  async run(world, agent) {
    const { coins, offers } = world
    const about = pick(agent, offers.slice(-8))
    if (coins === undefined || about === undefined) return
    const coin = drawCoin(world, agent)
    const refund =
      agent.numbers.below(3) === 0 ? {} : { refund_address: (await addressesOf(world, agent))[coin] }
    const { status, json } = await ask(world, agent, 'order', 'POST', '/market/order', {
      body: { offer_id: about.id, currency: coin, ...refund },
    })
    if (status !== 201) return
    const invoice = toInvoice(json['invoice'] as Record<string, unknown>, agent.name)
    world.orders.push({ id: String(json['order_id']), seller: about.by, buyer: agent.name, invoice })
    world.invoices.push(invoice)
    if (agent.numbers.below(5) > 0) pay(world, agent, invoice, agent.numbers.pick(PERCENTAGES))
  },
}

const marketStep: Action = {
  name: 'market-step',
  weight: 16,
  async run(world, agent) {
    const { coins, orders } = world
    const about = pick(
      agent,
      orders.filter(({ seller, buyer }) => seller === agent.name || buyer === agent.name).slice(-6),
    )
    if (coins === undefined || about === undefined) return
    const isSeller = about.seller === agent.name
    const dice = agent.numbers.below(12)
    /** Sends a step of the order; `times` as often at the same time, to as many API processes. */
    const send = (name: string, fields: object, times = 1) =>
      Promise.all(
        Array.from({ length: times }, (_, api) =>
          ask(world, agent, name, 'POST', `/market/${name}`, {
            body: { order_id: about.id, ...fields },
            api,
          }),
        ),
      )
    if (dice === 0) await ask(world, agent, 'read-order', 'GET', `/market/order/${about.id}`)
    else if (dice === 1) await ask(world, agent, 'read-orders', 'GET', '/market/orders')
    else if (isSeller) await send('deliver', { delivery: `for ${about.id}` }, dice < 4 ? 2 : 1)
    else if (dice < 4) {
      const { [about.invoice.coin]: address } = await addressesOf(world, agent)
      await send('refund-address', { address })
    } else if (dice < 6) await send('dispute', { reason: 'not as agreed' })
    // Sometimes twice at once, which must accept once.
    else await send('accept', {}, dice < 8 ? 2 : 1)
  },
}

const readMarket: Action = {
  name: 'read-market',
  weight: 4,
  async run(world, agent) {
    await ask(
      world,
      agent,
      'read',
      'GET',
      agent.numbers.pick(['/market/offers', '/market', '/market/solvency', '/currencies', '//market/offers']),
    )
  },
}

/** What agents do besides on a network with a coin. */
export const COIN_ACTIONS: readonly Action[] = [
  coinInvoice,
  checkInvoice,
  offer,
  order,
  marketStep,
  readMarket,
]
