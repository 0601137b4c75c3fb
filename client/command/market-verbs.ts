import type { Offer, CreateOrderBody, Order, OrderSummary } from '../client.ts'
import { given } from '../given.ts'
import { openFrom, sealFor, type Opened } from '../messages.ts'
import { usageError } from './command-error.ts'
import { tryToPublishDmKey } from './dm-key.ts'
import { formatFork, messagingOf, openMessaging, UNSEALED_KEY } from './message-verbs.ts'
import { formatFields, formatList, formatTime, formatTimeLeft, toOneLine, indent } from './format.ts'
import type { Session } from './session.ts'
import { verifySolvency } from '../solvency.ts'
import { EXIT_CODES } from '../verify/report.ts'
import {
  LIMIT_OPTION,
  defineCall,
  defineVerb,
  flagOption,
  textOption,
  type Verb,
  type VerbOutput,
} from './verb.ts'
import { trustOf, VERIFY_OPTIONS, type VerifyOptions } from './verification.ts'

export const marketVerbs: readonly Verb[] = [
  defineCall({
    name: 'market offers',
    formerly: 'offers',
    options: { agent: textOption('AGENT_ID', 'of this agent only'), limit: LIMIT_OPTION },
    help: 'What is offered on the market, newest first',
    isOpen: true,
    call: ({ client, options }) => client.offers(options),
    text: ({ offers }) => formatList(offers, formatOffer, 'No offers.'),
  }),
  defineCall({
    name: 'market offer',
    formerly: 'offer',
    words: ['TITLE', 'DESCRIPTION'],
    options: {
      price: textOption('USD', 'from 1 to 5000, with at most 2 decimals'),
      hours: textOption('H', 'how long you have to deliver, from the payment on; 24 if absent'),
      xno: textOption('ADDRESS', 'where you are paid in Nano'),
      xmr: textOption('ADDRESS', 'where you are paid in Monero'),
    },
    help: 'Offer something for sale; DESCRIPTION may be - for stdin',
    call: async ({ client, words: [title, text], options: { price, hours = '24', ...payout }, session }) =>
      client.makeOffer({
        title,
        description: await session.readText(text),
        price_usd: readNumber('--price', price),
        delivery_hours: readNumber('--hours', hours),
        payout_addresses: given(payout),
      }),
    text: ({ offer_id: id }) => `Offered as ${id}.`,
  }),
  defineCall({
    name: 'market close',
    formerly: 'close-offer',
    words: ['OFFER_ID'],
    help: 'Close an offer of yours; orders made from it run on',
    call: ({ client, words: [id] }) => client.closeOffer({ offer_id: id }),
    text: ({ offer_id: id }) => `Closed ${id}.`,
  }),
  defineCall({
    name: 'market order',
    formerly: 'order',
    words: ['OFFER_ID'],
    options: {
      currency: textOption('C', 'xno or xmr; the first that is ready if absent'),
      'refund-address': textOption('ADDRESS', 'where you are paid what you are owed; it can be named later'),
    },
    help: 'Order from an offer: gives an invoice to pay',
    async call({ client, words: [id], options: { currency, 'refund-address': address }, session }) {
      await tryToPublishDmKey(session, client, 'order') // what is delivered is sealed to it
      return client.placeOrder({
        offer_id: id,
        // Any text is sent: the service says which currencies it knows.
        ...given({ currency: currency as CreateOrderBody['currency'], refund_address: address }),
      })
    },
    text({ order_id: id, invoice, order }) {
      const fields = formatFields({
        order: id,
        pay: `${invoice.amount} ${invoice.currency}`,
        to: toOneLine(invoice.address),
        uri: toOneLine(invoice.uri),
        by: formatTime(order.pay_by),
        'refund address': order.refund_address ?? 'none; "refund-address" names one',
      })
      return `${fields}\n"market orders ${id}" shows where it stands.`
    },
  }),
  defineVerb({
    name: 'market orders',
    formerly: 'orders',
    words: ['[ORDER_ID]'],
    options: { limit: LIMIT_OPTION, 'unsealed-key': UNSEALED_KEY },
    help: 'Your orders, bought and sold, those that wait for you first; or one of them with its delivery, opened',
    async run({ words: [orderId], options, session }) {
      const { client } = await session.authenticate()
      if (orderId !== undefined) return showOrder(session, orderId, options['unsealed-key'])
      const answer = await client.orders({ limit: options.limit })
      return { answer, text: answer.count === 0 ? 'No orders.' : formatByTurn(answer.orders) }
    },
  }),
  defineCall({
    name: 'market deliver',
    formerly: 'deliver',
    words: ['ORDER_ID', 'TEXT'],
    options: {
      plain: flagOption(
        'send it as it is, for the operator to read; else it is sealed to the key on the card of the buyer',
      ),
      'accept-key': textOption('KEY', 'seal to this key, although another one was seen before on the card'),
      'unsealed-key': UNSEALED_KEY,
    },
    help: 'Deliver an order, sealed so that its buyer alone can read it; TEXT may be - for stdin',
    async call({ client, words: [id, text], options, session }) {
      const content = await session.readText(text)
      const delivery = options.plain ? content : await sealForBuyer(session, id, content, options)
      return client.deliver({ order_id: id, delivery })
    },
    text: ({ order }) =>
      `Delivered; the buyer has until ${formatTime(order.accept_by ?? 0)} to accept or to dispute.`,
  }),
  defineCall({
    name: 'market accept',
    formerly: 'accept',
    words: ['ORDER_ID'],
    help: 'Accept what was delivered: the seller is owed the price without the fee',
    call: ({ client, words: [id] }) => client.acceptDelivery({ order_id: id }),
    text: ({ order_id: id, status }) => `Accepted; ${id} is ${status}.`,
  }),
  defineCall({
    name: 'market dispute',
    formerly: 'dispute',
    words: ['ORDER_ID', 'REASON'],
    help: 'Dispute what was delivered: the operator decides; REASON may be - for stdin',
    call: async ({ client, words: [id, reason], session }) =>
      client.dispute({ order_id: id, reason: await session.readText(reason) }),
    text: ({ order_id: id }) => `Disputed; the operator decides ${id}.`,
  }),
  defineCall({
    name: 'market refund-address',
    formerly: 'refund-address',
    words: ['ORDER_ID', 'ADDRESS'],
    help: 'Name, once, where you are paid what you are owed for an order',
    call: ({ client, words: [id, address] }) => client.setRefundAddress({ order_id: id, address }),
    text: ({ order_id: id, order }) =>
      `What you are owed for ${id} goes to ${toOneLine(order.refund_address ?? '')}.`,
  }),
  defineVerb({
    name: 'solvency',
    options: {
      verify: flagOption(
        'verify the ledger, the accounts and the proofs, in one line; exit code as of "seals"',
      ),
      'nano-rpc': textOption('URL', 'of a Nano node that you trust; NANO_RPC if absent'),
      'monero-rpc': textOption(
        'URL',
        'of a monero-wallet-rpc of yours, with any wallet; MONERO_RPC if absent',
      ),
      ...VERIFY_OPTIONS,
    },
    help: 'What the venue owes and what it holds; with --verify, whether that is so',
    async run({ options, session }) {
      if (options.verify) return verifySums(session, options)
      const answer = await session.client.solvency()
      const lines = answer.owed.map(({ currency, now }) => {
        const held = answer.held.find((sum) => sum.currency === currency)
        return `${currency}: owed ${now}, held ${held?.held ?? '0'}`
      })
      return {
        answer,
        text: [
          ...lines,
          ...answer.nano_accounts.map(({ kind, address }) => `${kind} ${toOneLine(address)}`),
        ].join('\n'),
      }
    },
  }),
]

/** Verifies what the venue states; for a registered agent, also that its own money is in it. */
async function verifySums(
  session: Session,
  options: VerifyOptions & { 'nano-rpc': string | undefined; 'monero-rpc': string | undefined },
): Promise<VerbOutput> {
  const known = session.findIdentity() === undefined ? undefined : await session.authenticate()
  const { text, ...answer } = await verifySolvency({
    client: known?.client ?? session.client,
    trust: trustOf(session, options),
    nanoRpc: options['nano-rpc'] ?? session.nodes.nanoRpc,
    moneroRpc: options['monero-rpc'] ?? session.nodes.moneroRpc,
    agentId: known?.identity.agent_id,
  })
  return { answer: { ...answer, text }, text, exitCode: EXIT_CODES[answer.verdict] }
}

/** An option's text as a number; the service checks its bounds. @throws CommandError `usage` */
function readNumber(flag: string, text: string | undefined): number {
  if (text === undefined || !/^\d{1,6}(\.\d{1,6})?$/.test(text))
    throw usageError(`${flag} expected a number, such as 2.5.`)
  return Number(text)
}

/**
 * Seals a delivery to its order's buyer, and gives the box. Before that, it makes the seller's message key if
 * there is none and puts it on the seller's card: otherwise the buyer could not tell who sealed the delivery.
 *
 * @throws MessageKeyError if there is no key to seal to
 */
async function sealForBuyer(
  session: Session,
  orderId: string,
  plaintext: string,
  options: { 'accept-key': string | undefined; 'unsealed-key': boolean },
): Promise<string> {
  const { client } = await session.authenticate()
  const { order } = await client.order(orderId)
  const messaging = await openMessaging(session, 'deliver', options['unsealed-key'])
  return sealFor({ ...messaging, to: order.buyer_id, orderId, plaintext, acceptKey: options['accept-key'] })
}

/** Fetches an order and formats it; for its buyer with the delivery opened. */
async function showOrder(session: Session, orderId: string, unsealedKey: boolean) {
  const { client } = await session.authenticate()
  const answer = await client.order(orderId)
  const { order } = answer
  const opened = order.role === 'buyer' ? await openDelivery(session, orderId, order, unsealedKey) : undefined
  return {
    answer: { ...answer, ...(opened === undefined ? {} : { opened }) },
    text: formatOrder(order, opened),
  }
}

/** Opens the delivery of an order; undefined if there is none, or it is not sealed. */
async function openDelivery(
  session: Session,
  orderId: string,
  { seller_id: from, delivery: box }: Order,
  unsealedKey: boolean,
): Promise<Opened | undefined> {
  if (box === null) return undefined
  const opened = await openFrom({ ...(await messagingOf(session, unsealedKey)), from, box, orderId })
  return 'problem' in opened && opened.problem.error === 'not_a_box' ? undefined : opened
}

function formatOffer(offer: Offer): string {
  const price = `${offer.price_usd} USD in ${offer.currencies.join(' or ')}, delivered within ${offer.delivery_hours} h`
  return `${offer.offer_id}  ${offer.agent_id}  ${price}  ${toOneLine(offer.title)}\n${indent(offer.description)}`
}

function formatSummary(order: OrderSummary): string {
  const { order_id: id, role, amount, currency, status } = order
  return `${id}  ${role}  ${amount} ${currency}  ${status}${formatNextStep(order)}  ${toOneLine(order.title)}`
}

/** What happens next to an order, by whom and until when; nothing if it is over. */
function formatNextStep({ next_transition: next }: OrderSummary): string {
  if (next === null) return ''
  const step = `, then ${next.to ?? 'the decision'} by the ${next.actor}`
  if (next.at === null) return step
  return `${step} at ${formatTime(next.at)}, ${formatTimeLeft(next.at - Date.now() / 1000)}`
}

/** Who has to act in each state; in the others it is the operator, the service or the chain, or nobody. */
const TURNS: Readonly<Partial<Record<OrderSummary['status'], OrderSummary['role']>>> = {
  awaiting_payment: 'buyer',
  paid: 'seller',
  delivered: 'buyer',
}

/** The orders that wait for you first, then those that wait for others, then what is over; the most urgent first. */
function formatByTurn(orders: readonly OrderSummary[]): string {
  const groupOf = ({ role, status, next_transition: next }: OrderSummary): string => {
    if (next === null) return 'Over:'
    return TURNS[status] === role ? 'Your turn:' : 'The turn of others:'
  }
  const endOf = ({ next_transition: next }: OrderSummary): number => next?.at ?? Number.MAX_SAFE_INTEGER
  const sorted = orders.toSorted((a, b) => endOf(a) - endOf(b))
  return ['Your turn:', 'The turn of others:', 'Over:']
    .flatMap((group) => {
      const members = sorted.filter((order) => groupOf(order) === group)
      return members.length === 0 ? [] : [group, ...members.map((order) => `  ${formatSummary(order)}`)]
    })
    .join('\n')
}

/** All of an order, with its delivery: opened if it could be. */
function formatOrder(order: Order, opened: Opened | undefined): string {
  const payouts = order.payouts.map(
    ({ amount, currency, state, address, frozen }) =>
      `${amount} ${currency}, ${state}${frozen ? ', frozen' : ''}${address === null ? ', waits for a refund address' : ''}`,
  )
  return [
    formatSummary(order),
    formatFields({
      offer: order.offer_id,
      buyer: order.buyer_id,
      seller: order.seller_id,
      'pay to':
        order.status === 'awaiting_payment' && order.invoice !== null
          ? toOneLine(order.invoice.uri)
          : undefined,
      'put off':
        order.extensions.length === 0
          ? undefined
          : `${order.extensions.length} times, for outages of the API`,
      'owed to you': payouts.length === 0 ? undefined : payouts.join('; '),
      disputed: order.dispute_reason === null ? undefined : toOneLine(order.dispute_reason),
    }),
    ...(order.delivery === null ? [] : ['Delivered:', formatDelivery(order.delivery, opened)]),
  ].join('\n')
}

/** What was delivered, indented; if it was opened, with notes on whose key and ledger it rests. */
function formatDelivery(delivery: string, opened: Opened | undefined): string {
  if (opened === undefined) return indent(delivery)
  if ('problem' in opened)
    return `  (sealed, and not opened, ${opened.problem.error}: ${toOneLine(opened.problem.message)})`
  let notes = ''
  if (opened.sender_key === 'changed')
    notes += '  (sealed with a key that the seller did not have before and you have not accepted)\n'
  if (opened.sender_key === 'unsealed') notes += '  (sealed with a key that no signed seal bears out yet)\n'
  if (opened.first_form === true)
    notes +=
      '  (an older form of box, which does not name its order: it may be a message that the seller sent you before)\n'
  return `${notes}${formatFork(opened)}${indent(opened.text)}`
}
