import type { Connection } from 'mongoose'
import type { Context } from '../../../../shared/context.ts'
import type { AgentRecord } from '../../../../shared/agents/agent.ts'
import { createAgentStore } from '../../../../shared/agents/agent-store.ts'
import { createCoinStore } from '../../../../shared/money/coin-store.ts'
import type { PaymentRecord } from '../../../../shared/money/arrival.ts'
import type { InvoiceRecord } from '../../../../shared/money/invoice.ts'
import { expireInvoices } from '../../../../shared/money/invoice-expiry.ts'
import { createInvoiceStore } from '../../../../shared/money/invoice-store.ts'
import type { JournalLine } from '../../../../shared/money/journal.ts'
import { createJournalStore } from '../../../../shared/money/journal-store.ts'
import { recordPayment } from '../../../../shared/money/record-arrival.ts'
import { findBookFaults, findMoneyFaults } from '../../../../shared/operation/check-money.ts'
import { creditFreeDays } from '../../../../shared/passes/pass-service.ts'
import { passPurpose } from '../../../../shared/passes/pass-purchase.ts'
import { submitShares, verifyBatch } from '../../../../shared/passes/work-service.ts'
import { createWorkStore } from '../../../../shared/passes/work-store.ts'
import type { WorkOrderRecord } from '../../../../shared/passes/work.ts'
import { nowSeconds } from '../../../../shared/platform/time.ts'
import type { Doc } from '../query.ts'
import { requireThat, stubs, tolerate } from '../stubs.ts'
import type { Scenario, World } from '../world.ts'
import { beginAgent, checkPass, readEntries } from './agents.ts'
import { rowsOf } from './books.ts'
import { createChain, type Chain, type ChainPayment } from './chain.ts'

const PATIENCE_MS = 10_000
const [AGENT, REFERRER] = ['agt_agent', 'agt_referrer']
const PRICE = 10n ** 29n
const DAYS = 5
const SHARES_PER_DAY = 3
const ORDER_DAYS = 2
/** Within which everything is paid, and invoices expire. */
const SOON_SECONDS = 4
const FREE_UNTIL_MS = Number.MAX_SAFE_INTEGER

/** An agent's pass is bought by work and by coin, by several workers at once, and by free days. */
export const passesScenario: Scenario = {
  name: 'passes',
  defineModels: openStores,
  play(world) {
    const { random, nowMs: beganMs } = world.schedule
    const open = () => openContext(world)
    const chain = createChain(world)
    beginAgent(world, REFERRER)
    beginAgent(world, AGENT, { ref: REFERRER })
    const orderIds = Array.from({ length: 1 + random.below(2) }, (_, index) => beginWorkOrder(world, index))
    for (let index = 1 + random.below(2); index > 0; index--) beginInvoice(world, chain, index)
    /** The nonces of each order that the service has said it stored. */
    const taken = new Map(orderIds.map((id) => [id, new Set<string>()]))
    for (const place of [0, 1, 2])
      world.spawn(`miner${place}`, async () => {
        const ctx = open()
        for (let turn = 0; turn < 4; turn++) {
          await world.pause()
          const orderId = random.pick(orderIds)
          const nonces = Array.from({ length: 1 + random.below(3) }, () => String(random.below(12)))
          await world.attempt(async () => {
            const { shares } = await submitShares(ctx, AGENT, orderId, nonces).catch(unlessOver)
            for (const nonce of shares) taken.get(orderId)?.add(nonce)
          })
        }
      })
    for (const place of [0, 1])
      world.spawn(
        `verifier${place}`,
        async () => {
          const ctx = open()
          for (let turn = 0; turn < 6; turn++) {
            await world.pause(400)
            await tolerate(() => verifyAll(ctx))
          }
        },
        3,
      )
    for (const place of [0, 1])
      world.spawn(
        `watcher${place}`,
        async () => {
          const ctx = open()
          for (let turn = 0; turn < 5; turn++) {
            await world.pause(random.pick([100, 4_000]))
            await tolerate(() => watch(ctx, random.pick(chain.payments)))
          }
        },
        2,
      )
    world.spawn(
      'expiry',
      async () => {
        const ctx = open()
        for (let turn = 0; turn < 3; turn++) {
          await world.pause(4_000)
          await tolerate(() => expireInvoices(ctx, 'xno', nowSeconds(ctx)))
        }
      },
      2,
    )
    world.spawn('free', async () => {
      const ctx = open()
      for (let turn = 0; turn < 2; turn++) {
        await world.pause(2_000)
        await tolerate(() => creditFreeDays(ctx, AGENT, 1 + random.below(2), FREE_UNTIL_MS))
      }
    })
    const check = (): void => checkPasses(world, beganMs)
    return {
      check,
      async finish() {
        const ctx = open()
        await new Promise((resolve) => setTimeout(resolve, 3 * SOON_SECONDS * 1_000))
        for (let round = 0; round < 3; round++) {
          for (const payment of chain.payments) await watch(ctx, payment, true)
          await expireInvoices(ctx, 'xno', nowSeconds(ctx))
          await verifyAll(ctx)
        }
      },
      checkEnd() {
        check()
        checkAtRest(world, chain, taken)
      },
    }
  },
}

function openStores(connection: Connection) {
  return {
    agents: createAgentStore(connection, PATIENCE_MS),
    work: createWorkStore(connection, PATIENCE_MS),
    coins: createCoinStore(connection),
    invoices: createInvoiceStore(connection),
    journal: createJournalStore(connection),
  }
}

const openContext = (world: World): Context =>
  ({
    ...openStores(world.connection),
    ...stubs(world),
    database: world.openDatabase(),
    purposes: { pass: passPurpose, order: passPurpose },
    queues: { enqueue: async () => {} },
  }) as unknown as Context

/** An order whose every nonce is a share. @returns its id */
function beginWorkOrder({ set, schedule }: World, index: number): string {
  const at = Math.floor(schedule.nowMs / 1_000)
  const order: WorkOrderRecord = {
    ...{ _id: `wrk_${index}`, agent_id: AGENT, at, days: ORDER_DAYS, shares_per_day: SHARES_PER_DAY },
    ...{
      shares_required: ORDER_DAYS * SHARES_PER_DAY,
      difficulty_bits: 0,
      prefix: 'ab'.repeat(16),
      open_slot: index,
    },
    ...{ expires_at: at + 30 * 86_400, shares_accepted: 0, credited_days: 0 },
  }
  set.begin('work_orders', order as unknown as Doc)
  return order._id
}

/** An invoice for days, which is paid in parts, in full, or with something left over. */
function beginInvoice({ set, schedule }: World, chain: Chain, index: number): void {
  const { random, nowMs } = schedule
  const at = Math.floor(nowMs / 1_000)
  for (const tenths of random.pick([[10], [4, 6], [6, 6], [4], [3, 9]]))
    chain.pay(index, (PRICE / 10n) * BigInt(tenths), SOON_SECONDS * 1_500)
  const invoice: InvoiceRecord = {
    ...{ _id: `inv_${index}`, agent_id: AGENT, at, coin: 'xno', days: DAYS, price_usd_cents: 100 },
    ...{ amount_raw: String(PRICE), rate: '1', rate_source: 's', rate_at: at, version: 0 },
    ...{ address: `nano_${index}`, address_index: index, expires_at: at + SOON_SECONDS, lapsed: false },
    ...{ received_raw: '0', carried_raw: '0', moved_raw: '0', unspent: '0', credited_days: 0 },
  }
  set.begin('invoices', invoice as unknown as Doc)
  set.begin('rates', { _id: 'xno', usd: '1000000', source: 's', at })
}

/** What refuses shares of an order that is over, or whose batch is full, takes none. */
function unlessOver(error: unknown): { shares: readonly string[] } {
  const { code } = error as { code?: string }
  if (code === 'wrong_state' || code === 'try_later') return { shares: [] }
  throw error
}

/** Verifies what waits, each batch by itself or together with others, as jobs come. */
async function verifyAll(ctx: Context): Promise<void> {
  const waiting = await ctx.work.listWaiting(Number.MAX_SAFE_INTEGER, 100)
  await Promise.all(waiting.map((batchId) => verifyBatch(ctx, batchId)))
}

async function watch(ctx: Context, payment: ChainPayment, isLast = false): Promise<void> {
  const { tx, addressIndex, amountRaw, confirmedAtMs, shownAtMs } = payment
  if (shownAtMs > Date.now()) return
  const isConfirmed = isLast || Date.now() >= confirmedAtMs
  const found = { coin: 'xno', tx, addressIndex, amountRaw, confirmations: isConfirmed ? 1 : 0 } as const
  await recordPayment(ctx, { ...found, isConfirmed })
}

/** Every nonce counts once for its order, and every day of the pass has the entry of what it was credited for. */
function checkPasses(world: World, beganMs: number): void {
  const agents = new Map(rowsOf<AgentRecord>(world, 'agents').map((agent) => [agent._id, agent]))
  const pages = rowsOf<{ order_id: string; nonces: string }>(world, 'share_pages')
  const orders = rowsOf<WorkOrderRecord>(world, 'work_orders')
  let counted = 0
  for (const order of orders) {
    const nonces = pages
      .filter(({ order_id: id }) => id === order._id)
      .flatMap((page) => page.nonces.split(' '))
    counted += nonces.length
    requireThat(new Set(nonces).size === nonces.length, `a nonce counts twice for ${order._id}`)
    requireThat(
      order.shares_accepted === nonces.length,
      `${order._id} counts ${order.shares_accepted} of ${nonces.length}`,
    )
    requireThat(nonces.length <= order.shares_required, `${order._id} counts more than it needs`)
    const days = Math.floor(nonces.length / SHARES_PER_DAY)
    requireThat(order.credited_days === days, `${order._id} credits ${order.credited_days} days for ${days}`)
  }
  const sums = rowsOf<{ shares: number }>(world, 'share_counts')
  const all = sums.reduce((total, { shares }) => total + shares, 0)
  requireThat(all === counted, `${all} shares are said to count, not ${counted}`)

  const entries = readEntries(world, ['work_orders', 'payments', 'invoices', 'agents'])
  const agent = agents.get(AGENT)
  requireThat(agent !== undefined, 'the agent is gone')
  const credits = checkPass(agent, entries, beganMs)
  const isPaid = credits.some(({ data }) => data['means'] !== 'free')
  requireThat(isPaid === (agent.first_paid_at !== undefined), 'the first payment is noted wrongly')
  const referred = agents.get(REFERRER)?.referrals.paying
  requireThat(referred === Number(isPaid), `${referred} agents are said to pay that were referred`)

  const invoices = rowsOf<InvoiceRecord>(world, 'invoices')
  const payments = rowsOf<PaymentRecord>(world, 'payments')
  const lines = rowsOf<JournalLine>(world, 'journal')
  const none = { orders: [], payouts: [], transfers: [] }
  const [fault] = [
    ...findMoneyFaults({ invoices, payments, entries }),
    ...findBookFaults({ ...none, invoices, payments, lines }),
  ]
  requireThat(fault === undefined, `the books do not add up: ${fault}`)
}

/** When all is over, every payment is settled, and every nonce that was taken counts, or its order is full. */
function checkAtRest(world: World, chain: Chain, taken: ReadonlyMap<string, ReadonlySet<string>>): void {
  const payments = rowsOf<PaymentRecord>(world, 'payments')
  for (const { tx } of chain.payments) {
    const [own, ...more] = payments.filter((payment) => payment.tx === tx)
    requireThat(own?.state === 'settled' && more.length === 0, `payment ${tx} ends ${own?.state}`)
  }
  const pages = rowsOf<{ order_id: string; nonces: string }>(world, 'share_pages')
  for (const { _id, shares_required: required } of rowsOf<WorkOrderRecord>(world, 'work_orders')) {
    const nonces = new Set(
      pages.filter(({ order_id: id }) => id === _id).flatMap((page) => page.nonces.split(' ')),
    )
    const lost = [...(taken.get(_id) ?? [])].filter((nonce) => !nonces.has(nonce))
    requireThat(nonces.size === required || lost.length === 0, `${_id} has lost the nonces ${lost.join(' ')}`)
  }
}
