/*
 * Accounts for all money at the end of a run, from the raw chain and the service's answers alone: every raw that came
 * in is days, remainder, owed, paid out, fee or unassigned.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DAY_MS } from '../../../shared/platform/time.ts'
import { sumRaw } from '../auditor/money.ts'
import { readLedger } from '../auditor/ledger.ts'
import { checkOrder, checkPassInvoice } from './books.ts'
import type { Block } from './chain.ts'
import {
  isOpen,
  xnoRow,
  readBook,
  readInvoice,
  type InvoiceView,
  type OrderBook,
  type PayoutView,
} from './views.ts'
import { readTreasury, treasurySends } from './watch.ts'
import { check, count, DUST_RAW, type KnownInvoice, type Sale, type World } from './world.ts'

const READ_AT_ONCE = 8
/** How often sums are read at most, a second apart: the service may show sums that are ten seconds old. */
const SOLVENCY_READINGS = 14
/** How far the clocks of the model and the service may be apart, rounding to seconds included. */
const SLACK_MS = 5_000

/** What the service says at one time, and the money on the chain. */
export interface Books {
  orders: { sale: Sale; book: OrderBook }[]
  passes: { known: KnownInvoice; invoice: InvoiceView }[]
  /** Of orders and passes. */
  invoices: { known: KnownInvoice; invoice: InvoiceView }[]
  payouts: PayoutView[]
  /** Money at each address: all sends to it that are not dust. */
  arrivals: ReadonlyMap<string, readonly Block[]>
}

/**
 * Reads everything that the agents know of. Orders and invoices that the network has forgotten are left out,
 * and marked `isForgotten` in the world.
 */
export async function readBooks(world: World): Promise<Books> {
  const [orders, passes]: [Books['orders'], Books['passes']] = [[], []]
  await forEachAtOnce(world.sales, async (sale) => {
    const book = await readBook(world, sale)
    sale.isForgotten = sale.invoice.isForgotten = book === undefined
    if (book !== undefined) orders.push({ sale, book })
  })
  const bought = world.invoices.filter(({ days }) => days !== undefined)
  await forEachAtOnce(bought, async (known) => {
    const invoice = await readInvoice(world, known)
    known.isForgotten = invoice === undefined
    if (invoice !== undefined) passes.push({ known, invoice })
  })
  const invoices = [
    ...orders.map(({ sale, book }) => ({ known: sale.invoice, invoice: book.invoice })),
    ...passes,
  ]
  const payouts = orders.flatMap(({ book }) => [...book.toSeller, ...book.toBuyer])
  const money = world.chain
    .allBlocks()
    .filter(({ kind, amountRaw }) => kind === 'send' && amountRaw >= DUST_RAW)
  return { orders, passes, invoices, payouts, arrivals: Map.groupBy(money, ({ to }) => to) }
}

/** Does `work` for all items, READ_AT_ONCE of them at a time. */
async function forEachAtOnce<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items]
  const workOff = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: READ_AT_ONCE }, workOff))
}

/** Lists what the service should still do by itself, a sentence each, sorted; empty when all is done. */
export function listLeftOver(world: World, { orders, invoices, payouts, arrivals }: Books): string[] {
  const now = (Date.now() - SLACK_MS) / 1_000
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
  for (const { known, invoice } of invoices) {
    const { status, expires_at: at, payments } = invoice
    const isLate = (status === 'awaiting_payment' || status === 'underpaid') && at < now
    if (isLate || status === 'confirming') left.push(`invoice ${known.id} is ${status} after its time`)
    const settled = new Set(payments.filter(({ state }) => state === 'settled').map(({ tx_hash: tx }) => tx))
    const came = arrivals.get(known.address) ?? []
    for (const { hash, amountRaw } of came.filter((block) => !settled.has(block.hash)))
      left.push(`payment ${hash} of ${amountRaw} raw to invoice ${known.id} is not counted`)
    let unswept = world.chain.balanceOf(known.address)
    for (const { receivedBy, amountRaw } of came) if (receivedBy === undefined) unswept += amountRaw
    if (unswept > 0n) left.push(`${unswept} raw at ${known.address} are not swept`)
    for (const { kind, hash, receivedBy } of world.chain.blocksOf(known.address))
      if (kind === 'send' && receivedBy === undefined)
        left.push(`sweep ${hash} is not received by the treasury`)
  }
  return left.sort()
}

/** Checks orders, passes, chain, ledger and totals against each other, at rest: no money may be moving. */
export async function checkBooks(world: World, books: Books): Promise<void> {
  for (const what of listLeftOver(world, books)) check(world, false, `in the end ${what}`)
  for (const { book } of books.orders) checkOrder(world, book)
  for (const { invoice } of books.passes) checkPassInvoice(world, invoice)
  checkPayments(world, books)
  const orphaned = checkSends(world, books)
  await checkAgents(world, books)
  await checkLedger(world, books)
  checkTotals(world, books, orphaned)
}

/**
 * Checks that each payment that an invoice counts is at its address in the chain, counted once and to the
 * raw.
 */
function checkPayments(world: World, { invoices, arrivals }: Books): void {
  for (const { known, invoice } of invoices) {
    const amountOf = new Map(
      (arrivals.get(known.address) ?? []).map((block) => [block.hash, block.amountRaw]),
    )
    const settled = invoice.payments.filter(({ state }) => state === 'settled')
    check(
      world,
      new Set(settled.map(({ tx_hash: tx }) => tx)).size === settled.length,
      `invoice ${known.id} counts a payment twice`,
    )
    for (const { tx_hash: tx, amount_raw: raw } of settled) {
      const what = `invoice ${known.id} counts ${raw} raw of ${tx}, and the chain has ${amountOf.get(tx) ?? 'nothing'} there`
      check(world, amountOf.get(tx) === BigInt(raw), what)
    }
  }
}

/**
 * Checks that every send out of the treasury is named by payouts whose sum it is, that each confirmed payout
 * has its send, and that invoices' money goes to the treasury only.
 *
 * @returns how many raw were sent for payouts that a restore has taken away
 */
function checkSends(world: World, { payouts }: Books): bigint {
  const sends = new Map(treasurySends(world).map((block) => [block.hash, block]))
  const named = payouts.filter(({ tx_hash: tx, state }) => tx !== null && state !== 'withdrawn')
  const byTx = Map.groupBy(named, ({ tx_hash: tx }) => tx)
  let orphaned = 0n
  for (const { hash, amountRaw, to } of sends.values()) {
    const naming = byTx.get(hash) ?? []
    // Payouts of a send before a restore may be of orders that it has taken away.
    const rest = amountRaw - sumRaw(naming)
    if (world.orphanedSends.has(hash)) orphaned += rest
    const isExplained = rest === 0n || (world.orphanedSends.has(hash) && rest > 0n)
    check(
      world,
      isExplained,
      `${hash} sent ${amountRaw} raw to ${to}, and the payouts that name it are ${sumRaw(naming)}`,
    )
    for (const { payout_id: id, address } of naming)
      check(world, address === to, `${hash} went to ${to}, and its payout ${id} is to ${address}`)
  }
  for (const { payout_id: id, state, tx_hash: tx } of payouts)
    check(
      world,
      state !== 'confirmed' || sends.has(tx ?? ''),
      `payout ${id} is confirmed by ${tx}, which is not in the chain`,
    )
  const accounts = new Set(world.invoices.map(({ address }) => address))
  for (const { account: from, kind, to, hash } of world.chain.allBlocks())
    if (kind === 'send' && accounts.has(from))
      check(world, to === world.treasury, `${hash} sends an invoice's money to ${to}`)
  return orphaned
}

/** Checks that what `/me` tells each agent is what its invoices and orders say. */
async function checkAgents(world: World, { orders, passes }: Books): Promise<void> {
  for (const agent of world.agents) {
    const { json } = await world.ask(agent, 'me', 'GET', '/me')
    let [moved, carried, days] = [0n, 0n, 0]
    for (const { invoice } of passes.filter(({ known }) => known.agent === agent)) {
      moved += BigInt(invoice.moved_raw)
      carried += BigInt(invoice.carried_raw)
      days += invoice.credited_days
    }
    check(
      world,
      moved === carried,
      `${agent.id} has ${moved} raw moved out of invoices and ${carried} carried in`,
    )
    // A pass that has never ended began when its first day was credited: in this run.
    const passUntil = String(json['pass_until'] ?? '')
    const beganAtMs = Date.parse(passUntil) - days * DAY_MS
    const isInRun = beganAtMs >= world.startedAtMs - SLACK_MS && beganAtMs <= Date.now() + SLACK_MS
    check(
      world,
      days === 0 ? passUntil === '' : isInRun,
      `${agent.id} bought ${days} days and has a pass until ${passUntil}`,
    )
    const payouts = orders.flatMap(({ sale, book: { toSeller, toBuyer } }) => {
      if (sale.seller === agent) return toSeller
      return sale.buyer === agent ? toBuyer : []
    })
    const told = xnoRow<{ currency: string; amount_raw: string }>(json['owed'])?.amount_raw ?? '0'
    const owed = sumRaw(payouts.filter(isOpen))
    check(
      world,
      BigInt(told) === owed,
      `${agent.id} is told that ${told} raw are owed to it, and its payouts are ${owed}`,
    )
  }
}

/**
 * Checks that the ledger has no gap, that it agrees with the orders on what each received and took as a fee
 * and on how far each payout is, and that the stated solvency is what the orders give.
 */
async function checkLedger(world: World, { orders, payouts }: Books): Promise<void> {
  const ledger = await readLedger(world.network.url)
  count(world, 'ledger entries', ledger.length)
  ledger.forEach(({ id }, index) =>
    check(world, id === index + 1, `the ledger has the entry ${id} in place ${index + 1}`),
  )
  /** Raw received or taken as a fee by the ledger, by kind and order: `fee ord_…`. */
  const totals = new Map<string, bigint>()
  const steps = new Map<unknown, unknown>()
  for (const { kind, data } of ledger) {
    if (kind === 'payout') steps.set(data['payout_id'], data['step'])
    if ((kind !== 'payment' && kind !== 'fee') || data['order_id'] === undefined) continue
    const [key, raw] = [`${kind} ${String(data['order_id'])}`, BigInt(String(data['amount_raw']))]
    const isReturned = kind === 'fee' && data['step'] === 'returned'
    totals.set(key, (totals.get(key) ?? 0n) + (isReturned ? -raw : raw))
  }
  let owed = 0n
  for (const { order, invoice, toSeller, toBuyer } of orders.map(({ book }) => book)) {
    const { order_id: id, fee_raw: fee, status } = order
    const [received, paid] = [totals.get(`payment ${id}`) ?? 0n, BigInt(invoice.paid_raw)]
    check(world, received === paid, `order ${id} received ${paid} raw, and the ledger says ${received}`)
    const [entered, taken] = [
      totals.get(`fee ${id}`) ?? 0n,
      status === 'released' || status === 'paid_out' ? BigInt(fee) : 0n,
    ]
    check(world, entered === taken, `order ${id} is ${status}, and the ledger has a fee of ${entered}`)
    owed +=
      paid -
      taken -
      sumRaw([...toSeller, ...toBuyer].filter(({ state }) => state === 'confirmed' || state === 'manual'))
  }
  for (const { payout_id: id, state } of payouts) {
    const [isPaid, step] = [state === 'confirmed' || state === 'manual', steps.get(id)]
    const agrees = isPaid ? step === state : step !== 'confirmed' && step !== 'manual'
    check(
      world,
      agrees,
      `payout ${id} is ${state}, and the last that the ledger says of it is ${String(step)}`,
    )
  }
  await checkSolvency(world, String(owed))
}

/**
 * Checks that the venue states that it owes and holds `owed` raw, and that its treasury is the same as
 * before.
 */
async function checkSolvency(world: World, owed: string): Promise<void> {
  let [statedOwed, statedHeld] = ['', '']
  for (let tries = 0; tries < SOLVENCY_READINGS; tries++) {
    if (statedOwed === owed && statedHeld === owed) break
    if (tries > 0) await sleep(1_000)
    const { json } = await world.ask(undefined, 'solvency', 'GET', '/market/solvency')
    statedOwed = xnoRow<{ currency: string; now_raw: string }>(json['owed'])?.now_raw ?? ''
    statedHeld = xnoRow<{ currency: string; held_raw: string }>(json['held'])?.held_raw ?? ''
  }
  check(
    world,
    statedOwed === owed,
    `the venue says that it owes ${statedOwed} raw, and its orders say ${owed}`,
  )
  check(
    world,
    statedHeld === owed,
    `the venue says that it holds ${statedHeld} raw, and its orders say ${owed}`,
  )
  await readTreasury(world)
}

/**
 * Checks that what came in less what went out is what the venue's accounts have, and that each raw is
 * accounted for.
 */
function checkTotals(world: World, { orders, passes, payouts }: Books, orphaned: bigint): void {
  const { chain, treasury } = world
  const accounts = new Set([
    ...world.invoices.map(({ address }) => address),
    ...(treasury === undefined ? [] : [treasury]),
  ])
  const sends = chain.allBlocks().filter(({ kind }) => kind === 'send')
  const total = (blocks: readonly Block[]): bigint =>
    blocks.reduce((all, { amountRaw }) => all + amountRaw, 0n)
  const came = sends.filter(({ account: from, to }) => accounts.has(to) && !accounts.has(from))
  const went = sends.filter(({ account: from, to }) => accounts.has(from) && !accounts.has(to))
  const [moneyIn, moneyOut] = [total(came), total(went)]
  const waiting = total(sends.filter(({ to, receivedBy }) => accounts.has(to) && receivedBy === undefined))
  const balance = [...accounts].reduce((all, address) => all + chain.balanceOf(address), 0n)
  const flow = `${moneyIn} came, ${moneyOut} went`
  check(
    world,
    balance + waiting === moneyIn - moneyOut,
    `the accounts have ${balance} and wait for ${waiting}: ${flow}`,
  )

  const remembered = new Set(
    world.invoices.filter(({ isForgotten }) => !isForgotten).map(({ address }) => address),
  )
  const unassigned = total(came.filter(({ to, amountRaw }) => !remembered.has(to) || amountRaw < DUST_RAW))
  const sold = passes.reduce((all, { invoice }) => all + BigInt(invoice.paid_raw), 0n)
  const received = orders.reduce((all, { book }) => all + BigInt(book.invoice.paid_raw), 0n)
  const named = `passes ${sold}, orders ${received}, unassigned ${unassigned}`
  check(world, sold + received + unassigned === moneyIn, `${moneyIn} raw came in: ${named}`)
  const hashes = new Set(went.map(({ hash }) => hash))
  const paidOut = sumRaw(
    payouts.filter(
      ({ state, tx_hash: tx }) => state === 'confirmed' || (state === 'manual' && hashes.has(tx ?? '')),
    ),
  )
  check(
    world,
    paidOut + orphaned === moneyOut,
    `${moneyOut} raw went out: paid out ${paidOut}, before a restore ${orphaned}`,
  )
  count(world, 'XNO in', Number(moneyIn / DUST_RAW) / 1e6)
  count(world, 'XNO out', Number(moneyOut / DUST_RAW) / 1e6)
  count(world, 'blocks', chain.allBlocks().length)
}
