import { usageError } from '../../client/command/command-error.ts'
import { formatTime, oneLine, setIn } from '../../client/command/format.ts'
import type { Context } from '../../shared/context.ts'
import type { Session } from '../../shared/servers/database.ts'
import { Refusal } from '../../shared/foundation/errors.ts'
import { LIST_LIMIT } from '../../shared/foundation/limits.ts'
import { decideDispute, DISPUTE_OUTCOMES } from '../../shared/market/dispute-service.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import { forgetRefundAddress, storeRefundAddress } from '../../shared/market/order-service.ts'
import { COIN_FACTS } from '../../shared/payments/coin-facts.ts'
import { COINS, formatAmount, type Coin } from '../../shared/payments/coin.ts'
import { readSendable } from '../../shared/payments/due-payouts.ts'
import type { PayoutRecord, PayoutState } from '../../shared/payments/payout.ts'
import { markPaidByHand, markPartPaid, undoPaidByHand } from '../../shared/payments/payout-service.ts'
import { nowSeconds } from '../../shared/foundation/time.ts'
import { lookUp, paidTo, requireTx } from './look-up.ts'
import { rehearse } from './rehearse.ts'
import { showDone, sumAmounts } from './shown.ts'
import {
  defineOperatorVerb,
  limitOf,
  limitOption,
  wrongState,
  type OperatorVerb,
  type Shown,
} from './verb.ts'

/** What needs the operator most comes first, because a long list is cut at its end. */
const UNPAID: readonly PayoutState[] = ['held', 'sent', 'signed', 'owed']

export const marketVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'payouts',
    words: [],
    options: {
      all: { kind: 'flag', help: 'those that are paid or withdrawn too' },
      ...limitOption('per coin at most of those that cannot be paid now'),
    },
    help: 'What is owed to whom, where it is to be paid, and what is due: together at least the smallest payout',
    changes: false,
    run: ({ ctx, options }) => listPayouts(ctx, options.all, limitOf(options)),
  }),
  defineOperatorVerb({
    name: 'payout-paid',
    words: ['[PAYOUT_ID]', '[TX]'],
    options: {
      undo: { kind: 'text', value: 'PAYOUT_ID', help: 'what was recorded so was not paid: it is owed again' },
      address: {
        kind: 'text',
        value: 'ADDRESS',
        help: "where you paid it, of a buyer that has named no address: it becomes the order's",
      },
      part: { kind: 'flag', help: 'it paid a part of what a buyer is owed; the rest stays owed' },
    },
    help: 'Record that you paid a payout by hand, with the transaction or block TX; one that is held, only after a look at the chain',
    changes: true,
    async run({ ctx, words: [payoutId, tx], options: { undo, address, part }, dryRun }) {
      if (undo !== undefined) return undoPaid(ctx, undo, dryRun)
      if (payoutId === undefined || tx === undefined)
        throw usageError('"payout-paid" takes PAYOUT_ID TX, or --undo PAYOUT_ID.')
      if (part) return recordPart(ctx, payoutId, tx.toLowerCase(), dryRun)
      return recordPaid(ctx, payoutId, tx.toLowerCase(), address, dryRun)
    },
  }),
  defineOperatorVerb({
    name: 'pay',
    words: ['[PAYEE]'],
    options: { all: { kind: 'flag', help: 'all payouts that are due, whoever they are owed to' } },
    help: 'Let the worker with the wallet send what is owed to PAYEE, an agent or an address, though PAYOUTS is manual',
    changes: true,
    run: ({ ctx, words: [payee], options, dryRun }) => askToPay(ctx, payee, options.all, dryRun),
  }),
  defineOperatorVerb({
    name: 'disputes',
    words: [],
    options: limitOption(),
    help: 'Orders that wait for your decision, the longest first, with what their buyers say',
    changes: false,
    run: ({ ctx, options }) => listDisputes(ctx, limitOf(options)),
  }),
  defineOperatorVerb({
    name: 'dispute',
    words: ['ORDER_ID', 'OUTCOME'],
    options: {},
    help: 'Decide a disputed order: OUTCOME is release (for the seller) or refund (for the buyer)',
    changes: true,
    async run({ ctx, words: [orderId, outcome], dryRun }) {
      const known = DISPUTE_OUTCOMES.find((one) => one === outcome)
      if (known === undefined)
        throw usageError(`OUTCOME expected ${DISPUTE_OUTCOMES.join(' or ')}, got ${JSON.stringify(outcome)}.`)
      const decided = await decideDispute(dryRun ? rehearse(ctx) : ctx, orderId, known)
      const { order, sellerRaw, buyerRaw, feeRaw, writtenOffRaw } = decided
      const show = (raw: bigint): string => formatAmount(raw, order.coin)
      return showDone(
        {
          order_id: order._id,
          status: order.status,
          currency: order.coin,
          seller: show(sellerRaw),
          buyer: show(buyerRaw),
          fee: show(feeRaw),
          ...(writtenOffRaw === 0n ? {} : { written_off: show(writtenOffRaw) }),
          ledger_entry: 'dispute_outcome',
        },
        dryRun,
      )
    },
  }),
]

async function findPayout(ctx: Context, payoutId: string): Promise<PayoutRecord> {
  const payout = await ctx.payouts.find(payoutId)
  if (payout === undefined)
    throw new Refusal('no_such_record', 'There is no payout with this id; "payouts" lists them.')
  return payout
}

/** @param address the buyer's refund address if the buyer has named none */
async function recordPaid(
  ctx: Context,
  payoutId: string,
  tx: string,
  address: string | undefined,
  dryRun: boolean,
): Promise<Shown> {
  requireTx(tx)
  const payout = await findPayout(ctx, payoutId)
  await requireOwnTransaction(ctx, payout, tx, { named: address })
  const own = dryRun ? rehearse(ctx) : ctx
  const named = address === undefined ? undefined : await nameAddressAndMarkPaid(own, payout, address, tx)
  if (address === undefined && !(await markPaidByHand(own, payoutId, tx)))
    throw unpayable((await ctx.payouts.find(payoutId)) ?? payout)
  return showDone(
    {
      payout_id: payoutId,
      order_id: payout.order_id ?? null,
      agent_id: payout.agent_id,
      currency: payout.coin,
      amount: amountOf(payout),
      address: named ?? payout.address ?? null,
      state: 'manual',
      tx_hash: tx,
      ledger_entry: 'payout',
    },
    dryRun,
    named === undefined ? undefined : 'The address is the refund address of the order from now on.',
  )
}

const amountOf = ({ amount_raw: raw, coin }: { amount_raw: string; coin: Coin }): string =>
  formatAmount(BigInt(raw), coin)

/**
 * Records that a transaction paid a part of what a buyer is owed: after a restore the sum that is owed may be
 * another one than when it was paid.
 */
async function recordPart(ctx: Context, payoutId: string, tx: string, dryRun: boolean): Promise<Shown> {
  requireTx(tx)
  const payout = await findPayout(ctx, payoutId)
  const { coin, order_id: orderId, agent_id: agentId } = payout
  const order = orderId === undefined ? undefined : await ctx.orders.find(orderId)
  if (order?.buyer_id !== agentId) throw wrongState('Only what a buyer is owed can have been paid in part.')
  const leftRaw = await requireOwnTransaction(ctx, payout, tx, { isPart: true })
  if (leftRaw === undefined)
    throw wrongState('The chain does not say that this transaction paid a part of it.')
  const done = await markPartPaid(dryRun ? rehearse(ctx) : ctx, payoutId, tx, leftRaw)
  if (done === undefined) throw unpayable((await ctx.payouts.find(payoutId)) ?? payout)
  const { part, rest } = done
  return showDone(
    {
      payout_id: payoutId,
      order_id: orderId ?? null,
      currency: coin,
      state: 'withdrawn',
      part_payout_id: part._id,
      part: amountOf(part),
      tx_hash: tx,
      rest_payout_id: rest._id,
      rest: amountOf(rest),
      ledger_entry: 'payout',
    },
    dryRun,
  )
}

/**
 * Checks that a transaction can have paid this payout: it is on record for nothing else and, if the chain can
 * be asked, pays the payout's address at least all that is on record as paid there by it.
 *
 * @returns with `isPart`, the amount that it pays of this payout if that is less than the whole
 * @throws Refusal `wrong_state`
 */
async function requireOwnTransaction(
  ctx: Context,
  payout: PayoutRecord,
  tx: string,
  { named, isPart = false }: { named?: string | undefined; isPart?: boolean } = {},
): Promise<bigint | undefined> {
  const { coin, _id } = payout
  const address = named ?? payout.address
  const { paysOneAddress } = COIN_FACTS[coin]
  const refuse = (why: string): never => {
    throw wrongState(`This transaction ${why}; it cannot have paid this payout.`)
  }
  for (const other of COINS) {
    const [payment] = await ctx.invoices.listPaymentsByTx(other, [tx])
    if (payment !== undefined) refuse(`is on record as the payment ${payment._id}`)
  }
  const byHand = await Promise.all(COINS.map((one) => ctx.payouts.listPaidByHand(one, tx)))
  const others = byHand.flat().filter((one) => one._id !== _id)
  for (const other of others) {
    if (other.coin !== coin) refuse(`is on record for the payout ${other._id} in ${other.coin}`)
    if (paysOneAddress && other.address !== address)
      refuse(`is on record for the payout ${other._id} to another address`)
  }
  const transfer = await ctx.payouts.findTransferByTx(coin, tx)
  if (transfer !== undefined && (transfer.kind !== 'payout' || transfer.payout_ids.length > 0))
    refuse(
      `is one of the workers' own (${transfer._id}), which carries ${transfer.payout_ids.join(', ') || 'no payout'}`,
    )
  if (address === undefined) return undefined
  const looked = await lookUp(ctx, coin, tx)
  if (looked === 'unasked' || !looked.isKnown) return undefined
  // A Monero wallet that was restored does not know whom its own transactions paid.
  if (looked.pays.length === 0 && !paysOneAddress) return undefined
  const sentRaw = paidTo(coin, looked.pays, address).reduce((sum, { amountRaw }) => sum + amountRaw, 0n)
  const neededRaw = sumAmounts([payout, ...others.filter((one) => one.address === address)])
  if (sentRaw === 0n)
    refuse(`pays ${looked.pays.map(({ to }) => to).join(', ') || 'nobody'}, and not ${address}`)
  if (sentRaw >= neededRaw) return undefined
  const leftRaw = sentRaw - (neededRaw - BigInt(payout.amount_raw))
  if (isPart && leftRaw > 0n) return leftRaw
  return refuse(
    `pays ${formatAmount(sentRaw, coin)} ${coin} to this address, less than the ${formatAmount(neededRaw, coin)} that it is said to`,
  )
}

async function undoPaid(ctx: Context, payoutId: string, dryRun: boolean): Promise<Shown> {
  const payout = await findPayout(ctx, payoutId)
  const { coin, order_id: orderId, named_address: isNamed } = payout
  const own = dryRun ? rehearse(ctx) : ctx
  const isForgotten = await own.database.transaction(async (session) => {
    if (!(await undoPaidByHand(inTransaction(own, session), payoutId)))
      throw wrongState(
        `The payout is ${payout.state}; only one that was recorded as paid by hand can be taken back.`,
      )
    return isNamed === true && orderId !== undefined && (await forgetRefundAddress(own, orderId, session))
  })
  const fields = { payout_id: payoutId, order_id: orderId ?? null, currency: coin, amount: amountOf(payout) }
  return showDone(
    { ...fields, state: 'owed', ledger_entry: 'payout' },
    dryRun,
    isForgotten ? 'The refund address that was named with it is taken back as well.' : undefined,
  )
}

/** A context whose transactions are parts of this one. */
const inTransaction = (ctx: Context, session: Session): Context => ({
  ...ctx,
  database: { ...ctx.database, transaction: (work) => work(session) },
})

/**
 * Marks payouts as asked for; the wallet's worker sends them with its next round, as it does with
 * PAYOUTS=automatic.
 *
 * @param all whether everything that is due is meant, whoever it is owed to
 */
async function askToPay(
  ctx: Context,
  payee: string | undefined,
  all: boolean,
  dryRun: boolean,
): Promise<Shown> {
  if ((payee === undefined) !== all)
    throw usageError('"pay" takes a PAYEE, an agent id or an address, or --all.')
  const chosen: PayoutRecord[] = []
  for (const coin of COINS) {
    const { payouts, due } = await readSendable(ctx, coin)
    const address = payee === undefined ? undefined : COIN_FACTS[coin].parseAddress(payee)?.address
    const isPayees = (payout: PayoutRecord): boolean =>
      payout.agent_id === payee || (address !== undefined && payout.address === address)
    chosen.push(...(all ? due : payouts.filter(isPayees)))
  }
  if (chosen.length === 0)
    throw new Refusal(
      'no_such_record',
      all
        ? 'Nothing is due; "payouts" says why not.'
        : 'Nothing that could be sent is owed to this payee; "payouts" says why not.',
    )
  const ids = chosen.map(({ _id }) => _id)
  if (!dryRun) await ctx.payouts.mark(ids, 'asked_at', nowSeconds(ctx))
  const sums = COINS.map((coin) => {
    const own = chosen.filter((payout) => payout.coin === coin)
    return [coin, formatAmount(sumAmounts(own), coin)] as const
  })
  const shown = showDone(
    { payouts: chosen.length, ...Object.fromEntries(sums), ledger_entry: null },
    dryRun,
    'A worker with the wallet sends them with its next round; "payouts" shows how far they are.',
  )
  return { ...shown, answer: { ...shown.answer, payout_ids: ids } }
}

/**
 * Names the buyer's refund address and records the payment, both or neither: if a payout had the address
 * alone, the workers would pay it once more.
 *
 * @returns the address in its usual spelling
 */
async function nameAddressAndMarkPaid(
  ctx: Context,
  payout: PayoutRecord,
  text: string,
  tx: string,
): Promise<string> {
  const { _id: payoutId, order_id: orderId } = payout
  if (payout.address !== undefined || orderId === undefined)
    throw wrongState('The payout has an address, and it stays as it is; leave --address out.')
  return ctx.database.transaction(async (session) => {
    const order = await ctx.orders.find(orderId, session)
    const named = order && (await storeRefundAddress(ctx, order, text, session))
    if (named?.refund_address === undefined)
      throw new Error(`order ${orderId} changed inside its own transaction`)
    if (!(await markPaidByHand(inTransaction(ctx, session), payoutId, tx, true)))
      throw unpayable((await ctx.payouts.find(payoutId, session)) ?? payout)
    return named.refund_address
  })
}

/** Why a payout can't be recorded as paid by hand. */
function unpayable({ state, frozen, address }: PayoutRecord): Refusal {
  if (frozen === true)
    return wrongState('The payout is frozen, because its order is disputed; decide that first.')
  if (address === undefined && (state === 'owed' || state === 'held'))
    return wrongState(
      'The buyer has not named a refund address; --address names one that you have from the buyer.',
    )
  return wrongState(`The payout is ${state}; only one that is owed or held can be paid by hand.`)
}

/** The payouts to one address in one coin. */
interface Payee {
  currency: Coin
  address: string | null
  payouts: PayoutRecord[]
  /** What is owed and can be sent. */
  payableRaw: bigint
  isDue: boolean
}

async function listPayouts(ctx: Context, all: boolean, limit: number): Promise<Shown> {
  const states: readonly PayoutState[] = all ? [...UNPAID, 'confirmed', 'manual', 'withdrawn'] : UNPAID
  const payees: Payee[] = []
  /** Owed for an order whose money was recorded by hand, and which the chain hasn't shown yet. */
  const waiting = new Set<string>()
  const cut: Coin[] = []
  for (const coin of COINS) {
    const sendable = await readSendable(ctx, coin)
    const [ready, due] = [idsOf(sendable.payouts), idsOf(sendable.due)]
    // What can be paid is shown whole: a part of it would give a wrong sum for its payee.
    const payouts: PayoutRecord[] = []
    for await (const payout of ctx.payouts.walkSendable(coin)) payouts.push(payout)
    for (const { _id } of payouts) if (!ready.has(_id)) waiting.add(_id)
    const others: PayoutRecord[] = []
    for (const state of states)
      if (others.length <= limit)
        others.push(...(await ctx.payouts.listUnsendable(coin, state, limit + 1 - others.length)))
    if (others.length > limit) cut.push(coin)
    payouts.push(...others.slice(0, limit))
    for (const [address, own] of Map.groupBy(payouts, (payout) => payout.address ?? null)) {
      const payable = own.filter(
        ({ _id, state, frozen, to_self: toSelf }) =>
          state === 'owed' && frozen !== true && toSelf !== true && !waiting.has(_id),
      )
      const isDue = own.some(({ _id }) => due.has(_id))
      payees.push({ currency: coin, address, payouts: own, payableRaw: sumAmounts(payable), isDue })
    }
  }
  // Stable: what cannot be paid stays behind what can.
  payees.sort((left, right) => Number(right.isDue) - Number(left.isDue))
  const lines = payees.map((payee) => formatPayee(payee, waiting))
  if (cut.length > 0)
    lines.push(
      `There is more that cannot be paid now (${cut.join(', ')}); --limit shows up to ${LIST_LIMIT.max} of it per coin.`,
    )
  return {
    answer: {
      ok: true,
      payees: payees.map(({ currency, address, payouts, payableRaw, isDue }) => ({
        currency,
        address,
        payable: formatAmount(payableRaw, currency),
        due: isDue,
        payouts: payouts.map((payout) => viewPayout(payout, waiting)),
      })),
      count: payees.length,
      truncated: cut.length > 0,
    },
    text: payees.length === 0 ? 'Nothing is owed.' : lines.join('\n'),
  }
}

const idsOf = (payouts: readonly PayoutRecord[]): ReadonlySet<string> =>
  new Set(payouts.map(({ _id }) => _id))

function viewPayout(payout: PayoutRecord, waiting: ReadonlySet<string>): object {
  return {
    payout_id: payout._id,
    agent_id: payout.agent_id,
    order_id: payout.order_id ?? null,
    amount: amountOf(payout),
    amount_raw: payout.amount_raw,
    state: payout.state,
    frozen: payout.frozen === true,
    waits_for_chain: waiting.has(payout._id),
    to_self: payout.to_self === true,
    asked_at: payout.asked_at ?? null,
    tx_hash: payout.tx ?? null,
    at: payout.at,
  }
}

function formatPayee(
  { currency, address, payouts, payableRaw, isDue }: Payee,
  waiting: ReadonlySet<string>,
): string {
  const head = `${address ?? '(no address named yet)'}  ${formatAmount(payableRaw, currency)} ${currency} to pay${isDue ? '' : ', not due'}`
  const lines = payouts.map((payout) => {
    const states = [
      payout.state,
      ...(payout.frozen === true ? ['frozen'] : []),
      ...(waiting.has(payout._id) ? ['waits until the chain shows what you recorded'] : []),
      ...(payout.to_self === true ? ["to an address of the venue's own"] : []),
    ]
    return `${payout._id}  ${amountOf(payout)}  ${states.join(', ')}  ${payout.agent_id}  ${payout.order_id ?? ''}  since ${formatTime(payout.at)}`
  })
  return `${head}\n${setIn(lines.join('\n'))}`
}

async function listDisputes(ctx: Context, limit: number): Promise<Shown> {
  const orders = await ctx.orders.listDisputed(limit)
  return {
    answer: { ok: true, orders: orders.map(viewDisputed), count: orders.length },
    text: orders.length === 0 ? 'No disputes.' : orders.map(formatDisputed).join('\n'),
  }
}

function viewDisputed(order: OrderRecord): object {
  return {
    order_id: order._id,
    offer_id: order.offer_id,
    buyer_id: order.buyer_id,
    seller_id: order.seller_id,
    title: order.title,
    currency: order.coin,
    amount: amountOf(order),
    delivered_at: order.delivered_at ?? null,
    disputed_at: order.disputed_at ?? null,
    disputed_by: order.disputed_by ?? null,
    reason: order.dispute_reason ?? null,
  }
}

function formatDisputed(order: OrderRecord): string {
  const sides = `buyer ${order.buyer_id}, seller ${order.seller_id}${order.delivered_at === undefined ? ', not delivered' : ''}`
  const why =
    order.disputed_by === 'chain'
      ? 'a payment was taken back by the chain, or a transaction not accounted for went to one of its sides'
      : (order.dispute_reason ?? '')
  const head = `${order._id}  ${amountOf(order)} ${order.coin}  since ${formatTime(order.disputed_at ?? 0)}`
  return `${head}\n${setIn(`${oneLine(order.title)}\n${sides}\n${why}`)}`
}
