import type { Connection } from 'mongoose'
import type { Context } from '../../../shared/context.ts'
import { createSerializer } from '../../../shared/foundation/serializer.ts'
import { nowSeconds } from '../../../shared/foundation/time.ts'
import { addToOwed, NOTHING_OWED } from '../../../shared/ledger/solvency.ts'
import type { PendingEntry } from '../../../shared/ledger/pending.ts'
import { actOnDeadline } from '../../../shared/market/order-deadlines.ts'
import { orderPurpose } from '../../../shared/market/order-payments.ts'
import { acceptDelivery, deliverOrder } from '../../../shared/market/order-service.ts'
import { createOrderStore } from '../../../shared/market/order-store.ts'
import type { OrderRecord } from '../../../shared/market/order.ts'
import { createCoinStore } from '../../../shared/payments/coin-store.ts'
import { createInvoiceStore } from '../../../shared/payments/invoice-store.ts'
import type { InvoiceRecord, PaymentRecord, SeenPayment } from '../../../shared/payments/invoice.ts'
import { createJournalStore } from '../../../shared/payments/journal-store.ts'
import type { JournalLine } from '../../../shared/payments/journal.ts'
import {
  moveTransfer,
  newTransfer,
  replaceTransfer,
  storeOrDrop,
} from '../../../shared/payments/payout-service.ts'
import { createPayoutStore } from '../../../shared/payments/payout-store.ts'
import { OPEN_TRANSFERS, type StoredPayout, type TransferRecord } from '../../../shared/payments/payout.ts'
import { expireInvoices, recordPayment } from '../../../shared/payments/settlement.ts'
import { NotModelled } from '../query.ts'
import { requireThat, stubs } from '../stubs.ts'
import type { Scenario, World } from '../world.ts'
import { createChain, type Chain } from './chain.ts'

const ORDERS = ['mkt_1', 'mkt_2']
const [BUYER, SELLER] = ['agt_buyer', 'agt_seller']
const PRICE = 10n ** 30n
const FEE = PRICE / 100n
const PAUSE_MS = 6_000
/** Longer than every deadline of an order. */
const ALL_OVER_MS = 200_000

/** Two orders are paid, delivered, accepted or left to their deadlines, and paid out by two payers. */
export const moneyScenario: Scenario = {
  name: 'money',
  defineModels: openStores,
  play(world) {
    const { random } = world.schedule
    const open = () => openContext(world)
    const chain = createChain(
      world,
      ORDERS.map((_, index) => [index, PRICE] as const),
    )
    storeOrders(world)
    const rounds = (
      name: string,
      count: number,
      work: (ctx: Context) => Promise<unknown>,
      restarts = 0,
    ): void =>
      world.spawn(
        name,
        async () => {
          const ctx = open()
          for (let round = 0; round < count; round++) {
            await world.pause(PAUSE_MS)
            await tolerate(() => work(ctx))
          }
        },
        restarts,
      )
    for (const place of [0, 1]) {
      rounds(`watcher${place}`, 4, (ctx) => watchPayments(ctx, chain), 2)
      rounds(`payer${place}`, 5, (ctx) => payOut(ctx, chain, world), 2)
      rounds(`service${place}`, 4, (ctx) => actOnDeadlines(ctx, world))
    }
    rounds('expiry', 4, (ctx) => expireInvoices(ctx, 'xno', nowSeconds(ctx)), 1)
    rounds('seller', 6, (ctx) => deliverOrder(ctx, SELLER, { order_id: random.pick(ORDERS), delivery: 'd' }))
    rounds('buyer', 6, (ctx) => acceptDelivery(ctx, BUYER, { order_id: random.pick(ORDERS) }))
    const check = () => checkMoney(world, chain)
    return {
      check,
      async finish() {
        const ctx = open()
        await world.pause(ALL_OVER_MS)
        for (let round = 0; round < 4; round++) {
          await watchPayments(ctx, chain, true)
          await expireInvoices(ctx, 'xno', nowSeconds(ctx))
          await actOnDeadlines(ctx, world)
          await world.pause(ALL_OVER_MS)
        }
        while (await payOut(ctx, chain, world, true));
      },
      checkEnd() {
        check()
        const ended = ['paid_out', 'refunded', 'expired']
        for (const { _id, status } of rowsOf<OrderRecord>(world, 'orders'))
          requireThat(ended.includes(status), `order ${_id} ends ${status}`)
        requireThat(
          rowsOf<PaymentRecord>(world, 'payments').every(({ state }) => state === 'settled'),
          'a payment is not settled in the end',
        )
        const transfers = new Map(
          rowsOf<TransferRecord>(world, 'transfers').map((one) => [one._id, one.state]),
        )
        for (const { _id, transfer_id: id = '' } of rowsOf<StoredPayout>(world, 'payouts'))
          requireThat(transfers.get(id) === 'confirmed', `payout ${_id} is not paid in the end`)
      },
    }
  },
}

function openStores(connection: Connection) {
  return {
    coins: createCoinStore(connection),
    invoices: createInvoiceStore(connection),
    payouts: createPayoutStore(connection),
    journal: createJournalStore(connection),
    orders: createOrderStore(connection),
  }
}

function openContext(world: World): Context {
  const database = world.openDatabase()
  const servedNow = {
    readServedUntil: async () => Date.now(),
    findOutage: async () => undefined,
    recordRequest: async () => {},
  }
  return {
    ...openStores(world.connection),
    ...stubs(world),
    database,
    databaseNow: () => database.now(),
    serialize: createSerializer(),
    purposes: { pass: orderPurpose, order: orderPurpose },
    queues: { enqueue: async () => {} },
    serving: servedNow,
  } as unknown as Context
}

const rowsOf = <T>({ set }: World, collection: string): T[] => set.lasting(collection) as unknown as T[]

/** Performs one job: an error ends it, as a worker's, and the next round tries again. */
async function tolerate(job: () => Promise<unknown>): Promise<void> {
  try {
    await job()
  } catch (error) {
    const all = error instanceof AggregateError ? (error.errors as unknown[]) : [error]
    const defect = all.find(
      (one) => one instanceof NotModelled || one instanceof TypeError || /inside its own/.test(String(one)),
    )
    if (defect !== undefined) throw defect
  }
}

function storeOrders({ set, schedule }: World): void {
  const at = Math.floor(schedule.nowMs / 1_000)
  const common = { at, coin: 'xno', price_usd_cents: 100, amount_raw: String(PRICE), version: 0 }
  for (const [index, _id] of ORDERS.entries()) {
    const invoiceId = `inv_${index}`
    const order = {
      ...{
        _id,
        offer_id: 'ofr_1',
        buyer_id: BUYER,
        seller_id: SELLER,
        title: 't',
        fee_raw: String(FEE),
        invoice_id: invoiceId,
      },
      ...{
        delivery_seconds: 20,
        accept_seconds: 20,
        payout_address: 'nano_seller',
        refund_address: 'nano_buyer',
      },
      ...{
        payout_salt: 's',
        status: 'awaiting_payment',
        unpaid_slot: index,
        pay_by: at + 30,
        written_off_raw: '0',
      },
    }
    set.begin('orders', { ...common, ...order })
    const invoice = {
      ...{
        _id: invoiceId,
        agent_id: BUYER,
        order_id: _id,
        rate: '1',
        rate_source: 's',
        rate_at: at,
        address: `nano_${index}`,
      },
      ...{
        address_index: index,
        expires_at: at + 30,
        lapsed: false,
        received_raw: '0',
        carried_raw: '0',
        moved_raw: '0',
      },
      ...{ unspent: '0', credited_days: 0 },
    }
    set.begin('invoices', { ...common, ...invoice })
  }
}

/** Reports each payment that the chain shows now. */
async function watchPayments(ctx: Context, chain: Chain, isLast = false): Promise<void> {
  for (const { confirmedAtMs, ...payment } of chain.payments(isLast)) {
    const isConfirmed = isLast || Date.now() >= confirmedAtMs
    const found: SeenPayment = { coin: 'xno', ...payment, confirmations: isConfirmed ? 1 : 0, isConfirmed }
    await recordPayment(ctx, found)
  }
}

async function actOnDeadlines(ctx: Context, world: World): Promise<void> {
  const due = rowsOf<OrderRecord>(world, 'orders').flatMap(({ due_at: dueAt }) => dueAt ?? [])
  for (const dueAt of new Set(due)) await actOnDeadline(ctx, dueAt)
}

/**
 * One round of a payer, as nano-sender.ts has it: what is open is published and looked for, then a block with
 * payouts is stored and published.
 *
 * @returns whether there was anything to do
 */
async function payOut(ctx: Context, chain: Chain, world: World, isLast = false): Promise<boolean> {
  const { random } = world.schedule
  const open = await ctx.payouts.listOpenTransfers('xno', 0)
  for (const transfer of open) {
    chain.publish(transfer)
    if (transfer.state === 'signed') await moveTransfer(ctx, transfer, ['signed'], 'sent')
    if (chain.has(transfer)) await moveTransfer(ctx, transfer, OPEN_TRANSFERS, 'confirmed')
    else await replaceTransfer(ctx, transfer, 'a rival has its place')
  }
  if (!isLast && random.chance(0.2)) chain.putRival()
  for (const transfer of await ctx.payouts.listConfirmedSince('xno', 0))
    if (!chain.has(transfer)) await replaceTransfer(ctx, transfer, 'a rival has its place')
  const owed = await ctx.payouts.models.payouts
    .find({ state: 'owed' })
    .sort({ _id: 1 })
    .lean<StoredPayout[]>()
  const chosen = owed.slice(0, 1 + random.below(2))
  if (chosen.length === 0) return open.length > 0
  const transfer = newTransfer(ctx, {
    coin: 'xno',
    kind: 'payout',
    ...{ account_index: 0, previous: chain.frontier(), tx: chain.newTx(), signed: '{}', state: 'signed' },
    amount_raw: String(chosen.reduce((sum, { amount_raw: raw }) => sum + BigInt(raw), 0n)),
    payment_ids: [],
    payout_ids: chosen.map(({ _id }) => _id),
  })
  if (await storeOrDrop(ctx, [transfer], chosen)) chain.publish(transfer)
  return true
}

/**
 * Checks the books against the records: what each order received, holds and owes, what each agent is owed,
 * and the sums that the entries give; and that no payment, payout or place in a chain is used twice.
 *
 * @throws Error at the first that does not hold
 */
function checkMoney(world: World, chain: Chain): void {
  const sum = (records: readonly { amount_raw: string }[]) =>
    records.reduce((total, { amount_raw: raw }) => total + BigInt(raw), 0n)
  const payouts = rowsOf<StoredPayout>(world, 'payouts')
  const transfers = rowsOf<TransferRecord>(world, 'transfers')
  const payments = rowsOf<PaymentRecord>(world, 'payments').filter(({ state }) => state === 'settled')
  const invoices = new Map(rowsOf<InvoiceRecord>(world, 'invoices').map((invoice) => [invoice._id, invoice]))
  const balances = new Map<string, bigint>()
  for (const { from, to, amount_raw: raw } of rowsOf<JournalLine>(world, 'journal')) {
    balances.set(from, (balances.get(from) ?? 0n) - BigInt(raw))
    balances.set(to, (balances.get(to) ?? 0n) + BigInt(raw))
  }
  const same = (what: string, stored: bigint, expected: bigint) =>
    requireThat(stored === expected, `${what} is ${stored}, not ${expected}`)
  const balance = (account: string): bigint => balances.get(account) ?? 0n

  requireThat(new Set(payments.map(({ tx }) => tx)).size === payments.length, 'a payment counts twice')
  const confirmed = new Set(transfers.filter(({ state }) => state === 'confirmed').map(({ _id }) => _id))
  for (const { _id, invoice_id: invoiceId, ...order } of rowsOf<OrderRecord>(world, 'orders')) {
    const received = sum(payments.filter(({ order_id: id }) => id === _id))
    const of = (agentId: string) =>
      payouts.filter(
        ({ order_id: id, agent_id: agent, state }) =>
          id === _id && agent === agentId && state !== 'withdrawn',
      )
    const [buyer, seller] = [of(BUYER), of(SELLER)]
    const fee = order.fee_taken === true ? BigInt(order.fee_raw) : 0n
    same(`what invoice ${invoiceId} received`, BigInt(invoices.get(invoiceId)?.received_raw ?? '0'), received)
    same(`what is held for ${_id}`, balance(`order:${_id}`), received - sum(buyer) - sum(seller) - fee)
    const isSellers = order.status === 'released' || order.status === 'paid_out'
    const price = BigInt(order.amount_raw)
    same(`what ${_id} owes its seller`, sum(seller), isSellers ? price - fee : 0n)
    if (order.status === 'refunded' || order.status === 'expired')
      same(`what ${_id} owes its buyer`, sum(buyer), received)
    else if (order.status !== 'awaiting_payment')
      same(`what ${_id} owes its buyer beyond the price`, sum(buyer), received - price)
  }
  const isUnpaid = ({ state, transfer_id: id = '' }: StoredPayout) =>
    state === 'owed' || (state === 'in_transfer' && !confirmed.has(id))
  for (const agentId of [BUYER, SELLER])
    same(
      `what ${agentId} is owed`,
      balance(`owed:${agentId}`),
      sum(payouts.filter((one) => one.agent_id === agentId && isUnpaid(one))),
    )
  const entries = ['orders', 'invoices', 'payments', 'payouts'].flatMap((name) =>
    rowsOf<{ pending?: PendingEntry[] }>(world, name).flatMap(({ pending = [] }) => pending),
  )
  const stated = entries.reduce(
    (owed, { kind, data }) => addToOwed(owed, { _id: 0, kind, data }),
    NOTHING_OWED,
  )
  const held = [...balances].filter(([account]) => /^(order|owed):/.test(account))
  same(
    'the sum owed by the entries',
    stated.xno,
    held.reduce((total, [, raw]) => total + raw, 0n),
  )

  const standing = transfers.filter(({ state }) => state !== 'replaced')
  const places = standing.map(({ account_index: index, previous }) => `${index} ${previous}`)
  requireThat(new Set(places).size === places.length, 'two blocks have one place in a chain')
  const carried = standing.flatMap(({ payout_ids: ids }) => ids)
  requireThat(new Set(carried).size === carried.length, 'a payout is in two transfers')
  chain.check()
}
