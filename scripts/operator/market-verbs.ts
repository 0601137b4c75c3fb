import { usageError } from '../agent/command-error.ts'
import { formatTime, oneLine, setIn } from '../agent/format.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/errors.ts'
import { LIST_LIMIT } from '../../shared/limits.ts'
import { decideDispute, DISPUTE_OUTCOMES, type DisputeOutcome } from '../../shared/market/dispute-service.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import { COINS, formatAmount, parseAmount, type Coin } from '../../shared/payments/coin.ts'
import type { PayoutRecord, PayoutState } from '../../shared/payments/payout.ts'
import { markPaidByHand } from '../../shared/payments/payout-service.ts'
import { rehearse } from './rehearse.ts'
import { showDone } from './shown.ts'
import { defineOperatorVerb, type OperatorVerb, type Shown } from './verb.ts'

/** Owed, and not known to have arrived. */
const UNPAID: readonly PayoutState[] = ['owed', 'signed', 'sent', 'held']

export const marketVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'payouts',
    words: [],
    options: {
      all: { kind: 'flag', help: 'those that are paid or withdrawn too' },
      limit: { kind: 'whole', value: 'N', help: `how many per coin at most, ${LIST_LIMIT.fallback} where absent`, min: 1 },
    },
    help: 'What is owed to whom, where it is to be paid, and what is due: together at least the smallest payout',
    changes: false,
    run: ({ ctx, options }) => listPayouts(ctx, options.all, Math.min(options.limit ?? LIST_LIMIT.fallback, LIST_LIMIT.max)),
  }),
  defineOperatorVerb({
    name: 'payout-paid',
    words: ['PAYOUT_ID', 'TX'],
    options: {},
    help: 'Record that you paid a payout by hand, with the transaction or block TX; one that is held, only after a look at the chain',
    changes: true,
    run: ({ ctx, words: [payoutId, tx], dryRun }) => recordPaid(ctx, payoutId, tx.toLowerCase(), dryRun),
  }),
  defineOperatorVerb({
    name: 'disputes',
    words: [],
    options: { limit: { kind: 'whole', value: 'N', help: `how many at most, ${LIST_LIMIT.fallback} where absent`, min: 1 } },
    help: 'Orders that wait for your decision, the longest first, with what their buyers say',
    changes: false,
    run: ({ ctx, options }) => listDisputes(ctx, Math.min(options.limit ?? LIST_LIMIT.fallback, LIST_LIMIT.max)),
  }),
  defineOperatorVerb({
    name: 'dispute',
    words: ['ORDER_ID', 'OUTCOME'],
    options: {},
    help: 'Decide a disputed order: OUTCOME is release (for the seller) or refund (for the buyer)',
    changes: true,
    async run({ ctx, words: [orderId, outcome], dryRun }) {
      if (!isOutcome(outcome)) throw usageError(`OUTCOME expected ${DISPUTE_OUTCOMES.join(' or ')}, got ${JSON.stringify(outcome)}.`)
      const { order, sellerRaw, buyerRaw, feeRaw, writtenOffRaw } = await decideDispute(dryRun ? rehearse(ctx) : ctx, orderId, outcome)
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

const isOutcome = (text: string): text is DisputeOutcome => (DISPUTE_OUTCOMES as readonly string[]).includes(text)

async function recordPaid(ctx: Context, payoutId: string, tx: string, dryRun: boolean): Promise<Shown> {
  if (!/^[0-9a-f]{64}$/.test(tx)) throw usageError('TX is the hash of a transaction or block: 64 hex characters.')
  const payout = await ctx.payouts.find(payoutId)
  if (payout === undefined) throw new Refusal('no_such_record', 'There is no payout with this id; "payouts" lists them.')
  if (!(await markPaidByHand(dryRun ? rehearse(ctx) : ctx, payoutId, tx))) {
    const { state, frozen, address } = (await ctx.payouts.find(payoutId)) ?? payout
    throw new Refusal(
      'wrong_state',
      frozen === true
        ? 'The payout is frozen, because its order is disputed; decide that first.'
        : address === undefined
          ? 'The buyer has not named a refund address; money is sent to no other.'
          : `The payout is ${state}; only one that is owed or held can be paid by hand.`,
    )
  }
  const { coin, amount_raw: amountRaw, agent_id: agentId, order_id: orderId } = payout
  return showDone(
    {
      payout_id: payoutId,
      order_id: orderId ?? null,
      agent_id: agentId,
      currency: coin,
      amount: formatAmount(BigInt(amountRaw), coin),
      address: payout.address ?? null,
      state: 'manual',
      tx_hash: tx,
      ledger_entry: 'payout',
    },
    dryRun,
  )
}

interface Payee {
  currency: Coin
  address: string | null
  payouts: PayoutRecord[]
  /** Owed and not frozen. */
  payableRaw: bigint
  isDue: boolean
}

async function listPayouts(ctx: Context, all: boolean, limit: number): Promise<Shown> {
  const states: readonly PayoutState[] = all ? [...UNPAID, 'confirmed', 'manual', 'withdrawn'] : UNPAID
  const payees: Payee[] = []
  for (const coin of COINS) {
    const payouts = await ctx.payouts.listByState(coin, states, limit)
    const smallest = parseAmount(ctx.config.minPayout[coin], coin)
    for (const [address, own] of Map.groupBy(payouts, (payout) => payout.address ?? null)) {
      const payable = own.filter(({ state, frozen }) => state === 'owed' && frozen !== true)
      const payableRaw = payable.reduce((sum, { amount_raw: amount }) => sum + BigInt(amount), 0n)
      payees.push({
        currency: coin,
        address,
        payouts: own,
        payableRaw,
        isDue: address !== null && payableRaw > 0n && payableRaw >= smallest,
      })
    }
  }
  return {
    answer: {
      ok: true,
      payees: payees.map(({ currency, address, payouts, payableRaw, isDue }) => ({
        currency,
        address,
        payable: formatAmount(payableRaw, currency),
        due: isDue,
        payouts: payouts.map(viewPayout),
      })),
      count: payees.length,
    },
    text: payees.length === 0 ? 'Nothing is owed.' : payees.map(formatPayee).join('\n'),
  }
}

function viewPayout(payout: PayoutRecord): object {
  return {
    payout_id: payout._id,
    agent_id: payout.agent_id,
    order_id: payout.order_id ?? null,
    amount: formatAmount(BigInt(payout.amount_raw), payout.coin),
    amount_raw: payout.amount_raw,
    state: payout.state,
    frozen: payout.frozen === true,
    tx_hash: payout.tx ?? null,
    at: payout.at,
  }
}

function formatPayee({ currency, address, payouts, payableRaw, isDue }: Payee): string {
  const head = `${address ?? '(no address named yet)'}  ${formatAmount(payableRaw, currency)} ${currency} to pay${isDue ? '' : ', not due'}`
  const lines = payouts.map(
    ({ _id, coin, amount_raw: amount, state, frozen, agent_id: agentId, order_id: orderId, at }) =>
      `${_id}  ${formatAmount(BigInt(amount), coin)}  ${state}${frozen === true ? ', frozen' : ''}  ${agentId}  ${orderId ?? ''}  since ${formatTime(at)}`,
  )
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
  const { _id, offer_id, buyer_id, seller_id, title, coin, amount_raw, disputed_at, disputed_by, dispute_reason, delivered_at } = order
  return {
    order_id: _id,
    offer_id,
    buyer_id,
    seller_id,
    title,
    currency: coin,
    amount: formatAmount(BigInt(amount_raw), coin),
    delivered_at: delivered_at ?? null,
    disputed_at: disputed_at ?? null,
    disputed_by: disputed_by ?? null,
    reason: dispute_reason ?? null,
  }
}

function formatDisputed(order: OrderRecord): string {
  const { _id, coin, amount_raw: amount, disputed_at: at = 0, disputed_by: by, buyer_id: buyer, seller_id: seller } = order
  const why = by === 'chain' ? 'a payment was taken back by the chain' : (order.dispute_reason ?? '')
  return `${_id}  ${formatAmount(BigInt(amount), coin)} ${coin}  since ${formatTime(at)}\n${setIn(`${oneLine(order.title)}\nbuyer ${buyer}, seller ${seller}${order.delivered_at === undefined ? ', not delivered' : ''}\n${why}`)}`
}
