import { usageError } from '../../client/command/command-error.ts'
import { flagOption, textOption } from '../../client/command/verb.ts'
import { formatDuration, formatTime, indent, toOneLine } from '../../client/command/format.ts'
import type { Context } from '../../shared/context.ts'
import type { Session } from '../../shared/platform/database.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { LIST_LIMIT } from '../../shared/platform/limits.ts'
import { DISPUTE_OUTCOMES, type Ruling } from '../../shared/market/dispute-rules.ts'
import { decideDispute, undoDecision } from '../../shared/market/dispute-service.ts'
import { sumAmounts, type OrderRecord } from '../../shared/market/order.ts'
import { forgetRefundAddress, storeRefundAddress } from '../../shared/market/order-service.ts'
import { COIN_FACTS } from '../../shared/money/coin-facts.ts'
import { COINS, formatAmount, type Coin } from '../../shared/money/coin.ts'
import { readSendable } from '../../shared/money/due-payouts.ts'
import { holdsOf, isHeld } from '../../shared/money/payout-steps.ts'
import type { PayoutRecord, PayoutState } from '../../shared/money/payout.ts'
import {
  endHoldForHand,
  holdPayouts,
  holdForHand,
  markPaidByHand,
  markPartPaid,
  undoPaidByHand,
} from '../../shared/money/payout-service.ts'
import { WAIT_REASONS, whyNotSent } from '../../shared/money/payout-waits.ts'
import { findSuspects } from '../../shared/money/unexplained-sends.ts'
import { omitUndefined } from '../../shared/platform/omit-undefined.ts'
import { SECOND_MS, nowSeconds } from '../../shared/platform/time.ts'
import { filterPaysTo, findWhatPaid, lookUpTransaction, requireTxHash } from './look-up.ts'
import { rehearseIf } from './rehearse.ts'
import { formatAmountOf, showDone } from './output.ts'
import {
  defineOperatorVerb,
  limitOf,
  limitOption,
  wrongState,
  type OperatorVerb,
  type VerbOutput,
} from './verb.ts'

/** What needs the operator most comes first, because a long list is cut at its end. */
const UNPAID: readonly PayoutState[] = ['held', 'sent', 'signed', 'owed']

export const marketVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'payouts',
    words: ['[PAYOUT_ID]'],
    options: {
      all: flagOption('those that are paid or withdrawn too'),
      ...limitOption('per coin at most of those that cannot be paid now'),
    },
    help: 'What is owed to whom, where it is to be paid, and what is due: together at least the smallest payout; of PAYOUT_ID, all reasons why it is not sent now',
    changes: false,
    run: ({ ctx, words: [payoutId], options }) =>
      payoutId === undefined ? listPayouts(ctx, options.all, limitOf(options)) : explainWait(ctx, payoutId),
  }),
  defineOperatorVerb({
    name: 'payout-hold',
    words: ['PAYOUT_ID'],
    options: { undo: flagOption('you did not pay it: the workers may send it again') },
    help: 'Keep a payout from being sent before you pay it by hand; payout-paid then records what paid it',
    changes: true,
    run: ({ ctx, words: [payoutId], options: { undo }, dryRun }) =>
      reservePayout(ctx, payoutId, undo, dryRun),
  }),
  defineOperatorVerb({
    name: 'payout-paid',
    words: ['[PAYOUT_ID]', '[TX]'],
    options: {
      undo: textOption('PAYOUT_ID', 'what was recorded so was not paid: it is owed again'),
      address: textOption(
        'ADDRESS',
        "where you paid it, of a buyer that has named no address: it becomes the order's",
      ),
      part: flagOption('it paid a part of what a buyer is owed; the rest stays owed'),
      unseen: flagOption('with --undo: it is owed at once although the chain cannot say whether TX paid it'),
    },
    help: 'Record that you paid a payout by hand, with the transaction or block TX; one that is held, only after a look at the chain',
    changes: true,
    async run({ ctx, words: [payoutId, tx], options: { undo, address, part, unseen }, dryRun }) {
      if (undo !== undefined) return undoPaid(ctx, undo, { unseen, dryRun })
      if (payoutId === undefined || tx === undefined)
        throw usageError('"payout-paid" takes PAYOUT_ID TX, or --undo PAYOUT_ID.')
      if (part) return recordPart(ctx, payoutId, tx.toLowerCase(), dryRun)
      return recordPaid(ctx, payoutId, tx.toLowerCase(), address, dryRun)
    },
  }),
  defineOperatorVerb({
    name: 'pay',
    words: ['[PAYEE]'],
    options: { all: flagOption('all payouts that are due, whoever they are owed to') },
    help: 'Let the worker with the wallet send what is owed to PAYEE, an agent or an address, though PAYOUTS is manual',
    changes: true,
    run: ({ ctx, words: [payee], options, dryRun }) => askToPay(ctx, payee, options.all, dryRun),
  }),
  defineOperatorVerb({
    name: 'disputes',
    words: [],
    options: limitOption(),
    help: 'Orders that wait for your decision, the longest first, with what their buyers say, and what your last decisions are about to send',
    changes: false,
    run: ({ ctx, options }) => listDisputes(ctx, limitOf(options)),
  }),
  defineOperatorVerb({
    name: 'dispute',
    words: ['ORDER_ID', '[OUTCOME]', '[PERCENT]'],
    options: {
      undo: flagOption(
        'take your decision back, while nothing of it is signed or paid: it is disputed again',
      ),
    },
    help: 'Decide a disputed order: OUTCOME is release (for the seller), refund (for the buyer) or split (the seller gets PERCENT of what a release gives, the buyer the rest)',
    changes: true,
    async run({ ctx, words: [orderId, outcome, percent], options: { undo }, dryRun }) {
      if (!undo) return decideOrder(ctx, orderId, parseRuling(outcome, percent), dryRun)
      if (outcome !== undefined) throw usageError('"dispute" takes ORDER_ID OUTCOME, or ORDER_ID --undo.')
      return undoOrder(ctx, orderId, dryRun)
    },
  }),
]

/** Shows all reasons why a payout isn't sent now. */
async function explainWait(ctx: Context, payoutId: string): Promise<VerbOutput> {
  const payout = await requirePayout(ctx, payoutId)
  const waits = await whyNotSent(ctx, payout)
  const lines = waits.map((why) => `${why}: ${WAIT_REASONS[why]}`)
  const [state, at] = [payout.state, formatTime(payout.changed_at)]
  const rest =
    state === 'owed' ? 'nothing keeps it back: the next round sends it' : `it is ${state} since ${at}`
  return {
    answer: { payout_id: payoutId, state, waits },
    text: lines.length === 0 ? rest : lines.join('\n'),
  }
}

/** Holds a payout that is owed, so that no worker signs for it; or ends that. @throws Refusal `wrong_state` */
async function reservePayout(ctx: Context, payoutId: string, isUndone: boolean, dryRun: boolean) {
  const { coin, order_id: orderId } = await requirePayout(ctx, payoutId)
  const target = rehearseIf(dryRun, ctx)
  if (isUndone && !(await endHoldForHand(target, payoutId)))
    throw wrongState(`${payoutId} is not held by payout-hold; "reconcile ${coin} --owed" ends other holds.`)
  if (!isUndone && !(await holdForHand(target, payoutId)))
    throw wrongState(`${payoutId} is not owed, or something holds it: "payouts ${payoutId}" says what.`)
  const state = isUndone ? 'owed' : 'held'
  return showDone(
    { payout_id: payoutId, order_id: orderId ?? null, currency: coin, state, ledger_entry: 'payout' },
    dryRun,
  )
}

/** Parses the words OUTCOME and PERCENT. @throws CommandError if they name no decision */
function parseRuling(outcome: string | undefined, percent: string | undefined): Ruling {
  if (outcome === 'split') {
    if (percent === undefined || !/^[1-9]\d?$/.test(percent))
      throw usageError(
        `PERCENT expected a whole number from 1 to 99 after split, got ${JSON.stringify(percent ?? '')}.`,
      )
    return { percent: Number(percent) }
  }
  const known = DISPUTE_OUTCOMES.find((name) => name === outcome)
  if (known === undefined || percent !== undefined)
    throw usageError(
      `OUTCOME expected ${DISPUTE_OUTCOMES.join(', ')} or split PERCENT, got ${JSON.stringify([outcome, percent].join(' ').trim())}.`,
    )
  return known
}

/** Decides a disputed order. @throws Refusal as decideDispute() */
async function decideOrder(
  ctx: Context,
  orderId: string,
  ruling: Ruling,
  dryRun: boolean,
): Promise<VerbOutput> {
  const decided = await decideDispute(rehearseIf(dryRun, ctx), orderId, ruling)
  const { order, sellerRaw, buyerRaw, feeRaw, writtenOffRaw } = decided
  const show = (raw: bigint): string => formatAmount(raw, order.coin)
  const notes = await holdWhatWasPaid(ctx, order, dryRun)
  if (ctx.config.disputeHoldMs > 0)
    notes.push(
      `What is owed by this is not sent for ${formatDuration(ctx.config.disputeHoldMs / SECOND_MS)}; "dispute ${order._id} --undo" takes it back.`,
    )
  return showDone(
    {
      order_id: order._id,
      status: order.status,
      currency: order.coin,
      ...omitUndefined({ split_percent: order.split_percent }),
      seller: show(sellerRaw),
      buyer: show(buyerRaw),
      fee: show(feeRaw),
      ...(writtenOffRaw === 0n ? {} : { written_off: show(writtenOffRaw) }),
      ledger_entry: 'dispute_outcome',
    },
    dryRun,
    notes.join('\n') || undefined,
  )
}

/** Takes the decision of an order back. @throws Refusal as undoDecision() */
async function undoOrder(ctx: Context, orderId: string, dryRun: boolean): Promise<VerbOutput> {
  const { order, withdrawn } = await undoDecision(rehearseIf(dryRun, ctx), orderId)
  const sumTo = (agentId: string): string =>
    formatAmount(sumAmounts(withdrawn.filter(({ agent_id: id }) => id === agentId)), order.coin)
  return showDone(
    {
      order_id: order._id,
      status: order.status,
      currency: order.coin,
      seller_no_longer_owed: sumTo(order.seller_id),
      buyer_no_longer_owed: sumTo(order.buyer_id),
      ledger_entry: 'dispute_outcome',
    },
    dryRun,
  )
}

/**
 * Holds what a decided order owes and a transaction that the database did not know may have paid.
 *
 * @returns a sentence for each such transaction
 */
async function holdWhatWasPaid(ctx: Context, order: OrderRecord, dryRun: boolean): Promise<string[]> {
  const sentences = (await listPaidSides(ctx, order)).map(
    ({ send, side }) =>
      `${send.tx} has paid this side: it sent ${formatAmountOf(send)} ${order.coin} to the address of the ${side}.`,
  )
  if (dryRun) return sentences
  const owed = (await ctx.payouts.listByOrder(order._id)).filter(({ state }) => state === 'owed')
  for (const [payoutId, send] of await findSuspects(ctx, order.coin, owed)) {
    await holdPayouts(ctx, [payoutId], send._id)
    sentences.push(
      `${payoutId} is held: "payout-paid ${payoutId} ${send.tx}" if that paid it, else "reconcile ${order.coin} --owed ${payoutId}".`,
    )
  }
  return sentences
}

/** Lists which sides of an order have an address that a transaction paid which the database did not know. */
async function listPaidSides(ctx: Context, { coin, at, payout_address, refund_address }: OrderRecord) {
  const addresses = { seller: payout_address, buyer: refund_address }
  const sends = (await ctx.payouts.transfers.listUnknownSends(coin)).filter((send) => at <= send.at)
  return (['seller', 'buyer'] as const).flatMap((side) =>
    sends
      .filter(({ unexplained_to: to }) => to.includes(addresses[side] ?? ''))
      .map((send) => ({ side, send })),
  )
}

/** Reads a payout. @throws Refusal `no_such_record` */
async function requirePayout(ctx: Context, payoutId: string): Promise<PayoutRecord> {
  const payout = await ctx.payouts.find(payoutId)
  if (payout === undefined)
    throw new Refusal('no_such_record', 'There is no payout with this id; "payouts" lists them.')
  return payout
}

/**
 * Records that a transaction paid a payout, by hand.
 *
 * @param address becomes the refund address of the payout's order; for a payout to a buyer that has named
 *   none
 * @throws Refusal `wrong_state` if the transaction can't have paid it, or the payout's state doesn't allow it
 */
async function recordPaid(
  ctx: Context,
  payoutId: string,
  tx: string,
  address: string | undefined,
  dryRun: boolean,
): Promise<VerbOutput> {
  requireTxHash(tx)
  const payout = await requirePayout(ctx, payoutId)
  const sent = await checkTransaction(ctx, payout, tx, address ?? payout.address)
  if (sent !== undefined && sent.sentRaw < sent.neededRaw) throw tooLittle(sent, payout.coin)
  const target = rehearseIf(dryRun, ctx)
  let named: string | undefined
  const sentRaw = sent?.sentRaw
  if (address !== undefined) named = await nameAddressAndMarkPaid(target, payout, address, { tx, sentRaw })
  else if (!(await markPaidByHand(target, payoutId, tx, { sentRaw }))) throw await unpayable(ctx, payout)
  return showDone(
    {
      payout_id: payoutId,
      order_id: payout.order_id ?? null,
      agent_id: payout.agent_id,
      currency: payout.coin,
      amount: formatAmountOf(payout),
      address: named ?? payout.address ?? null,
      state: 'manual',
      tx_hash: tx,
      ledger_entry: 'payout',
    },
    dryRun,
    named === undefined ? undefined : 'The address is the refund address of the order from now on.',
  )
}

/**
 * Records that a transaction paid a part of what a buyer is owed: two payouts, of the part and of the rest,
 * take the payout's place. (After a restore the sum that is owed may be another one than when it was paid.)
 *
 * @throws Refusal `wrong_state` unless the chain says that the transaction paid a part
 */
async function recordPart(ctx: Context, payoutId: string, tx: string, dryRun: boolean): Promise<VerbOutput> {
  requireTxHash(tx)
  const payout = await requirePayout(ctx, payoutId)
  const { coin, order_id: orderId, agent_id: agentId } = payout
  const order = orderId === undefined ? undefined : await ctx.orders.find(orderId)
  if (order?.buyer_id !== agentId) throw wrongState('Only what a buyer is owed can have been paid in part.')
  const sent = await checkTransaction(ctx, payout, tx, payout.address)
  if (sent === undefined || sent.sentRaw >= sent.neededRaw)
    throw wrongState('The chain does not say that this transaction paid a part of it.')
  // What the transaction paid there beyond the other payouts that it is on record for.
  const partRaw = sent.sentRaw - (sent.neededRaw - BigInt(payout.amount_raw))
  if (partRaw <= 0n) throw tooLittle(sent, coin)
  const paid = { paidRaw: partRaw, sentRaw: sent.sentRaw }
  const marked = await markPartPaid(rehearseIf(dryRun, ctx), payoutId, tx, paid)
  if (marked === undefined) throw await unpayable(ctx, payout)
  const { part, rest } = marked
  return showDone(
    {
      payout_id: payoutId,
      order_id: orderId ?? null,
      currency: coin,
      state: 'withdrawn',
      part_payout_id: part._id,
      part: formatAmountOf(part),
      tx_hash: tx,
      rest_payout_id: rest._id,
      rest: formatAmountOf(rest),
      ledger_entry: 'payout',
    },
    dryRun,
  )
}

/** What a transaction pays to a payout's address, and what it must have paid there; in the smallest unit. */
interface Sent {
  sentRaw: bigint
  /** The payout, and the others to this address that are on record as paid by the transaction. */
  neededRaw: bigint
}

/**
 * Checks that a transaction may have paid this payout: it is on record for nothing that rules it out and, if
 * the chain can be asked, pays the payout's address.
 *
 * @param address the payout's; undefined if its payee has named none
 * @returns what it sent to the address, and what the payouts recorded for it need; undefined if there is no
 *   address, or if the chain can't be asked or doesn't know
 * @throws Refusal `wrong_state` if it can't have paid the payout
 */
async function checkTransaction(
  ctx: Context,
  payout: PayoutRecord,
  tx: string,
  address: string | undefined,
): Promise<Sent | undefined> {
  const { coin, _id } = payout
  const { paysOneAddress } = COIN_FACTS[coin]
  for (const other of COINS) {
    const [payment] = await ctx.invoices.arrivals.listByTx(other, [tx])
    if (payment !== undefined) throw notPaidBy(`is on record as the payment ${payment._id}`)
  }
  const byHand = await Promise.all(COINS.map((other) => ctx.payouts.listPaidByHand(other, tx)))
  const others = byHand.flat().filter((other) => other._id !== _id)
  for (const other of others) {
    if (other.coin !== coin) throw notPaidBy(`is on record for the payout ${other._id} in ${other.coin}`)
    if (paysOneAddress && other.address !== address)
      throw notPaidBy(`is on record for the payout ${other._id} to another address`)
  }
  const transfer = await ctx.payouts.transfers.findByTx(coin, tx)
  if (transfer !== undefined && (transfer.kind !== 'payout' || transfer.payout_ids.length > 0))
    throw notPaidBy(
      `is one of the workers' own (${transfer._id}), which carries ${transfer.payout_ids.join(', ') || 'no payout'}`,
    )
  if (address === undefined) return undefined
  const lookUp = await lookUpTransaction(ctx, coin, tx)
  if (lookUp === 'no_answer' || !lookUp.isKnown) return undefined
  // A Monero wallet that was restored does not know whom its own transactions paid.
  if (lookUp.pays.length === 0 && !paysOneAddress) return undefined
  const { sumRaw: sentRaw } = filterPaysTo(coin, lookUp.pays, address)
  if (sentRaw === 0n)
    throw notPaidBy(`pays ${lookUp.pays.map(({ to }) => to).join(', ') || 'nobody'}, and not ${address}`)
  const neededRaw = sumAmounts([payout, ...others.filter((other) => other.address === address)])
  return { sentRaw, neededRaw }
}

/** Refuses to record a transaction for a payout. @param why follows "This transaction" */
const notPaidBy = (why: string): Refusal =>
  wrongState(`This transaction ${why}; it cannot have paid this payout.`)

/** Refuses a transaction that pays less than it must have. */
const tooLittle = ({ sentRaw, neededRaw }: Sent, coin: Coin): Refusal =>
  notPaidBy(
    `pays ${formatAmount(sentRaw, coin)} ${coin} to this address, less than the ${formatAmount(neededRaw, coin)} that it is said to`,
  )

/**
 * Takes back that a payout was recorded as paid by hand, so that it is owed again, with the refund address
 * that was named with it. While the chain can't say whether it was paid it is held, unless `unseen` says that
 * the operator knows.
 *
 * @throws Refusal `wrong_state` if it was not recorded so, or the chain shows that it was paid
 */
async function undoPaid(
  ctx: Context,
  payoutId: string,
  { unseen, dryRun }: { unseen: boolean; dryRun: boolean },
): Promise<VerbOutput> {
  const payout = await requirePayout(ctx, payoutId)
  const { coin, tx, order_id: orderId, named_address: wasNamedWithIt } = payout
  const shown =
    payout.state === 'manual' && tx !== undefined ? await findWhatPaid(ctx, payout, tx) : 'nothing'
  if (shown === 'paid')
    throw wrongState(`The chain shows that ${tx} paid this payout, so it stays as it was recorded.`)
  const heldBy = shown === 'unknown' && !unseen ? tx : undefined
  const target = rehearseIf(dryRun, ctx)
  const isAddressForgotten = await target.database.transaction(async (session) => {
    if (!(await undoPaidByHand(inTransaction(target, session), payoutId, heldBy)))
      throw wrongState(
        `The payout is ${payout.state}; only one that was recorded as paid by hand can be taken back.`,
      )
    if (wasNamedWithIt !== true || orderId === undefined) return false
    return forgetRefundAddress(target, orderId, session)
  })
  return showDone(
    {
      payout_id: payoutId,
      order_id: orderId ?? null,
      currency: coin,
      amount: formatAmountOf(payout),
      state: heldBy === undefined ? 'owed' : 'held',
      ledger_entry: 'payout',
    },
    dryRun,
    [
      ...(isAddressForgotten ? ['The refund address that was named with it is taken back as well.'] : []),
      ...(heldBy === undefined
        ? []
        : [
            `Nobody could say whether ${heldBy} paid it, so it is held: "reconcile ${coin} --owed ${payoutId}" once you know that it did not, or payout-paid once more.`,
          ]),
    ].join('\n') || undefined,
  )
}

/** Makes a context in which a use case that would start a transaction takes part in the session's instead. */
const inTransaction = (ctx: Context, session: Session): Context => ({
  ...ctx,
  database: { ...ctx.database, transaction: (work) => work(session) },
})

/**
 * Marks payouts as asked for, so that the wallet's worker sends them with its next round though PAYOUTS is
 * manual.
 *
 * @param payee an agent's id or an address; its payouts are sent even if they are too small to be due
 * @param all whether all payouts that are due are meant, in the place of a payee's
 * @throws Refusal `no_such_record` if there is nothing to send
 */
async function askToPay(
  ctx: Context,
  payee: string | undefined,
  all: boolean,
  dryRun: boolean,
): Promise<VerbOutput> {
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
    const inCoin = chosen.filter((payout) => payout.coin === coin)
    return [coin, formatAmount(sumAmounts(inCoin), coin)] as const
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
 * @throws Refusal `wrong_state` if the payout has an address, or can't be recorded as paid
 */
async function nameAddressAndMarkPaid(
  ctx: Context,
  payout: PayoutRecord,
  text: string,
  { tx, sentRaw }: { tx: string; sentRaw: bigint | undefined },
): Promise<string> {
  const { _id: payoutId, order_id: orderId } = payout
  if (payout.address !== undefined || orderId === undefined)
    throw wrongState('The payout has an address, and it stays as it is; leave --address out.')
  return ctx.database.transaction(async (session) => {
    const order = await ctx.orders.find(orderId, session)
    if (order === undefined) throw new Error(`payout ${payoutId} is of an order that does not exist`)
    const address = await storeRefundAddress(ctx, order, text, session)
    const about = { isAddressNamed: true, sentRaw }
    if (!(await markPaidByHand(inTransaction(ctx, session), payoutId, tx, about)))
      throw await unpayable(ctx, payout, session)
    return address
  })
}

/** The refusal that says why a payout, as it is stored now, can't be recorded as paid by hand. */
async function unpayable(ctx: Context, payout: PayoutRecord, session?: Session): Promise<Refusal> {
  const now = (await ctx.payouts.find(payout._id, session)) ?? payout
  const { state } = now
  if (isHeld(now, 'disputed'))
    return wrongState('The payout is frozen, because its order is disputed; decide that first.')
  if (isHeld(now, 'no_address') && (state === 'owed' || state === 'held'))
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

interface PayoutList {
  /** Those with a payout that is due come first. */
  payees: Payee[]
  /** Ids of payouts of an order whose money was recorded by hand, and which the chain hasn't shown yet. */
  waiting: ReadonlySet<string>
  /** Payouts that a transaction which the database did not know may have paid: its hash, by their ids. */
  suspects: ReadonlyMap<string, string>
  /** Coins of which there are more payouts than were read. */
  cut: Coin[]
  /** When they were read, in Unix seconds. */
  at: number
}

/** What is owed, by payee. @param limit of payouts that cannot be paid now, per coin */
async function listPayouts(ctx: Context, all: boolean, limit: number): Promise<VerbOutput> {
  const list = await readPayouts(ctx, all, limit)
  const { payees, cut } = list
  const lines = payees.map((payee) => formatPayee(payee, list))
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
        payouts: payouts.map((payout) => viewPayout(payout, list)),
      })),
      count: payees.length,
      truncated: cut.length > 0,
    },
    text: payees.length === 0 ? 'Nothing is owed.' : lines.join('\n'),
  }
}

/**
 * Reads all payouts that can be sent, and of the others `limit` a coin.
 *
 * @param all whether those that are paid or withdrawn are among the others
 */
async function readPayouts(ctx: Context, all: boolean, limit: number): Promise<PayoutList> {
  const states: readonly PayoutState[] = all ? [...UNPAID, 'confirmed', 'manual', 'withdrawn'] : UNPAID
  const payees: Payee[] = []
  const waiting = new Set<string>()
  const suspects = new Map<string, string>()
  const cut: Coin[] = []
  const at = nowSeconds(ctx)
  for (const coin of COINS) {
    const sendable = await readSendable(ctx, coin)
    const ready = new Set(sendable.payouts.map(({ _id }) => _id))
    const due = new Set(sendable.due.map(({ _id }) => _id))
    // Read whole: a part of them would give a wrong sum for their payee.
    const payouts: PayoutRecord[] = []
    for await (const payout of ctx.payouts.walkSendable(coin, at)) payouts.push(payout)
    for (const { _id } of payouts) if (!ready.has(_id) && !sendable.suspects.has(_id)) waiting.add(_id)
    for (const [id, { tx }] of sendable.suspects) suspects.set(id, tx)
    const others: PayoutRecord[] = []
    for (const state of states)
      if (others.length <= limit)
        others.push(...(await ctx.payouts.listUnsendable(coin, state, at, limit + 1 - others.length)))
    if (others.length > limit) cut.push(coin)
    payouts.push(...others.slice(0, limit))
    for (const [address, toAddress] of Map.groupBy(payouts, (payout) => payout.address ?? null)) {
      const payable = toAddress.filter(
        (payout) =>
          payout.state === 'owed' &&
          holdsOf(payout, at).every(({ why }) => why === 'no_address') &&
          !waiting.has(payout._id) &&
          !suspects.has(payout._id),
      )
      const isDue = toAddress.some(({ _id }) => due.has(_id))
      payees.push({ currency: coin, address, payouts: toAddress, payableRaw: sumAmounts(payable), isDue })
    }
  }
  // The sort is stable: what cannot be paid stays behind what can.
  payees.sort((left, right) => Number(right.isDue) - Number(left.isDue))
  return { payees, waiting, suspects, cut, at }
}

/** A payout as `--json` shows it. */
function viewPayout(payout: PayoutRecord, { waiting, suspects, at }: PayoutList): object {
  return {
    payout_id: payout._id,
    agent_id: payout.agent_id,
    order_id: payout.order_id ?? null,
    amount: formatAmountOf(payout),
    amount_raw: payout.amount_raw,
    state: payout.state,
    frozen: isHeld(payout, 'disputed'),
    waits_for_chain: waiting.has(payout._id),
    to_self: isHeld(payout, 'own_address'),
    decided_until: decidedUntil(payout, at) ?? null,
    may_be_paid_by: suspects.get(payout._id) ?? null,
    asked_at: payout.asked_at ?? null,
    tx_hash: payout.tx ?? null,
    at: payout.at,
  }
}

/** Until when a payout is not sent because its order was just decided; undefined if it is not kept back for that. */
const decidedUntil = (payout: PayoutRecord, at: number): number | undefined =>
  payout.state === 'owed' && holdsOf(payout, at).some(({ why }) => why === 'decided')
    ? payout.decided?.until
    : undefined

/** A payee and its payouts, a line each. */
function formatPayee(
  { currency, address, payouts, payableRaw, isDue }: Payee,
  { waiting, suspects, at }: PayoutList,
): string {
  const head = `${address ?? '(no address named yet)'}  ${formatAmount(payableRaw, currency)} ${currency} to pay${isDue ? '' : ', not due'}`
  const lines = payouts.map((payout) => {
    const states: string[] = [payout.state]
    if (isHeld(payout, 'disputed')) states.push('frozen')
    if (waiting.has(payout._id)) states.push('waits until the chain shows what you recorded')
    if (isHeld(payout, 'own_address')) states.push("to an address of the venue's own")
    const until = decidedUntil(payout, at)
    if (until !== undefined)
      states.push(`waits until ${formatTime(until)} because its order was just decided`)
    const suspect = suspects.get(payout._id)
    if (suspect !== undefined) states.push(`perhaps paid by ${suspect}: reconcile ${currency} --dry-run`)
    return `${payout._id}  ${formatAmountOf(payout)}  ${states.join(', ')}  ${payout.agent_id}  ${payout.order_id ?? ''}  since ${formatTime(payout.at)}`
  })
  return `${head}\n${indent(lines.join('\n'))}`
}

async function listDisputes(ctx: Context, limit: number): Promise<VerbOutput> {
  const orders = await ctx.orders.listDisputed(limit)
  const paid = await Promise.all(orders.map((order) => listPaidSides(ctx, order)))
  const decided = await listDecided(ctx, limit)
  const lines = [
    ...orders.map((order, place) => formatDisputed(order, paid[place] ?? [])),
    ...decided.map(formatDecided),
  ]
  return {
    answer: {
      ok: true,
      orders: orders.map((order, place) => ({
        ...viewDisputed(order),
        may_have_paid: (paid[place] ?? []).map(({ side, send }) => ({ side, tx_hash: send.tx })),
      })),
      count: orders.length,
      decided: decided.map(({ orderId, coin, sumRaw, until }) => ({
        order_id: orderId,
        currency: coin,
        amount: formatAmount(sumRaw, coin),
        decided_until: until,
      })),
    },
    text: lines.length === 0 ? 'No disputes.' : lines.join('\n'),
  }
}

/** An order that was just decided: what is owed by that, and until when it is not sent. */
interface Decided {
  orderId: string
  coin: Coin
  sumRaw: bigint
  until: number
}

/** Lists the orders whose payouts wait after a decision, the next to be sent first. @param limit of payouts */
async function listDecided(ctx: Context, limit: number): Promise<Decided[]> {
  const payouts = await ctx.payouts.listDecided(nowSeconds(ctx), limit)
  return [...Map.groupBy(payouts, ({ order_id: id = '' }) => id)].flatMap(([orderId, ofOrder]) => {
    const [{ coin, decided } = {}] = ofOrder
    if (coin === undefined || decided === undefined) return []
    return [{ orderId, coin, sumRaw: sumAmounts(ofOrder), until: decided.until }]
  })
}

const formatDecided = ({ orderId, coin, sumRaw, until }: Decided): string =>
  `${orderId}  decided: ${formatAmount(sumRaw, coin)} ${coin} is not sent before ${formatTime(until)}; "dispute ${orderId} --undo" takes it back`

function viewDisputed(order: OrderRecord): object {
  return {
    order_id: order._id,
    offer_id: order.offer_id,
    buyer_id: order.buyer_id,
    seller_id: order.seller_id,
    title: order.title,
    currency: order.coin,
    amount: formatAmountOf(order),
    delivered_at: order.delivered_at ?? null,
    disputed_at: order.disputed_at ?? null,
    disputed_by: order.disputed_by ?? null,
    reason: order.dispute_reason ?? null,
  }
}

type PaidSide = Awaited<ReturnType<typeof listPaidSides>>[number]

function formatDisputed(order: OrderRecord, paid: readonly PaidSide[]): string {
  const sides = `buyer ${order.buyer_id}, seller ${order.seller_id}${order.delivered_at === undefined ? ', not delivered' : ''}`
  const why =
    order.disputed_by === 'chain'
      ? 'a payment was taken back by the chain, or a transaction not accounted for went to one of its sides'
      : (order.dispute_reason ?? '')
  const head = `${order._id}  ${formatAmountOf(order)} ${order.coin}  since ${formatTime(order.disputed_at ?? 0)}`
  const lines = paid.map(
    ({ side, send }) => `${send.tx} sent ${formatAmountOf(send)} ${order.coin} to the address of the ${side}`,
  )
  return `${head}\n${indent([toOneLine(order.title), sides, why, ...lines].join('\n'))}`
}
