import type { PendingEntry } from '../../../shared/ledger/pending.ts'
import { addToOwed, NOTHING_OWED } from '../../../shared/ledger/solvency.ts'
import type { LedgerEntry } from '../../../shared/crypto/receipt.ts'
import {
  balancesOf,
  findBookFaults,
  findMoneyFaults,
  findOwedFaults,
  type BookRecords,
} from '../../../shared/operation/check-money.ts'
import { COINS } from '../../../shared/money/coin.ts'
import type { StoredPayout } from '../../../shared/money/payout.ts'
import { fateOf, type Call } from '../world/history.ts'
import { collectFindings, findingsOf, type Finding } from './finding.ts'
import type { SeenAgent } from './seen.ts'
import { LEDGERED, readerOf, withDatabase } from './stored.ts'

/** The records of money in MongoDB and the ledger's entries, all of one moment. */
export interface StoredMoney extends BookRecords {
  /** Numbered and pending; one that just got its number may be there twice. */
  entries: PendingEntry[]
  /** Coins that were halted, and why. */
  halted: string[]
}

/** Reads all records of money, and the entries, as they stand at one moment. */
export async function readMoney(url: string): Promise<StoredMoney> {
  return withDatabase(url, async (db, client) => {
    const session = client.startSession({ snapshot: true })
    try {
      const all = readerOf(db, session)
      const pending: { pending?: PendingEntry[] }[][] = []
      for (const name of LEDGERED)
        pending.push(
          (await db
            .collection(name)
            .find({ 'pending.source': { $exists: true } }, { session })
            .toArray()) as { pending?: PendingEntry[] }[],
        )
      return {
        invoices: await all('invoices'),
        payments: await all('payments'),
        payouts: await all('payouts'),
        transfers: await all('transfers'),
        orders: await all('orders'),
        lines: await all('journal'),
        entries: [
          ...(await all<PendingEntry>('entries')),
          ...pending.flat().flatMap(({ pending: waiting = [] }) => waiting),
        ],
        halted: (await all<{ _id: string; halted?: { reason: string } }>('coins')).flatMap(
          ({ _id, halted }) => (halted === undefined ? [] : [`${_id}: ${halted.reason}`]),
        ),
      }
    } finally {
      await session.endSession()
    }
  })
}

/** The ids of the orders that are, or were, disputed since the chain took a counted payment back. */
export const takenBackIn = ({ orders }: Pick<StoredMoney, 'orders'>): Set<string> =>
  new Set(orders.filter(({ disputed_by: by }) => by === 'chain').map(({ _id }) => _id))

/** A payout's state; of one that is in a transfer, the transfer's. */
function stateOf({ transfers }: StoredMoney, { state, transfer_id: id }: StoredPayout): string {
  return transfers.find(({ _id }) => _id === id)?.state ?? state
}

/** The payouts that were sent to an address. */
export const sentTo = (money: StoredMoney, address: string | undefined): StoredPayout[] =>
  money.payouts.filter(
    (payout) => payout.address === address && ['sent', 'confirmed'].includes(stateOf(money, payout)),
  )

/** All records of money in the database, as text, one a line. */
export async function dumpMoney(url: string): Promise<string> {
  return withDatabase(url, async (db) => {
    const lines: string[] = []
    for (const name of ['coins', 'invoices', 'payments', 'transfers', 'payouts', 'orders', 'journal'])
      for await (const record of db.collection(name).find().sort({ _id: 1 }))
        lines.push(`${name} ${JSON.stringify(record)}`)
    return `${lines.join('\n')}\n`
  })
}

/** The sum of the items' amounts in raw. */
export const sumRaw = (items: readonly { amount_raw: string }[]): bigint =>
  items.reduce((total, { amount_raw: raw }) => total + BigInt(raw), 0n)

/** A moment in Unix seconds, and in milliseconds of the history. */
export interface Moment {
  seconds: number
  ms: number
}

/**
 * Lists the work with money that is still to be done, a sentence each: payments not settled or not swept,
 * payouts that can be sent, deadlines that have passed.
 */
export function listMoneyLeft(calls: readonly Call[], money: StoredMoney, now: Moment): string[] {
  const { invoices, payments, payouts, orders } = money
  const settledTx = new Set(payments.filter(({ state }) => state === 'settled').map(({ tx }) => tx))
  const byAddress = new Map(invoices.map((invoice) => [invoice.address, invoice]))
  const sent = calls.filter(({ did }) => did === 'pay')
  return [
    ...sent
      .filter((call) => {
        const invoice = byAddress.get(call.path)
        return (
          invoice !== undefined && !settledTx.has(call.marker ?? '') && !mayBeFoundLater(call, invoice, now)
        )
      })
      .map(({ marker = '', path }) => `payment ${marker} to ${path} is not settled`),
    ...payments
      .filter(
        ({ coin, state, swept_at: sweptAt }) =>
          coin === 'xno' && state === 'settled' && sweptAt === undefined,
      )
      .map(({ _id }) => `payment ${_id} is not swept`),
    ...payouts
      .map((payout) => ({ ...payout, state: stateOf(money, payout) }))
      .filter(
        ({ state, address, frozen }) =>
          (state === 'owed' && address !== undefined && frozen !== true) ||
          state === 'signed' ||
          state === 'sent',
      )
      .map(({ _id, state }) => `payout ${_id} is ${state}`),
    ...orders
      .filter(({ due_at: dueAt }) => dueAt !== undefined && dueAt < now.seconds - 5)
      .map(({ _id, status }) => `order ${_id} is ${status} after its deadline`),
  ]
}

/**
 * Whether a payment need not be found yet: it was sent after its invoice had expired and nobody asked for it,
 * so the service looks at its address only once an hour.
 */
function mayBeFoundLater(
  { atMs }: Call,
  { expires_at: expiresAt, lapsed, look_after: lookAfter = Infinity }: StoredMoney['invoices'][number],
  now: Moment,
): boolean {
  const sentAt = now.seconds - (now.ms - atMs) / 1_000
  return sentAt > expiresAt && lapsed && lookAfter > now.seconds
}

/**
 * Checks that each payment on the chain is stored once, for the invoice with its address, and counts there.
 */
export function checkPaymentsIn(
  calls: readonly Call[],
  { invoices, payments }: StoredMoney,
  now: Moment,
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const byTx = Map.groupBy(payments, ({ tx }) => tx)
  const byAddress = Map.groupBy(invoices, ({ address }) => address)
  for (const [address, sharing] of byAddress)
    if (sharing.length > 1)
      addFinding(`address ${address} stands on ${sharing.length} invoices`, ...sharing.map(({ _id }) => _id))
  for (const call of calls.filter(({ did }) => did === 'pay')) {
    const { marker = '', path, body } = call
    const stored = byTx.get(marker) ?? []
    const invoice = byAddress.get(path)?.[0]
    const { amount_raw: raw, invoice_id: id } = body as { amount_raw: string; invoice_id: string }
    if (invoice === undefined)
      addFinding(`invoice ${id} was given out and is lost, with ${raw} raw`, id, marker)
    else if (stored.length === 0 && mayBeFoundLater(call, invoice, now)) continue
    else if (stored.length !== 1) addFinding(`payment ${marker} is stored ${stored.length} times`, marker, id)
    else if (stored[0]?.amount_raw !== raw || stored[0].invoice_id !== invoice._id)
      addFinding(`payment ${marker} is stored as another one`, marker, id)
  }
  return findings
}

/**
 * Checks that each agent's address received the sum of its payouts that were sent, and nothing is owed twice.
 */
export function checkPayouts(agents: readonly SeenAgent[], money: StoredMoney): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const { name, paid } of agents) {
    if (paid === undefined) continue
    const { address, arrivedRaw } = paid
    const sent = sentTo(money, address)
    if (arrivedRaw !== sumRaw(sent))
      addFinding(
        `${arrivedRaw} raw arrived at ${name}, and its payouts are ${sumRaw(sent)}`,
        ...sent.map(({ _id }) => _id),
        name,
      )
  }
  for (const [source, owed] of Map.groupBy(money.payouts, (payout) => payout.source))
    if (owed.length > 1) addFinding(`${source} is owed ${owed.length} times`, source)
  return findings
}

/** Finds what does not add up in the books: by the journal, the records and the entries. */
export const checkBooks = (money: StoredMoney): Finding[] =>
  findingsOf([
    ...findMoneyFaults(money),
    ...findBookFaults(money),
    ...findOwedFaults(money.entries, money.lines),
    ...findWrongOrders(money),
  ])

const OPEN = ['awaiting_payment', 'paid', 'delivered', 'disputed']

/** Finds orders that have given more than they received, and closed ones that hold something. */
function findWrongOrders({ orders, lines }: StoredMoney): string[] {
  const held = balancesOf(lines)
  return orders.flatMap(({ _id: id, status }) => {
    const raw = held.get(`order:${id}`) ?? 0n
    const isWrong = raw < 0n || (raw !== 0n && !OPEN.includes(status))
    return isWrong ? [`order ${id} is ${status}, and ${raw} raw of it belong to nobody`] : []
  })
}

/** Checks that the ledger's last statement of solvency is what its entries add up to. */
export function checkSolvency(ledger: readonly LedgerEntry[]): Finding[] {
  let owed = NOTHING_OWED
  for (const { id, kind, data } of ledger) owed = addToOwed(owed, { _id: id, kind: kind as never, data })
  const stated = ledger.findLast(({ kind }) => kind === 'solvency')?.data['owed'] as
    Record<string, string> | undefined
  return COINS.filter((coin) => String(owed[coin]) !== stated?.[coin]).map((coin) => ({
    what: `the last solvency entry says ${stated?.[coin]} ${coin}, and the ledger adds up to ${owed[coin]}`,
    words: [],
  }))
}

/** What a request of an agent is called as a step in the ledger. */
const STEP_NAMES: Readonly<Record<string, string>> = {
  deliver: 'delivered',
  accept: 'accepted',
  dispute: 'disputed',
}

/**
 * Checks that each step of an order is in the ledger once (also each extension of a deadline after an
 * outage), and no acknowledged step, order or invoice is missing.
 */
export function checkSteps(
  calls: readonly Call[],
  ledger: readonly LedgerEntry[],
  { orders, invoices }: StoredMoney,
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const storedOrders = new Set(orders.map(({ _id }) => _id))
  const storedInvoices = new Set(invoices.map(({ _id }) => _id))
  const steps = Map.groupBy(
    ledger.filter(({ kind, data }) => ['order', 'dispute'].includes(kind) && data['order_id'] !== undefined),
    ({ data }) =>
      [
        data['order_id'],
        data['step'],
        ...(data['step'] === 'extended' ? [data['deadline'], data['until']] : []),
      ].join(' '),
  )
  for (const [step, entries] of steps)
    if (entries.length > 1)
      addFinding(`${step} stands ${entries.length} times in the ledger`, ...step.split(' ').slice(0, 1))
  for (const call of calls) {
    if (fateOf(call) !== 'yes') continue
    const [orderId, invoiceId] = [String(call.answer?.['order_id']), String(call.answer?.['invoice_id'])]
    if (call.did === 'order' && !storedOrders.has(orderId))
      addFinding(`order ${orderId} was acknowledged and is lost`, orderId)
    if (call.did === 'coin-invoice' && !storedInvoices.has(invoiceId))
      addFinding(`invoice ${invoiceId} was acknowledged and is lost`, invoiceId)
    const name = STEP_NAMES[call.did]
    const { order_id: id } = (call.body ?? {}) as { order_id?: string }
    if (name !== undefined && id !== undefined && !steps.has(`${id} ${name}`))
      addFinding(`order ${id} was ${name} by what its agent was told, and the ledger does not say so`, id)
  }
  return findings
}
