/*
 * The accounts at the end, from the raw chain and the service's answers alone: every raw that came in is days, remainder,
 * owed, paid out, fee or unassigned.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DAY_MS } from '../../shared/time.ts'
import { checkOrder, checkPassInvoice, readBook, readInvoice, type OrderBook } from './books.ts'
import type { Block } from './chain.ts'
import { isOpen, sum, type Entry, type InvoiceView, type PayoutView } from './views.ts'
import { readTreasury, sendsOf } from './watch.ts'
import { check, count, DUST_RAW, type KnownInvoice, type Sale, type World } from './world.ts'

const LEDGER_PAGE = 10_000
/** Sums that are kept for ten seconds are asked for until they are of now. */
const SOLVENCY_READINGS = 14

export interface Books {
  orders: { sale: Sale; book: OrderBook }[]
  passes: { known: KnownInvoice; invoice: InvoiceView }[]
}

/** Reads everything that the agents know of; what the network has forgotten is marked so. */
export async function readBooks(world: World): Promise<Books> {
  const books: Books = { orders: [], passes: [] }
  for (const sale of world.sales) {
    const book = await readBook(world, sale)
    sale.isForgotten = sale.invoice.isForgotten = book === undefined
    if (book !== undefined) books.orders.push({ sale, book })
  }
  for (const known of world.invoices.filter(({ days }) => days !== undefined)) {
    const invoice = await readInvoice(world, known)
    known.isForgotten = invoice === undefined
    if (invoice !== undefined) books.passes.push({ known, invoice })
  }
  return books
}

/** What should still move by itself; empty when all is done. */
export function findLeftOver(world: World, { orders, passes }: Books): string[] {
  const now = Date.now() / 1_000 - 3
  const arrivals = arrivalsAt(world)
  const payouts = orders.flatMap(({ book }) => [...book.toSeller, ...book.toBuyer])
  const toAddress = Map.groupBy(
    payouts.filter(({ state, frozen, address }) => state === 'owed' && !frozen && address !== null),
    ({ address }) => address,
  )
  const invoices = [...orders.map(({ sale, book }) => ({ known: sale.invoice, invoice: book.invoice })), ...passes]
  const unswept = invoices.flatMap(({ known }) => unsweptAt(world, known.address, arrivals))
  return [
    ...orders.flatMap(({ book: { order } }) => {
      const { status, pay_by: payBy, deliver_by: deliverBy, accept_by: acceptBy, order_id: id } = order
      const due = { awaiting_payment: payBy, paid: deliverBy, delivered: acceptBy }[status as 'paid']
      if (status === 'disputed' || status === 'released') return [`order ${id} is ${status}`]
      return due !== undefined && due !== null && due < now ? [`order ${id} is ${status} after its deadline`] : []
    }),
    ...payouts.filter((payout) => isOpen(payout) && payout.state !== 'owed').map(({ payout_id: id, state }) => `payout ${id} is ${state}`),
    ...[...toAddress.values()]
      .filter((own) => sum(own) >= DUST_RAW)
      .flatMap((own) => own.map(({ payout_id: id }) => `payout ${id} is owed and not sent`)),
    ...invoices
      .filter(({ invoice: { status, expires_at: at } }) => (status === 'awaiting_payment' || status === 'underpaid') && at < now)
      .map(({ invoice: { invoice_id: id, status } }) => `invoice ${id} is ${status} after its time`),
    ...invoices.filter(({ invoice: { status } }) => status === 'confirming').map(({ known }) => `invoice ${known.id} is confirming`),
    ...invoices.flatMap(({ known, invoice }) =>
      (arrivals.get(known.address) ?? [])
        .filter(({ hash }) => !invoice.payments.some((payment) => payment.tx_hash === hash && payment.state === 'settled'))
        .map(({ hash, amountRaw }) => `payment ${hash} of ${amountRaw} raw to invoice ${known.id} is not counted`),
    ),
    ...unswept,
  ]
}

/** Sends to each address that are enough to be money. */
function arrivalsAt(world: World): Map<string, Block[]> {
  return Map.groupBy(
    world.chain.dump().filter(({ kind, amountRaw }) => kind === 'send' && amountRaw >= DUST_RAW),
    ({ to }) => to,
  )
}

function unsweptAt(world: World, address: string, arrivals: ReadonlyMap<string, readonly Block[]>): string[] {
  const waiting = (arrivals.get(address) ?? []).filter(({ receivedBy }) => receivedBy === undefined)
  const balance = world.chain.balanceOf(address)
  const left = waiting.reduce((total, { amountRaw }) => total + amountRaw, balance)
  const onItsWay = world.chain
    .chainOf(address)
    .filter(({ kind, to, receivedBy }) => kind === 'send' && to === world.treasury && !receivedBy)
  return [
    ...(left > 0n ? [`${left} raw at ${address} are not swept`] : []),
    ...onItsWay.map(({ hash }) => `sweep ${hash} is not received by the treasury`),
  ]
}

export async function readLedger(world: World): Promise<Entry[]> {
  const [agent] = world.agents
  const entries: Entry[] = []
  for (;;) {
    if (agent === undefined) return entries
    const path = `/ledger?from_id=${entries.length + 1}&limit=${LEDGER_PAGE}`
    const { json } = await world.ask(agent, 'ledger', 'GET', path)
    const page = (json['entries'] ?? []) as Entry[]
    entries.push(...page)
    if (page.length < LEDGER_PAGE) return entries
  }
}

/** All accounts against each other; to be called when nothing moves any more. */
export async function account(world: World, books: Books): Promise<void> {
  const arrivals = arrivalsAt(world)
  for (const what of findLeftOver(world, books)) check(world, false, `in the end ${what}`, ...what.split(' ').filter(isName))
  for (const { sale, book } of books.orders) {
    checkOrder(world, sale, book)
    checkPayments(world, sale.invoice, book.invoice, arrivals)
  }
  for (const { known, invoice } of books.passes) {
    checkPassInvoice(world, known, invoice)
    checkPayments(world, known, invoice, arrivals)
  }
  const payouts = books.orders.flatMap(({ book }) => [...book.toSeller, ...book.toBuyer])
  const orphaned = checkSends(world, payouts)
  await checkAgents(world, books)
  await checkLedger(world, books, payouts)
  checkTotals(world, books, payouts, orphaned)
}

const isName = (word: string): boolean => /^([a-z]{2,4}_|nano_|[0-9a-f]{64}$)/.test(word)

/** What an invoice counts is what the chain has at its address, each payment once and to the raw. */
function checkPayments(world: World, known: KnownInvoice, invoice: InvoiceView, arrivals: ReadonlyMap<string, readonly Block[]>): void {
  const there = new Map((arrivals.get(known.address) ?? []).map((block) => [block.hash, block.amountRaw]))
  const settled = invoice.payments.filter(({ state }) => state === 'settled')
  check(
    world,
    new Set(settled.map(({ tx_hash: tx }) => tx)).size === settled.length,
    `invoice ${known.id} counts a payment twice`,
    known.id,
  )
  for (const { tx_hash: tx, amount_raw: raw } of settled)
    check(
      world,
      there.get(tx) === BigInt(raw),
      `invoice ${known.id} counts ${raw} raw of ${tx}, and the chain has ${there.get(tx) ?? 'nothing'} there`,
      known.id,
      tx,
    )
}

/** Every send out of the treasury is of payouts that name it, each payout of one send. @returns raw that a restore has orphaned */
function checkSends(world: World, payouts: readonly PayoutView[]): bigint {
  const sends = new Map(sendsOf(world).map((block) => [block.hash, block]))
  const byTx = Map.groupBy(
    payouts.filter(({ tx_hash: tx, state }) => tx !== null && state !== 'withdrawn'),
    ({ tx_hash: tx }) => tx ?? '',
  )
  let orphaned = 0n
  for (const [hash, { amountRaw, to }] of sends) {
    const own = byTx.get(hash) ?? []
    if (own.length === 0 && world.orphans.has(hash)) {
      orphaned += amountRaw
      continue
    }
    // Some of a shared send's payouts may be of orders that a restore has taken away.
    const isWhole = sum(own) === amountRaw || (world.orphans.has(hash) && sum(own) <= amountRaw)
    if (isWhole) orphaned += amountRaw - sum(own)
    check(world, isWhole, `${hash} sent ${amountRaw} raw to ${to}, and the payouts that name it are ${sum(own)}`, hash, to)
    check(
      world,
      own.every(({ address }) => address === to),
      `${hash} went to ${to}, and a payout of it names another address`,
      hash,
      to,
    )
  }
  for (const { payout_id: id, state, tx_hash: tx } of payouts)
    if (state === 'confirmed')
      check(world, sends.has(tx ?? ''), `payout ${id} is confirmed by ${tx}, which is not in the chain`, id, tx ?? id)
  for (const { account: from, kind, to, hash } of world.chain.dump())
    if (kind === 'send' && world.invoices.some(({ address }) => address === from))
      check(world, to === world.treasury, `${hash} sends an invoice's money to ${to}`, hash)
  return orphaned
}

/** What an agent is told about itself is what its invoices and orders say. */
async function checkAgents(world: World, { orders, passes }: Books): Promise<void> {
  for (const agent of world.agents) {
    const { json } = await world.ask(agent, 'me', 'GET', '/me')
    const own = passes.filter(({ known }) => known.agent === agent).map(({ invoice }) => invoice)
    const total = (name: 'moved_raw' | 'carried_raw'): bigint => own.reduce((all, invoice) => all + BigInt(invoice[name]), 0n)
    const [moved, carried] = [total('moved_raw'), total('carried_raw')]
    check(world, moved === carried, `${agent.id} has ${moved} raw moved out of invoices and ${carried} carried in`, agent.name)
    const days = own.reduce((all, invoice) => all + invoice.credited_days, 0)
    const until = json['pass_until'] === null || json['pass_until'] === undefined ? undefined : Date.parse(String(json['pass_until']))
    const beganAt = (until ?? 0) - days * DAY_MS
    const isOnce = days === 0 ? until === undefined : beganAt >= world.startedAtMs - 5_000 && beganAt <= Date.now() + 5_000
    check(world, isOnce, `${agent.id} bought ${days} days and has a pass until ${String(json['pass_until'])}`, agent.name)
    const payouts = orders.flatMap(({ sale, book }) => [
      ...(sale.seller === agent ? book.toSeller : []),
      ...(sale.buyer === agent ? book.toBuyer : []),
    ])
    const told = (json['owed'] as { currency: string; amount_raw: string }[]).filter(({ currency }) => currency === 'xno')
    const owed = sum(payouts.filter(isOpen))
    check(world, sum(told) === owed, `${agent.id} is told that ${sum(told)} raw are owed to it, and its payouts are ${owed}`, agent.name)
  }
}

/** The ledger has no gap, and says of every order and all together what the orders say. */
async function checkLedger(world: World, { orders }: Books, payouts: readonly PayoutView[]): Promise<void> {
  const ledger = await readLedger(world)
  count(world, 'ledger entries', ledger.length)
  ledger.forEach(({ id }, index) => check(world, id === index + 1, `the ledger has the entry ${id} in place ${index + 1}`))
  const raw = ({ data }: Entry): bigint => BigInt(String(data['amount_raw'] ?? 0))
  const received = Map.groupBy(
    ledger.filter(({ kind, data }) => kind === 'payment' && data['order_id'] !== undefined),
    ({ data }) => data['order_id'],
  )
  const fees = new Map<unknown, bigint>()
  for (const entry of ledger.filter(({ kind }) => kind === 'fee')) {
    const id = entry.data['order_id']
    fees.set(id, (fees.get(id) ?? 0n) + (entry.data['step'] === 'returned' ? -raw(entry) : raw(entry)))
  }
  let [owed, held] = [0n, 0n]
  for (const { book } of orders) {
    const { order_id: id, fee_raw: fee, status } = book.order
    const entered = (received.get(id) ?? []).reduce((total, entry) => total + raw(entry), 0n)
    const paid = BigInt(book.invoice.paid_raw)
    check(world, entered === paid, `order ${id} received ${paid} raw, and the ledger says ${entered}`, id)
    const taken = status === 'released' || status === 'paid_out' ? BigInt(fee) : 0n
    check(world, (fees.get(id) ?? 0n) === taken, `order ${id} is ${status}, and the ledger has a fee of ${fees.get(id) ?? 0n}`, id)
    const gone = sum([...book.toSeller, ...book.toBuyer].filter(({ state }) => state === 'confirmed' || state === 'manual'))
    owed += paid - taken - gone
    held += paid - taken - gone
  }
  for (const { payout_id: id, state } of payouts) {
    const steps = ledger.filter(({ kind, data }) => kind === 'payout' && data['payout_id'] === id)
    const last = steps.at(-1)?.data['step']
    check(world, last === state, `payout ${id} is ${state}, and the last the ledger says of it is ${String(last)}`, id)
  }
  await checkSolvency(world, owed, held)
}

async function checkSolvency(world: World, owed: bigint, held: bigint): Promise<void> {
  const [agent] = world.agents
  if (agent === undefined) return
  const mine = <Row extends { currency: string }>(rows: unknown): Row | undefined =>
    (rows as Row[]).find(({ currency }) => currency === 'xno')
  let told = { owed: '', held: '' }
  for (let tries = 0; tries < SOLVENCY_READINGS; tries++) {
    const { json } = await world.ask(agent, 'solvency', 'GET', '/market/solvency')
    told = {
      owed: mine<{ currency: string; now_raw: string }>(json['owed'])?.now_raw ?? '',
      held: mine<{ currency: string; held_raw: string }>(json['held'])?.held_raw ?? '',
    }
    if (told.owed === String(owed) && told.held === String(held)) break
    await sleep(1_000)
  }
  check(world, told.owed === String(owed), `the venue says that it owes ${told.owed} raw, and its orders say ${owed}`)
  check(world, told.held === String(held), `the venue says that it holds ${told.held} raw, and its orders say ${held}`)
  await readTreasury(world)
}

/** In less out is what the venue's accounts have, and each raw of it has a name. */
function checkTotals(world: World, { orders, passes }: Books, payouts: readonly PayoutView[], orphaned: bigint): void {
  const { chain, treasury } = world
  const accounts = new Set([...world.invoices.map(({ address }) => address), ...(treasury === undefined ? [] : [treasury])])
  const blocks = chain.dump().filter(({ kind }) => kind === 'send')
  const total = (some: readonly Block[]): bigint => some.reduce((all, { amountRaw }) => all + amountRaw, 0n)
  const came = blocks.filter(({ account: from, to }) => accounts.has(to) && !accounts.has(from))
  const went = blocks.filter(({ account: from, to }) => accounts.has(from) && !accounts.has(to))
  const [moneyIn, moneyOut] = [total(came), total(went)]
  const waiting = total(blocks.filter(({ to, receivedBy }) => accounts.has(to) && receivedBy === undefined))
  const balance = [...accounts].reduce((all, address) => all + chain.balanceOf(address), 0n)
  check(
    world,
    balance + waiting === moneyIn - moneyOut,
    `the accounts have ${balance} and wait for ${waiting}: ${moneyIn} came, ${moneyOut} went`,
  )

  const known = new Map(world.invoices.map((invoice) => [invoice.address, invoice]))
  const unassigned = total(came.filter(({ to, amountRaw }) => (known.get(to)?.isForgotten ?? true) || amountRaw < DUST_RAW))
  const sold = passes.reduce((all, { invoice }) => all + BigInt(invoice.paid_raw), 0n)
  const received = orders.reduce((all, { book }) => all + BigInt(book.invoice.paid_raw), 0n)
  const paidOut = sum(
    payouts.filter(({ state, tx_hash: tx }) => state === 'confirmed' || (state === 'manual' && went.some(({ hash }) => hash === tx))),
  )
  check(
    world,
    sold + received + unassigned === moneyIn,
    `${moneyIn} raw came in: passes ${sold}, orders ${received}, unassigned ${unassigned}`,
  )
  check(world, paidOut + orphaned === moneyOut, `${moneyOut} raw went out: paid out ${paidOut}, before a restore ${orphaned}`)
  count(world, 'XNO in', Number(moneyIn / DUST_RAW) / 1e6)
  count(world, 'XNO out', Number(moneyOut / DUST_RAW) / 1e6)
  count(world, 'blocks', chain.dump().length)
}
