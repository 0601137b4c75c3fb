import { expect } from 'vitest'
import fc from 'fast-check'
import { closeContext, type Context } from '../../shared/context.ts'
import type { Session } from '../../shared/platform/database.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import type { Ruling } from '../../shared/market/dispute-rules.ts'
import { decideDispute, undoDecision } from '../../shared/market/dispute-service.ts'
import { OUTAGE_GAP_MS, OUTAGE_GRACE_MS } from '../../shared/market/market-terms.ts'
import { makeOffer } from '../../shared/market/offer-service.ts'
import { actOnDeadline } from '../../shared/market/order-deadlines.ts'
import {
  acceptDelivery,
  deliverOrder,
  disputeOrder,
  refreshOrder,
  setRefundAddress,
} from '../../shared/market/order-service.ts'
import { placeOrder } from '../../shared/market/order-placing.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import { COINS, type Coin } from '../../shared/money/coin.ts'
import type { PaymentRecord, SeenPayment } from '../../shared/money/arrival.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { markPaidByHand } from '../../shared/money/payout-service.ts'
import { expireInvoices } from '../../shared/money/invoice-expiry.ts'
import { checkBooks } from './money.ts'
import { recordLoss, recordPayment, toldChain } from './told-chain.ts'
import { makeCoinReady, newTx } from './coins.ts'
import { emptyCollections, forgetGivenAddresses, isolate, leaveDatabase } from './servers.ts'
import { openWorkerContext } from './ledger.ts'
import { ADDRESSES, OFFER, checkMarket, vouch } from './market.ts'

/*
 * A simple model of the market beside the real one: each order as a state, a few sums and its payments; the
 * clock; and when the API served. Random histories are played on both and compared after every command, and
 * at its end all of the real one's money and its ledger are checked.
 */

const SELLER = 'agt_seller'
const BUYER = 'agt_buyer'
const HOUR_MS = 3_600_000
const PLACES = 12
/** Of the places that a command may name, those that mean an order on which it can do something. */
const MOSTLY = 10

interface ModelPayment {
  tx: string
  amount: bigint
  state: 'seen' | 'gone' | 'settled'
  lost: boolean
}

interface ModelOrder {
  id: string
  coin: Coin
  addressIndex: number
  amount: bigint
  fee: bigint
  status: string
  payBy: number
  deliverBy: number
  acceptBy: number
  lapsed: boolean
  disputedByChain: boolean
  hasAddress: boolean
  feeTaken: boolean
  payments: ModelPayment[]
  writtenOff: bigint
  /** Owed to each side: what can still be changed, and what was paid. */
  open: { seller: bigint; buyer: bigint }
  gone: { seller: bigint; buyer: bigint }
  /** Of what is open, what the operator's last decision owes or freed, and whether a payout of it was paid. */
  decided?: { seller: bigint; buyer: bigint; isPaid: boolean }
}

export class MarketModel {
  orders: ModelOrder[] = []
  nowMs: number
  servedUntil: number
  outages: { from: number; to: number }[] = []

  constructor(nowMs: number) {
    this.nowMs = nowMs
    this.servedUntil = nowMs
  }

  get now(): number {
    return Math.floor(this.nowMs / 1_000)
  }

  /** Mostly one in a state where the command has a chance, and sometimes any. */
  pick(place: number, ...statuses: string[]): ModelOrder | undefined {
    const fit = this.orders.filter(({ status }) => statuses.includes(status))
    const among = place < MOSTLY && fit.length > 0 ? fit : this.orders
    return among[place % Math.max(1, among.length)]
  }

  serve(): void {
    if (this.nowMs - this.servedUntil > OUTAGE_GAP_MS)
      this.outages.push({ from: this.servedUntil, to: this.nowMs })
    this.servedUntil = Math.max(this.servedUntil, this.nowMs)
  }

  /** A deadline with all the hours that outages have given it so far. */
  putOff(deadline: number): number {
    for (let time = deadline; ;) {
      const outage = this.outages.find(({ from, to }) => from < time * 1_000 && time * 1_000 <= to)
      if (outage === undefined) return time
      time = Math.ceil((outage.to + OUTAGE_GRACE_MS) / 1_000)
    }
  }

  deadlineOf(order: ModelOrder): number | undefined {
    if (order.status === 'paid') return this.putOff(order.deliverBy)
    if (order.status === 'delivered') return this.putOff(order.acceptBy)
    return undefined
  }
}

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n)
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b)
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const received = (order: ModelOrder): bigint =>
  sum(order.payments.filter(({ state }) => state === 'settled').map(({ amount }) => amount)) -
  order.writtenOff
const lost = (order: ModelOrder): bigint =>
  most(0n, sum(order.payments.filter((one) => one.lost).map(({ amount }) => amount)) - order.writtenOff)

function release(order: ModelOrder): void {
  order.status = 'released'
  order.feeTaken = true
  order.open.seller = order.amount - order.fee
}

/** The real market: its use cases on a database of their own, without Redis's help: every job is lost. */
export interface RealMarket {
  ctx: Context
  setClock(nowMs: number): void
  /** Empties it for the next history. */
  reset(): Promise<void>
  stop(): Promise<void>
}

export async function openRealMarket(): Promise<RealMarket> {
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  let clock = Date.now()
  const env = { MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl, QUEUE_PREFIX: queuePrefix }
  const opened = await openWorkerContext(env, () => clock)
  const ctx: Context = {
    ...opened,
    database: { ...opened.database, now: () => clock },
    queues: { ...opened.queues, enqueue: () => Promise.resolve(false) },
  }
  return {
    ctx,
    setClock(nowMs) {
      clock = nowMs
    },
    async reset() {
      await emptyCollections(ctx.database.connection)
      forgetGivenAddresses(ctx.database.connection)
      await vouch(ctx, clock)
      for (const coin of COINS) await makeCoinReady(ctx, coin, { addresses: 40, isRound: false })
    },
    async stop() {
      await leaveDatabase(ctx.database.connection)
      await closeContext(opened)
    },
  }
}

type Command = fc.AsyncCommand<MarketModel, RealMarket>

/** Every order of the real market is as the model says. */
async function compare(model: MarketModel, { ctx }: RealMarket): Promise<void> {
  const orders = new Map(
    (await ctx.orders.models.orders.find().lean<OrderRecord[]>()).map((order) => [order._id, order]),
  )
  const byOrder = Map.groupBy(
    await ctx.payouts.models.payouts.find().lean<PayoutRecord[]>(),
    ({ order_id: id }) => id,
  )
  for (const order of model.orders) {
    const real = orders.get(order.id)
    const payouts = (byOrder.get(order.id) ?? []).filter(({ state }) => state !== 'withdrawn')
    const of = (agentId: string, isOpen: boolean): bigint =>
      sum(
        payouts
          .filter(({ agent_id: id, state }) => id === agentId && (state === 'owed') === isOpen)
          .map(({ amount_raw: amount }) => BigInt(amount)),
      )
    expect({
      status: real?.status,
      feeTaken: real?.fee_taken === true,
      writtenOff: BigInt(real?.written_off_raw ?? -1),
      open: { seller: of(SELLER, true), buyer: of(BUYER, true) },
      gone: { seller: of(SELLER, false), buyer: of(BUYER, false) },
      isFrozen: payouts.some(({ frozen }) => frozen === true),
    }).toEqual({
      status: order.status,
      feeTaken: order.feeTaken,
      writtenOff: order.writtenOff,
      open: order.open,
      gone: order.gone,
      isFrozen:
        order.status === 'disputed' && order.disputedByChain && order.open.seller + order.open.buyer > 0n,
    })
  }
}

/** A command that changes both and compares them. */
function command(name: string, run: (model: MarketModel, real: RealMarket) => Promise<void>): Command {
  return {
    check: () => true,
    async run(model, real) {
      await run(model, real)
      await compare(model, real)
    },
    toString: () => name,
  }
}

/** A request that is served, and refused exactly where the model says. */
async function request(
  model: MarketModel,
  { ctx }: RealMarket,
  isAllowed: boolean,
  ask: () => Promise<unknown>,
): Promise<void> {
  model.serve()
  await ctx.orders.outages.recordRequest(ctx.now())
  const outcome = await ask().then(
    () => 'done',
    (error: unknown) => {
      if (error instanceof Refusal) return error.code
      throw error
    },
  )
  expect(outcome).toBe(isAllowed ? 'done' : 'wrong_state')
}

function placeCommand(coin: Coin, cents: number, hasAddress: boolean): Command {
  return command(`Order(${coin} ${cents}${hasAddress ? '' : ' without address'})`, async (model, real) => {
    const { ctx } = real
    model.serve()
    await ctx.orders.outages.recordRequest(ctx.now())
    // A round lapses what it finds unpaid: that is a command of its own.
    for (const one of COINS) await makeCoinReady(ctx, one, { addresses: 0, isRound: false })
    const offer = await makeOffer(ctx, SELLER, { ...OFFER, price_usd: cents / 100, delivery_hours: 2 })
    // One seller makes them all, more than may be open at once.
    await ctx.offers.models.offers.updateOne({ _id: offer._id }, { $unset: { open_slot: 1 } })
    const { order, invoice } = await placeOrder(ctx, BUYER, {
      offer_id: offer._id,
      currency: coin,
      refund_address: hasAddress ? ADDRESSES[coin] : undefined,
    })
    const amount = BigInt(order.amount_raw)
    model.orders.push({
      id: order._id,
      coin,
      addressIndex: invoice.address_index,
      amount,
      fee: (amount * 20n) / 100n,
      status: 'awaiting_payment',
      payBy: model.now + 3_600,
      deliverBy: 0,
      acceptBy: 0,
      lapsed: false,
      disputedByChain: false,
      hasAddress,
      feeTaken: false,
      payments: [],
      writtenOff: 0n,
      open: { seller: 0n, buyer: 0n },
      gone: { seller: 0n, buyer: 0n },
    })
  })
}

function settle(model: MarketModel, order: ModelOrder, payment: ModelPayment): void {
  payment.state = 'settled'
  if (order.status === 'awaiting_payment') {
    if (received(order) < order.amount) return
    order.status = 'paid'
    order.deliverBy = model.now + 7_200
    order.open.buyer += received(order) - order.amount
  } else if (order.status !== 'disputed') order.open.buyer += payment.amount
}

const seen = (order: ModelOrder, payment: ModelPayment, isConfirmed: boolean): SeenPayment => ({
  coin: order.coin,
  tx: payment.tx,
  addressIndex: order.addressIndex,
  amountRaw: payment.amount,
  confirmations: isConfirmed ? 20 : 1,
  isConfirmed,
})

function payCommand(
  place: number,
  percent: number,
  isConfirmed: boolean,
  times: number,
  crash: Crash,
): Command {
  return command(
    `Pay(#${place} ${percent}%${isConfirmed ? '' : ' unconfirmed'} found ${times} times${crash === 'none' ? '' : `, ${crash}`})`,
    async (model, real) => {
      const order = model.pick(place, 'awaiting_payment')
      if (order === undefined) return
      const payment: ModelPayment = {
        tx: newTx(),
        amount: (order.amount * BigInt(percent)) / 100n,
        state: 'seen',
        lost: false,
      }
      const found = seen(order, payment, isConfirmed)
      if (crash !== 'none') await recordPayment(crashing(real.ctx, crash), found).catch(onlyCrash)
      // The next look brings the same find, perhaps several workers at once.
      await Promise.all(Array.from({ length: times }, () => recordPayment(real.ctx, found)))
      order.payments.push(payment)
      if (isConfirmed) settle(model, order, payment)
    },
  )
}

async function realPayment({ ctx }: RealMarket, payment: ModelPayment): Promise<PaymentRecord> {
  const found = await ctx.invoices.arrivals.models.payments.findOne({ tx: payment.tx }).lean<PaymentRecord>()
  if (found === null) throw new Error(`there is no payment ${payment.tx}`)
  return found
}

/**
 * News of a payment, the `which`-th that is fit for them: it is confirmed, vanishes, is taken back, or is
 * there again.
 */
function newsCommand(news: 'confirm' | 'vanish' | 'lose' | 'return', which: number): Command {
  return command(`${news}(${which})`, async (model, real) => {
    const fits = ({ state, lost: isLost }: ModelPayment): boolean =>
      news === 'confirm'
        ? state !== 'settled'
        : news === 'vanish'
          ? state === 'seen'
          : state === 'settled' && isLost === (news === 'return')
    const fit = model.orders.flatMap((order) =>
      order.payments.filter(fits).map((payment) => ({ order, payment })),
    )
    const chosen = fit[which % Math.max(1, fit.length)]
    if (chosen === undefined) return
    const { order, payment } = chosen
    if (news === 'vanish' || news === 'lose') await recordLoss(real.ctx, await realPayment(real, payment))
    else await recordPayment(real.ctx, seen(order, payment, true))
    if (news === 'confirm') settle(model, order, payment)
    if (news === 'vanish') payment.state = 'gone'
    if (news === 'lose') {
      payment.lost = true
      order.status = 'disputed'
      order.disputedByChain = true
    }
    if (news === 'return') {
      payment.lost = false
      const back = least(order.writtenOff, payment.amount)
      order.writtenOff -= back
      if (order.status !== 'disputed') order.open.buyer += back
    }
  })
}

function stepCommand(step: 'deliver' | 'accept' | 'dispute' | 'refund-address', place: number): Command {
  return command(`${step}(#${place})`, async (model, real) => {
    const order = model.pick(
      place,
      ...(step === 'deliver' ? ['paid'] : step === 'refund-address' ? [] : ['delivered']),
    )
    if (order === undefined) return
    model.serve()
    const isInTime = model.now < (model.deadlineOf(order) ?? 0)
    const { ctx } = real
    if (step === 'refund-address') {
      await request(model, real, !order.hasAddress, () =>
        setRefundAddress(ctx, BUYER, { order_id: order.id, address: ADDRESSES[order.coin] }),
      )
      order.hasAddress = true
      return
    }
    const isAllowed = isInTime && order.status === (step === 'deliver' ? 'paid' : 'delivered')
    await request(model, real, isAllowed, () =>
      step === 'deliver'
        ? deliverOrder(ctx, SELLER, { order_id: order.id, delivery: 'x' })
        : step === 'accept'
          ? acceptDelivery(ctx, BUYER, { order_id: order.id })
          : disputeOrder(ctx, BUYER, { order_id: order.id, reason: 'x' }),
    )
    if (!isAllowed) return
    if (step === 'deliver') {
      order.status = 'delivered'
      order.acceptBy = model.now + 72 * 3_600
    } else if (step === 'accept') release(order)
    else {
      order.status = 'disputed'
      order.disputedByChain = false
    }
  })
}

/** Both sides of an acceptance and the deadline at once: one wins. */
function raceCommand(place: number): Command {
  return command(`race(#${place})`, async (model, real) => {
    const order = model.pick(place, 'delivered')
    if (order === undefined) return
    const { ctx } = real
    model.serve()
    await ctx.orders.outages.recordRequest(ctx.now())
    // What was put off is put off by now, so that every order's deadline is the model's.
    const [{ due_at: due = 0 } = {}] = await Promise.all(
      [order, ...model.orders].map(({ id }) => refreshOrder(ctx, BUYER, id)),
    )
    const [accepted, disputed] = await Promise.allSettled([
      acceptDelivery(ctx, BUYER, { order_id: order.id }),
      disputeOrder(ctx, BUYER, { order_id: order.id, reason: 'x' }),
      actOnDeadline(ctx, due),
      actOnDeadline(ctx, due),
    ])
    const deadline = model.deadlineOf(order)
    const isOver = deadline !== undefined && model.now >= deadline
    const won = [accepted, disputed].filter(({ status }) => status === 'fulfilled').length
    expect(won).toBe(order.status === 'delivered' && !isOver ? 1 : 0)
    if (isOver) for (const one of model.orders.filter((other) => model.deadlineOf(other) === due)) act(one)
    else if (accepted.status === 'fulfilled') release(order)
    else if (disputed.status === 'fulfilled') {
      order.status = 'disputed'
      order.disputedByChain = false
    }
  })
}

/** Whether it was done; false if it was refused. */
const isDone = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    (error: unknown) => {
      if (error instanceof Refusal) return false
      throw error
    },
  )

function decideCommand(place: number, ruling: Ruling): Command {
  return command(`${JSON.stringify(ruling)}(#${place})`, async (model, real) => {
    const order = model.pick(place, 'disputed')
    if (order === undefined) return
    const isRelease = ruling !== 'refund'
    const percent = BigInt(typeof ruling === 'object' ? ruling.percent : isRelease ? 100 : 0)
    const seller = ((order.amount - order.fee) * percent) / 100n
    const price = seller + (order.fee * percent) / 100n
    const buyer = most(received(order) - lost(order) - price, order.gone.buyer)
    const writeOff = received(order) - price - buyer
    const isAllowed =
      order.status === 'disputed' &&
      order.gone.seller <= seller &&
      (!isRelease || (received(order) >= order.amount && writeOff >= 0n))
    expect(await isDone(decideDispute(real.ctx, order.id, ruling))).toBe(isAllowed)
    if (!isAllowed) return
    order.writtenOff += writeOff
    const before = order.open
    order.open = { seller: seller - order.gone.seller, buyer: buyer - order.gone.buyer }
    const decided = (side: 'seller' | 'buyer'): bigint =>
      order.disputedByChain || order.open[side] !== before[side] ? order.open[side] : 0n
    order.decided = { seller: decided('seller'), buyer: decided('buyer'), isPaid: false }
    order.feeTaken = isRelease
    order.status = isRelease ? 'released' : 'refunded'
    if (isRelease && order.open.seller === 0n) order.status = 'paid_out'
  })
}

/** The operator takes his last decision back. */
function undoCommand(place: number): Command {
  return command(`undo(#${place})`, async (model, real) => {
    const order = model.pick(place, 'released', 'refunded')
    if (order === undefined) return
    const { decided } = order
    const isAllowed =
      ['released', 'refunded'].includes(order.status) && decided !== undefined && !decided.isPaid
    expect(await isDone(undoDecision(real.ctx, order.id))).toBe(isAllowed)
    if (!isAllowed) return
    order.open.seller -= decided.seller
    order.open.buyer -= decided.buyer
    order.writtenOff = 0n
    order.feeTaken = false
    order.status = 'disputed'
    delete order.decided
  })
}

/** The operator pays a sum by hand. */
function payoutCommand(place: number, side: 'seller' | 'buyer'): Command {
  return command(`pay-out(#${place} to the ${side})`, async (model, real) => {
    const order = model.pick(place, ...(side === 'seller' ? ['released'] : ['refunded', 'expired']))
    if (order === undefined) return
    const payouts = await real.ctx.payouts.listByOrder(order.id)
    const payout = payouts.find(
      ({ agent_id: id, state }) => id === (side === 'seller' ? SELLER : BUYER) && state === 'owed',
    )
    if (payout === undefined) return
    const isAllowed =
      (side === 'seller' || order.hasAddress) && !(order.status === 'disputed' && order.disputedByChain)
    const answers = await Promise.all(
      [newTx(), newTx()].map((tx) => markPaidByHand(real.ctx, payout._id, tx)),
    )
    expect(answers.filter((isDone) => isDone)).toHaveLength(isAllowed ? 1 : 0)
    if (!isAllowed) return
    const amount = BigInt(payout.amount_raw)
    order.open[side] -= amount
    order.gone[side] += amount
    const { decided_version: version } = (await real.ctx.orders.find(order.id)) ?? {}
    if (order.decided !== undefined && payout.decided?.version === version) {
      order.decided[side] -= amount
      order.decided.isPaid = true
    }
    if (side === 'seller' && order.status === 'released' && order.open.seller === 0n)
      order.status = 'paid_out'
  })
}

function act(order: ModelOrder): void {
  if (order.status === 'delivered') release(order)
  else {
    order.status = 'refunded'
    order.open.buyer += order.amount
  }
}

/** What a worker does with everything that is due; it may die in the middle, or two may be at it. */
function deadlinesCommand(crash: Crash, workers: number): Command {
  return command(
    `deadlines(${workers} workers${crash === 'none' ? '' : `, ${crash}`})`,
    async (model, real) => {
      const ctx = crash === 'none' ? real.ctx : crashing(real.ctx, crash)
      // A deadline that was put off may be due again.
      for (let round = 0; round < 3; round++) {
        const times = await real.ctx.orders.listDueTimes(model.now, 100)
        for (const due of times)
          await Promise.all(Array.from({ length: workers }, () => actOnDeadline(ctx, due).catch(onlyCrash)))
      }
      if (crash === 'dies before its commit') return
      for (const order of model.orders) {
        const deadline = model.deadlineOf(order)
        if (deadline !== undefined && deadline <= model.now && deadline * 1_000 <= model.servedUntil)
          act(order)
      }
    },
  )
}

/** The look at the chain after which unpaid orders expire. */
function lapseCommand(): Command {
  return command('look at the chain', async (model, real) => {
    for (const coin of COINS) await expireInvoices(real.ctx, coin, model.now)
    for (const order of model.orders) {
      if (order.lapsed || order.payBy >= model.now || order.payments.some(({ state }) => state === 'seen'))
        continue
      order.lapsed = true
      if (order.status !== 'awaiting_payment') continue
      order.status = 'expired'
      order.open.buyer += received(order)
    }
  })
}

function passCommand(ms: number, isServing: boolean): Command {
  return command(
    `${isServing ? 'time' : 'an outage'} of ${Math.round(ms / 1_000)} s`,
    async (model, real) => {
      if (isServing) {
        model.serve()
        await real.ctx.orders.outages.recordRequest(model.nowMs)
      }
      model.nowMs += ms
      real.setClock(model.nowMs)
      if (!isServing) return
      model.servedUntil = model.nowMs
      await vouch(real.ctx, model.nowMs)
    },
  )
}

type Crash = 'none' | 'dies before its commit' | 'dies after its commit'

class CrashError extends Error {}

const onlyCrash = (error: unknown): void => {
  if (!(error instanceof CrashError)) throw error
}

/**
 * A worker whose transactions are cut off: before the commit nothing of them is stored, after it everything,
 * and it never learns.
 */
function crashing(ctx: Context, crash: Exclude<Crash, 'none'>): Context {
  return {
    ...ctx,
    database: {
      ...ctx.database,
      async transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
        await ctx.database.transaction(async (session) => {
          await work(session)
          if (crash === 'dies before its commit') throw new CrashError()
        })
        throw new CrashError()
      },
    },
  }
}

const place = () => fc.nat(PLACES - 1)
const crash = () =>
  fc.constantFrom<Crash>('none', 'none', 'none', 'dies before its commit', 'dies after its commit')
/**
 * Times around the deadlines: an hour to pay, two to deliver, 72 to accept; never so short a pause that it is
 * no outage.
 */
const duration = () =>
  fc.oneof(
    fc.integer({ min: 20_000, max: 90 * 60_000 }),
    fc.constantFrom(
      HOUR_MS,
      HOUR_MS + 1_000,
      2 * HOUR_MS - 1_000,
      2 * HOUR_MS,
      72 * HOUR_MS - 1_000,
      72 * HOUR_MS,
      80 * HOUR_MS,
    ),
  )

/** A history: orders that are on their way when it begins, and what befalls them. */
export interface History {
  beginning: readonly Command[]
  commands: Iterable<Command>
}

/** An order, the first of its history or one after `before` others, on its way as far as `stage`. */
const beginning = () =>
  fc
    .array(
      fc.record({
        coin: fc.constantFrom(...COINS),
        cents: fc.integer({ min: 100, max: 500_000 }),
        hasAddress: fc.boolean(),
        stage: fc.constantFrom('placed', 'paid', 'delivered', 'delivered'),
      }),
      { minLength: 1, maxLength: 4 },
    )
    .map((orders) =>
      orders.flatMap(({ coin, cents, hasAddress, stage }, at) => [
        placeCommand(coin, cents, hasAddress),
        ...(stage === 'placed' ? [] : [payCommand(at, 100, true, 1, 'none')]),
        ...(stage === 'delivered' ? [stepCommand('deliver', at)] : []),
      ]),
    )

/** Histories of a market, of at most `maxCommands` after their beginning. */
export function histories(maxCommands: number): fc.Arbitrary<History> {
  const weighted = (weight: number, arbitrary: fc.Arbitrary<Command>) =>
    Array.from({ length: weight }, () => arbitrary)
  const commands = fc.commands(
    [
      ...weighted(
        1,
        fc
          .tuple(fc.constantFrom(...COINS), fc.integer({ min: 100, max: 500_000 }), fc.boolean())
          .map((of) => placeCommand(...of)),
      ),
      ...weighted(
        4,
        fc
          .tuple(
            place(),
            fc.oneof(fc.constantFrom(100, 100, 100, 50, 200), fc.integer({ min: 1, max: 150 })),
            fc.boolean(),
            fc.integer({ min: 1, max: 3 }),
            crash(),
          )
          .map((of) => payCommand(...of)),
      ),
      ...weighted(
        4,
        fc
          .tuple(fc.constantFrom('confirm', 'confirm', 'vanish', 'lose', 'lose', 'return'), fc.nat(10))
          .map(([news, which]) => newsCommand(news as 'confirm', which)),
      ),
      ...weighted(
        4,
        place().map((at) => stepCommand('deliver', at)),
      ),
      ...weighted(
        2,
        place().map((at) => stepCommand('accept', at)),
      ),
      ...weighted(
        2,
        place().map((at) => stepCommand('dispute', at)),
      ),
      ...weighted(
        1,
        place().map((at) => stepCommand('refund-address', at)),
      ),
      ...weighted(
        1,
        place().map((at) => raceCommand(at)),
      ),
      ...weighted(
        3,
        fc
          .tuple(
            place(),
            fc.oneof(
              fc.constantFrom<Ruling>('release', 'refund'),
              fc.integer({ min: 1, max: 99 }).map((percent) => ({ percent })),
            ),
          )
          .map(([at, ruling]) => decideCommand(at, ruling)),
      ),
      ...weighted(
        2,
        place().map((at) => undoCommand(at)),
      ),
      ...weighted(
        2,
        fc
          .tuple(place(), fc.constantFrom('seller', 'buyer'))
          .map(([at, side]) => payoutCommand(at, side as 'seller')),
      ),
      ...weighted(
        3,
        fc.tuple(crash(), fc.integer({ min: 1, max: 2 })).map((of) => deadlinesCommand(...of)),
      ),
      ...weighted(
        2,
        fc.constant(null).map(() => lapseCommand()),
      ),
      ...weighted(
        3,
        duration().map((ms) => passCommand(ms, true)),
      ),
      ...weighted(
        1,
        duration().map((ms) => passCommand(ms, false)),
      ),
    ],
    { maxCommands, size: 'max' },
  )
  return fc.record({ beginning: beginning(), commands })
}

/** Plays one history from an empty market. */
export async function playHistory(real: RealMarket, { beginning: first, commands }: History): Promise<void> {
  const start = Math.floor(Date.now() / 1_000) * 1_000
  real.setClock(start)
  await real.reset()
  const model = new MarketModel(start)
  await fc.asyncModelRun(() => ({ model, real }), first)
  await fc.asyncModelRun(() => ({ model, real }), commands)
  await checkMarket(real.ctx)
  await checkBooks(real.ctx, toldChain(real.ctx))
}
