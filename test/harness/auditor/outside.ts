/*
 * Accounts for all money from the raw chain and the service's answers alone: every raw that came in is days,
 * remainder, owed, paid out, fee or unassigned. Pure; nothing is taken from the database.
 */
import type { LedgerEntry } from '../../../shared/crypto/receipt.ts'
import { DAY_MS } from '../../../shared/platform/time.ts'
import type { Block } from '../testbed/chain.ts'
import { isOpen, xnoRow, type InvoiceView, type OrderBook, type PayoutView } from '../money/views.ts'
import { collectFindings, findingsOf, type Finding } from './finding.ts'
import { sumRaw } from './money.ts'

/** A sum below this counts for nothing (`/limits`). */
export const DUST_RAW = 10n ** 24n
/** How far the clocks of the harness and the service may be apart, rounding to seconds included. */
const SLACK_MS = 5_000

/** An invoice that an agent was given. */
export interface SeenInvoice {
  id: string
  address: string
  /** The agent's name. */
  by: string
  /** Whether the database was restored to a time before it. */
  isForgotten: boolean
}

/** What the service tells its agents of money at one time, and the chain. */
export interface SeenMarket {
  /** Since when agents trade, and when all this was read. */
  startedAtMs: number
  nowMs: number
  orders: { seller: string; buyer: string; known: SeenInvoice; book: OrderBook }[]
  passes: { known: SeenInvoice; invoice: InvoiceView }[]
  /** Every invoice that was given out. */
  given: SeenInvoice[]
  blocks: Block[]
  /** By address. */
  balances: Map<string, bigint>
  treasury: string | undefined
  /** Sends that were in the chain before the last restore: the database may not know them. */
  orphanedSends: Set<string>
  /** What `/me` tells each agent. */
  agents: { id: string; name: string; me: Record<string, unknown> }[]
  ledger: LedgerEntry[]
  /** What the venue says that it owes and holds, and its treasury. */
  stated: { owed: string; held: string; treasury: string | undefined }
}

const payoutsOf = ({ orders }: Pick<SeenMarket, 'orders'>): PayoutView[] =>
  orders.flatMap(({ book }) => [...book.toSeller, ...book.toBuyer])
/** The invoices of orders and passes. */
const invoicesOf = ({ orders, passes }: SeenMarket): SeenMarket['passes'] => [
  ...orders.map(({ known, book }) => ({ known, invoice: book.invoice })),
  ...passes,
]
/** Money at each address: all sends to it that are not dust. */
const arrivalsOf = ({ blocks }: SeenMarket): Map<string, Block[]> =>
  Map.groupBy(
    blocks.filter(({ kind, amountRaw }) => kind === 'send' && amountRaw >= DUST_RAW),
    ({ to }) => to,
  )
const totalOf = (blocks: readonly Block[]): bigint =>
  blocks.reduce((all, { amountRaw }) => all + amountRaw, 0n)

/** Lists what the service should still do by itself, a sentence each, sorted; empty when all is done. */
export function listLeftOver(seen: SeenMarket): string[] {
  const { orders, blocks, balances, nowMs } = seen
  const [payouts, arrivals, ofAccount] = [
    payoutsOf(seen),
    arrivalsOf(seen),
    Map.groupBy(blocks, ({ account }) => account),
  ]
  const now = (nowMs - SLACK_MS) / 1_000
  const left: string[] = []
  for (const { order } of orders.map(({ book }) => book)) {
    const { order_id: id, status, pay_by: payBy, deliver_by: deliverBy, accept_by: acceptBy } = order
    let deadline: number | null = null
    if (status === 'awaiting_payment') deadline = payBy
    else if (status === 'paid') deadline = deliverBy
    else if (status === 'delivered') deadline = acceptBy
    if (status === 'disputed' || status === 'released') left.push(`order ${id} is ${status}`)
    if (deadline !== null && deadline < now) left.push(`order ${id} is ${status} after its deadline`)
  }
  for (const { payout_id: id, state } of payouts.filter(
    (payout) => isOpen(payout) && payout.state !== 'owed',
  ))
    left.push(`payout ${id} is ${state}`)
  const sendable = payouts.filter(
    ({ state, frozen, address }) => state === 'owed' && !frozen && address !== null,
  )
  for (const toAddress of Map.groupBy(sendable, ({ address }) => address).values())
    if (sumRaw(toAddress) >= DUST_RAW)
      left.push(...toAddress.map(({ payout_id: id }) => `payout ${id} is owed and not sent`))
  for (const { known, invoice } of invoicesOf(seen)) {
    const { status, expires_at: at, payments } = invoice
    const isLate = (status === 'awaiting_payment' || status === 'underpaid') && at < now
    if (isLate || status === 'confirming') left.push(`invoice ${known.id} is ${status} after its time`)
    const settled = new Set(payments.filter(({ state }) => state === 'settled').map(({ tx_hash: tx }) => tx))
    const came = arrivals.get(known.address) ?? []
    for (const { hash, amountRaw } of came.filter((block) => !settled.has(block.hash)))
      left.push(`payment ${hash} of ${amountRaw} raw to invoice ${known.id} is not counted`)
    let unswept = balances.get(known.address) ?? 0n
    for (const { receivedBy, amountRaw } of came) if (receivedBy === undefined) unswept += amountRaw
    if (unswept > 0n) left.push(`${unswept} raw at ${known.address} are not swept`)
    for (const { kind, hash, receivedBy } of ofAccount.get(known.address) ?? [])
      if (kind === 'send' && receivedBy === undefined)
        left.push(`sweep ${hash} is not received by the treasury`)
  }
  return left.sort()
}

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
export function findWrongInOrder({ order, invoice, toSeller, toBuyer }: OrderBook): string[] {
  const wrong: string[] = []
  const { order_id: id, status, disputed_by: disputedBy } = order
  const [amount, fee, received] = [BigInt(order.amount_raw), BigInt(order.fee_raw), BigInt(invoice.paid_raw)]
  const [seller, buyer] = [owedOrPaid(toSeller), owedOrPaid(toBuyer)]
  const shares = `received ${received}, to its seller ${seller}, to its buyer ${buyer}, fee ${fee}, price ${amount}`
  /** Checks one rule. @param what what is wrong with the order if it does not hold */
  const mustHold = (holds: boolean, what: string): void => {
    if (!holds) wrong.push(`order ${id} is ${status} and ${what}: ${shares}`)
  }
  if (status === 'disputed' && disputedBy === 'chain') {
    mustHold(paidOut(toSeller) + paidOut(toBuyer) <= received, 'has paid out more than it received')
    return wrong
  }
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
  return wrong
}

/**
 * Checks that what was paid and carried into an invoice of days is equal to its days at their price, what is
 * left, and what moved on to another invoice.
 */
export function findWrongInPass(invoice: InvoiceView): string[] {
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
  const wrong: string[] = []
  if (sumRaw(settled) !== BigInt(paid))
    wrong.push(`invoice ${id} is paid ${paid}, and its payments are ${sumRaw(settled)}`)
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
  if (unnamed >= days || unnamed <= -DUST_RAW * days) wrong.push(`invoice ${id} does not add up: ${what}`)
  return wrong
}

/** Checks that each payment that an invoice counts is at its address in the chain, once and to the raw. */
export function checkPayments(seen: SeenMarket): Finding[] {
  const { findings, addFinding } = collectFindings()
  const arrivals = arrivalsOf(seen)
  for (const { known, invoice } of invoicesOf(seen)) {
    const amountOf = new Map(
      (arrivals.get(known.address) ?? []).map((block) => [block.hash, block.amountRaw]),
    )
    const settled = invoice.payments.filter(({ state }) => state === 'settled')
    if (new Set(settled.map(({ tx_hash: tx }) => tx)).size !== settled.length)
      addFinding(`invoice ${known.id} counts a payment twice`, known.id)
    for (const { tx_hash: tx, amount_raw: raw } of settled)
      if (amountOf.get(tx) !== BigInt(raw))
        addFinding(
          `invoice ${known.id} counts ${raw} raw of ${tx}, and the chain has ${amountOf.get(tx) ?? 'nothing'} there`,
          ...[known.id, tx],
        )
  }
  return findings
}

/** The treasury's confirmed sends, with the payouts that name each. */
function sendsOf(seen: SeenMarket): { block: Block; naming: PayoutView[]; restRaw: bigint }[] {
  const named = payoutsOf(seen).filter(({ tx_hash: tx, state }) => tx !== null && state !== 'withdrawn')
  const byTx = Map.groupBy(named, ({ tx_hash: tx }) => tx)
  return seen.blocks
    .filter(({ account, kind, isConfirmed }) => account === seen.treasury && kind === 'send' && isConfirmed)
    .map((block) => {
      const naming = byTx.get(block.hash) ?? []
      return { block, naming, restRaw: block.amountRaw - sumRaw(naming) }
    })
}

/**
 * Checks that every send out of the treasury is named by payouts whose sum it is, that each confirmed payout has
 * its send, and that invoices' money goes to the treasury only.
 */
export function checkSends(seen: SeenMarket): Finding[] {
  const { findings, addFinding } = collectFindings()
  const sends = sendsOf(seen)
  for (const { block, naming, restRaw } of sends) {
    const { hash, amountRaw, to } = block
    // Payouts of a send before a restore may be of orders that it has taken away.
    const isExplained = restRaw === 0n || (seen.orphanedSends.has(hash) && restRaw > 0n)
    if (!isExplained)
      addFinding(
        `${hash} sent ${amountRaw} raw to ${to}, and the payouts that name it are ${sumRaw(naming)}`,
        hash,
      )
    for (const { payout_id: id, address } of naming)
      if (address !== to) addFinding(`${hash} went to ${to}, and its payout ${id} is to ${address}`, hash, id)
  }
  const sent = new Set(sends.map(({ block }) => block.hash))
  for (const { payout_id: id, state, tx_hash: tx } of payoutsOf(seen))
    if (state === 'confirmed' && !sent.has(tx ?? ''))
      addFinding(`payout ${id} is confirmed by ${tx}, which is not in the chain`, id)
  const accounts = new Set(seen.given.map(({ address }) => address))
  for (const { account: from, kind, to, hash } of seen.blocks)
    if (kind === 'send' && accounts.has(from) && to !== seen.treasury)
      addFinding(`${hash} sends an invoice's money to ${to}`, hash)
  return findings
}

/** Checks that what `/me` tells each agent is what its invoices and orders say. */
export function checkAgents({ agents, orders, passes, startedAtMs, nowMs }: SeenMarket): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const { id, name, me } of agents) {
    let [moved, carried, days] = [0n, 0n, 0]
    for (const { invoice } of passes.filter(({ known }) => known.by === name)) {
      moved += BigInt(invoice.moved_raw)
      carried += BigInt(invoice.carried_raw)
      days += invoice.credited_days
    }
    if (moved !== carried)
      addFinding(`${id} has ${moved} raw moved out of invoices and ${carried} carried in`, id)
    // A pass that has never ended began when its first day was credited: in this run.
    const passUntil = String(me['pass_until'] ?? '')
    const beganAtMs = Date.parse(passUntil) - days * DAY_MS
    const isInRun = beganAtMs >= startedAtMs - SLACK_MS && beganAtMs <= nowMs + SLACK_MS
    if (!(days === 0 ? passUntil === '' : isInRun))
      addFinding(`${id} bought ${days} days and has a pass until ${passUntil}`, id)
    const payouts = orders.flatMap(({ seller, buyer, book: { toSeller, toBuyer } }) => {
      if (seller === name) return toSeller
      return buyer === name ? toBuyer : []
    })
    const told = xnoRow<{ currency: string; amount_raw: string }>(me['owed'])?.amount_raw ?? '0'
    const owed = sumRaw(payouts.filter(isOpen))
    if (BigInt(told) !== owed)
      addFinding(`${id} is told that ${told} raw are owed to it, and its payouts are ${owed}`, id)
  }
  return findings
}

const isPaidOut = ({ state }: PayoutView): boolean => state === 'confirmed' || state === 'manual'

/** The fee that the venue has taken of an order, in raw. */
const feeTaken = ({ order: { status, fee_raw: fee } }: OrderBook): bigint =>
  status === 'released' || status === 'paid_out' ? BigInt(fee) : 0n

/** What the venue owes for orders, by what it says of each, in raw. */
export const owedFor = ({ orders }: Pick<SeenMarket, 'orders'>): bigint =>
  orders.reduce(
    (owed, { book }) =>
      owed +
      BigInt(book.invoice.paid_raw) -
      feeTaken(book) -
      sumRaw([...book.toSeller, ...book.toBuyer].filter(isPaidOut)),
    0n,
  )

/**
 * Checks that the ledger has no gap, and agrees with the orders on what each received and took as a fee and on
 * how far each payout is.
 */
export function checkLedger(seen: SeenMarket): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const [index, { id }] of seen.ledger.entries())
    if (id !== index + 1) addFinding(`the ledger has the entry ${id} in place ${index + 1}`)
  /** Raw received or taken as a fee by the ledger, by kind and order: `fee ord_…`. */
  const totals = new Map<string, bigint>()
  const steps = new Map<unknown, unknown>()
  for (const { kind, data } of seen.ledger) {
    if (kind === 'payout') steps.set(data['payout_id'], data['step'])
    if ((kind !== 'payment' && kind !== 'fee') || data['order_id'] === undefined) continue
    const [key, raw] = [`${kind} ${String(data['order_id'])}`, BigInt(String(data['amount_raw']))]
    const isReturned = kind === 'fee' && data['step'] === 'returned'
    totals.set(key, (totals.get(key) ?? 0n) + (isReturned ? -raw : raw))
  }
  for (const { book } of seen.orders) {
    const { order_id: id, status } = book.order
    const [received, paid] = [totals.get(`payment ${id}`) ?? 0n, BigInt(book.invoice.paid_raw)]
    if (received !== paid) addFinding(`order ${id} received ${paid} raw, and the ledger says ${received}`, id)
    const entered = totals.get(`fee ${id}`) ?? 0n
    if (entered !== feeTaken(book))
      addFinding(`order ${id} is ${status}, and the ledger has a fee of ${entered}`, id)
  }
  for (const payout of payoutsOf(seen)) {
    const { payout_id: id, state } = payout
    const step = steps.get(id)
    const agrees = isPaidOut(payout) ? step === state : step !== 'confirmed' && step !== 'manual'
    if (!agrees)
      addFinding(`payout ${id} is ${state}, and the last that the ledger says of it is ${String(step)}`, id)
  }
  return findings
}

/** Checks that the venue states that it owes and holds what the orders give, and the same treasury as before. */
export function checkStated(seen: SeenMarket): Finding[] {
  const { findings, addFinding } = collectFindings()
  const { owed, held, treasury } = seen.stated
  const given = String(owedFor(seen))
  if (owed !== given) addFinding(`the venue says that it owes ${owed} raw, and its orders say ${given}`)
  if (held !== given) addFinding(`the venue says that it holds ${held} raw, and its orders say ${given}`)
  if (treasury !== seen.treasury) addFinding(`the treasury was ${seen.treasury} and is ${treasury}`)
  return findings
}

/** What came to the venue's accounts from elsewhere, and what went from them to others. */
export function flowOf({ blocks, given, treasury }: SeenMarket): {
  accounts: Set<string>
  came: Block[]
  went: Block[]
} {
  const accounts = new Set([
    ...given.map(({ address }) => address),
    ...(treasury === undefined ? [] : [treasury]),
  ])
  const sends = blocks.filter(({ kind }) => kind === 'send')
  return {
    accounts,
    came: sends.filter(({ account: from, to }) => accounts.has(to) && !accounts.has(from)),
    went: sends.filter(({ account: from, to }) => accounts.has(from) && !accounts.has(to)),
  }
}

/**
 * Checks that what came in less what went out is what the venue's accounts have, and that each raw is accounted
 * for.
 */
export function checkTotals(seen: SeenMarket): Finding[] {
  const { findings, addFinding } = collectFindings()
  const { accounts, came, went } = flowOf(seen)
  const [moneyIn, moneyOut] = [totalOf(came), totalOf(went)]
  const waiting = totalOf(
    seen.blocks.filter(
      ({ kind, to, receivedBy }) => kind === 'send' && accounts.has(to) && receivedBy === undefined,
    ),
  )
  const balance = [...accounts].reduce((all, address) => all + (seen.balances.get(address) ?? 0n), 0n)
  if (balance + waiting !== moneyIn - moneyOut)
    addFinding(`the accounts have ${balance} and wait for ${waiting}: ${moneyIn} came, ${moneyOut} went`)
  const remembered = new Set(
    seen.given.filter(({ isForgotten }) => !isForgotten).map(({ address }) => address),
  )
  const unassigned = totalOf(came.filter(({ to, amountRaw }) => !remembered.has(to) || amountRaw < DUST_RAW))
  const sold = seen.passes.reduce((all, { invoice }) => all + BigInt(invoice.paid_raw), 0n)
  const received = seen.orders.reduce((all, { book }) => all + BigInt(book.invoice.paid_raw), 0n)
  if (sold + received + unassigned !== moneyIn)
    addFinding(`${moneyIn} raw came in: passes ${sold}, orders ${received}, unassigned ${unassigned}`)
  const hashes = new Set(went.map(({ hash }) => hash))
  const paidOut = sumRaw(
    payoutsOf(seen).filter(
      ({ state, tx_hash: tx }) => state === 'confirmed' || (state === 'manual' && hashes.has(tx ?? '')),
    ),
  )
  const orphaned = sendsOf(seen)
    .filter(({ block }) => seen.orphanedSends.has(block.hash))
    .reduce((all, { restRaw }) => all + restRaw, 0n)
  if (paidOut + orphaned !== moneyOut)
    addFinding(`${moneyOut} raw went out: paid out ${paidOut}, before a restore ${orphaned}`)
  return findings
}

export const checkLeftOver = (seen: SeenMarket): Finding[] =>
  findingsOf(listLeftOver(seen).map((what) => `in the end ${what}`))

export const checkOrders = ({ orders }: SeenMarket): Finding[] =>
  findingsOf(orders.flatMap(({ book }) => findWrongInOrder(book)))

export const checkDays = ({ passes }: SeenMarket): Finding[] =>
  findingsOf(passes.flatMap(({ invoice }) => findWrongInPass(invoice)))
