import type { Connection } from 'mongoose'
import type { Context } from '../../../../shared/context.ts'
import { nowSeconds } from '../../../../shared/platform/time.ts'
import { DISPUTE_OUTCOMES } from '../../../../shared/market/dispute-rules.ts'
import { decideDispute, undoDecision } from '../../../../shared/market/dispute-service.ts'
import { actOnDeadline } from '../../../../shared/market/order-deadlines.ts'
import { orderPurpose } from '../../../../shared/market/order-payments.ts'
import { acceptDelivery, deliverOrder, disputeOrder } from '../../../../shared/market/order-service.ts'
import { createOrderStore } from '../../../../shared/market/order-store.ts'
import { sumAmounts, type OrderRecord } from '../../../../shared/market/order.ts'
import { createCoinStore } from '../../../../shared/money/coin-store.ts'
import { createInvoiceStore } from '../../../../shared/money/invoice-store.ts'
import { createJournalStore } from '../../../../shared/money/journal-store.ts'
import {
  moveTransfer,
  newTransfer,
  replaceTransfer,
  storeOrDrop,
} from '../../../../shared/money/transfer-service.ts'
import { markPaidByHand, undoPaidByHand } from '../../../../shared/money/payout-service.ts'
import { createPayoutStore } from '../../../../shared/money/payout-store.ts'
import type { StoredPayout } from '../../../../shared/money/payout.ts'
import type { TransferRecord } from '../../../../shared/money/transfer.ts'
import { isPayment } from '../../../../shared/money/arrival.ts'
import { expireInvoices } from '../../../../shared/money/invoice-expiry.ts'
import { recordLoss, recordPayment } from '../../../../shared/money/record-arrival.ts'
import { requireThat, stubs, tolerate } from '../stubs.ts'
import type { Scenario, World } from '../world.ts'
import { checkBooks, checkChain, checkChainAtRest, rowsOf } from './books.ts'
import { createChain, type Chain, type ChainPayment } from './chain.ts'
import { BUYER, SELLER, beginOrder } from './orders.ts'

/** Some rounds follow at once, others come when a deadline may have passed. */
const PAUSES_MS = [100, 4_000]
const MAX_LAST_ROUNDS = 50
/** Longer than every deadline of an order. */
const ALL_OVER_MS = 20_000

/** Orders at some stage are paid, decided or left to their deadlines, and paid out, by several workers. */
export const moneyScenario: Scenario = {
  name: 'money',
  defineModels: openStores,
  play(world) {
    const { random } = world.schedule
    const open = () => openContext(world)
    const chain = createChain(world)
    const orderIds = Array.from({ length: 1 + random.below(3) }, (_, index) =>
      beginOrder(world, chain, index),
    )
    type Work = (ctx: Context) => Promise<unknown>
    const rounds = (name: string, count: number, work: Work, restarts = 0): void => {
      const run = async (): Promise<void> => {
        const ctx = open()
        for (let round = 0; round < count; round++) {
          await world.pause(random.pick(PAUSES_MS))
          await tolerate(() => work(ctx))
        }
      }
      world.spawn(name, run, restarts)
    }
    for (const place of [0, 1]) {
      rounds(`watcher${place}`, 5, (ctx) => watch(ctx, chain, random.pick(chain.payments)), 1)
      rounds(`service${place}`, 3, (ctx) => actOnDeadlines(ctx, world), 1)
    }
    for (const place of [0, 1, 2]) rounds(`payer${place}`, 4, (ctx) => payOut(ctx, chain, world), 2)
    const some = () => ({ order_id: random.pick(orderIds) })
    rounds('expiry', 3, (ctx) => expireInvoices(ctx, 'xno', nowSeconds(ctx)), 1)
    rounds('seller', 4, (ctx) => deliverOrder(ctx, SELLER, { ...some(), delivery: 'd' }))
    rounds('buyer', 4, (ctx) =>
      random.chance(0.7)
        ? acceptDelivery(ctx, BUYER, some())
        : disputeOrder(ctx, BUYER, { ...some(), reason: 'r' }),
    )
    rounds('operator', 5, (ctx) => operate(ctx, world, random.pick(orderIds), chain))
    let checked: unknown
    const check = (): void => {
      const state = `${world.set.lastingVersion} ${chain.version()}`
      if (state === checked) return
      checked = state
      checkBooks(world, chain)
      checkChain(chain)
    }
    return {
      check,
      async finish() {
        const ctx = open()
        chain.showAll()
        for (let round = 0; round < 2; round++) {
          await new Promise((resolve) => setTimeout(resolve, ALL_OVER_MS))
          for (const { _id, state } of rowsOf<StoredPayout>(world, 'payouts'))
            if (state === 'manual') await undoPaidByHand(ctx, _id)
          for (const payment of chain.payments) await watch(ctx, chain, payment, true)
          await expireInvoices(ctx, 'xno', nowSeconds(ctx))
          await actOnDeadlines(ctx, world)
        }
        for (const { _id, status } of rowsOf<OrderRecord>(world, 'orders'))
          if (status === 'disputed')
            await decideDispute(ctx, _id, 'release').catch(() => decideDispute(ctx, _id, 'refund'))
        for (let round = 0; round < MAX_LAST_ROUNDS && (await payOut(ctx, chain, world, true)); round++);
      },
      checkEnd() {
        check()
        const ended = ['paid_out', 'refunded', 'expired']
        for (const { _id, status } of rowsOf<OrderRecord>(world, 'orders'))
          requireThat(ended.includes(status), `order ${_id} ends ${status}`)
        checkChainAtRest(chain, orderIds)
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
  const stores = openStores(world.connection)
  const servedNow = {
    readServedUntil: async () => Date.now(),
    find: async () => undefined,
    recordRequest: async () => {},
  }
  return {
    ...stores,
    orders: { ...stores.orders, outages: servedNow },
    ...stubs(world),
    database,
    purposes: { pass: orderPurpose, order: orderPurpose },
    queues: { enqueue: async () => {} },
    config: { disputeHoldMs: 0 },
  } as unknown as Context
}

/** Looks for a payment, and reports what the chain shows of it; with `isLast`, it is confirmed. */
async function watch(ctx: Context, chain: Chain, payment: ChainPayment, isLast = false): Promise<void> {
  const { tx, addressIndex, amountRaw, confirmedAtMs, shownAtMs } = payment
  if (shownAtMs > Date.now()) return
  const known = payment.wasHidden ? await ctx.invoices.arrivals.find('xno', tx, addressIndex) : undefined
  const isHidden = await chain.ask(() => payment.isHidden)
  if (isHidden) return known !== undefined && isPayment(known) ? recordLoss(ctx, known) : undefined
  const isConfirmed = isLast || Date.now() >= confirmedAtMs
  const found = { coin: 'xno', tx, addressIndex, amountRaw, confirmations: isConfirmed ? 1 : 0 } as const
  await recordPayment(ctx, { ...found, isConfirmed })
}

/** What the operator does: decides a dispute or takes that back, pays a payout by hand or says that he didn't. */
async function operate(ctx: Context, world: World, orderId: string, chain: Chain): Promise<unknown> {
  const { random } = world.schedule
  const act = random.below(6)
  if (act < 3) return decideDispute(ctx, orderId, random.pick(DISPUTE_OUTCOMES))
  if (act === 3) return undoDecision(ctx, orderId)
  const state = act === 4 ? 'owed' : 'manual'
  const payouts = (world.set.latest('payouts') as unknown as StoredPayout[]).filter(
    (one) => one.state === state,
  )
  if (payouts.length === 0) return undefined
  const { _id } = random.pick(payouts)
  return act === 4
    ? markPaidByHand(ctx, _id, chain.newTx(), { isAddressNamed: true })
    : undoPaidByHand(ctx, _id)
}

async function actOnDeadlines(ctx: Context, world: World): Promise<void> {
  const due = rowsOf<OrderRecord>(world, 'orders').flatMap(({ due_at: dueAt }) => dueAt ?? [])
  for (const dueAt of new Set(due)) await actOnDeadline(ctx, dueAt)
}

/** Replaces the blocks on record in a rival's place and after it, the last one first, as nano-recovery.ts. */
async function supersede(ctx: Context, place: string): Promise<void> {
  for (;;) {
    let last: TransferRecord | undefined
    for (let next = await ctx.payouts.transfers.findSuccessor(0, place); next !== undefined;) {
      last = next
      next = await ctx.payouts.transfers.findSuccessor(0, next.tx)
    }
    if (last === undefined) return
    await replaceTransfer(ctx, last, 'a rival has its place')
  }
}

/**
 * One round of a payer, as nano-sender.ts has it: what is open is published and looked for, then a block with
 * payouts is stored and published. The list of what is due may be older than that, as nextDue() keeps it.
 *
 * @returns whether there was anything to do
 */
async function payOut(ctx: Context, chain: Chain, world: World, isLast = false): Promise<boolean> {
  const { random } = world.schedule
  const list = () =>
    ctx.payouts.models.payouts
      .find({ state: 'owed', frozen: { $exists: false } })
      .sort({ _id: 1 })
      .lean<StoredPayout[]>()
  const early = !isLast && random.chance(0.5) ? await list() : undefined
  const open = await ctx.payouts.transfers.listOpen('xno', 0)
  for (const transfer of open) {
    chain.publish(transfer)
    if (transfer.state === 'signed') await moveTransfer(ctx, transfer, 'taken')
    if (await chain.ask(() => chain.has(transfer))) await moveTransfer(ctx, transfer, 'confirmed')
  }
  for (const place of await chain.ask(() => chain.placesOfRivals())) await supersede(ctx, place)
  const previous = await chain.ask(() => chain.frontier())
  const owed = early ?? (await list())
  if (!isLast && random.chance(0.1)) chain.putRival()
  // Proof of work takes its time.
  await world.pause(random.pick(PAUSES_MS))
  const from = isLast ? 0 : random.below(owed.length)
  const chosen = owed.slice(from, from + 1 + random.below(2))
  if (chosen.length === 0) return open.length > 0
  const transfer = newTransfer(ctx, {
    coin: 'xno',
    kind: 'payout',
    ...{ account_index: 0, previous, tx: chain.newTx(), signed: '{}', state: 'signed' },
    amount_raw: String(sumAmounts(chosen)),
    payment_ids: [],
    payout_ids: chosen.map(({ _id }) => _id),
  })
  if ((await storeOrDrop(ctx, [transfer], chosen)) === 'stored') chain.publish(transfer)
  return true
}
