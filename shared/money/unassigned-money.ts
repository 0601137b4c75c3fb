import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newStepId } from '../platform/ids.ts'
import { nowSeconds } from '../platform/time.ts'
import { decideArrival, stageOf } from './arrival-steps.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { dustThreshold } from './coin.ts'
import { isPayment, type ArrivalRecord, type PaymentRecord } from './arrival.ts'
import { requireAddress } from './payout-address.ts'
import { newReturn, withdrawPayout } from './payout-service.ts'
import type { PayoutRecord } from './payout.ts'
import { settleIn } from './settlement.ts'
import { requireUpdate, storeArrivalStep } from './arrival-updates.ts'

/*
 * Money that comes to an address of ours and that no invoice counts. It is on record once, under the key that a
 * payment by the same transaction would have, and on the books from then on.
 */

/**
 * Counts money that no invoice counts as a payment of one, as if it had come to that invoice's address now.
 *
 * @param word the transaction that brought it, or the id of its record
 * @returns the payment as it was stored
 * @throws Refusal `no_such_record`, `no_such_invoice`; `wrong_state` if it is dust or of another coin, is counted
 *   already, or would have to wait for a rate or for the invoice's end
 */
export function giveUnassigned(ctx: Context, word: string, invoiceId: string): Promise<PaymentRecord> {
  return ctx.database.transaction(async (session) => {
    const arrival = await requireUnclaimed(ctx, word, session)
    await requireNotCounted(ctx, arrival, session)
    const invoice = await ctx.invoices.markHasPayments(invoiceId, session)
    if (invoice === undefined) throw new Refusal('no_such_invoice', 'There is no invoice with this id.')
    if (invoice.coin !== arrival.coin)
      throw new Refusal('wrong_state', `The money is in ${arrival.coin}, and the invoice in ${invoice.coin}.`)
    if (BigInt(arrival.amount_raw) < dustThreshold(arrival.coin)) throw isDust()
    const given = requireUpdate(arrival, { step: 'given', invoice }, nowSeconds(ctx))
    await storeArrivalStep(ctx, arrival, given, session)
    // With the invoice that it has from now on.
    const payment = { ...arrival, ...given.set } as PaymentRecord
    const said = { by: 'operator', confirmations: arrival.confirmations } as const
    const settlement = await settleIn(ctx, payment, invoice, said, session)
    if (settlement.kind === 'settled') return payment
    throw new Refusal(
      'wrong_state',
      settlement.kind === 'waits' && settlement.for === 'expiry'
        ? 'It is late money, and the invoice is open until a payment that came in time is confirmed; give it after that.'
        : 'It is late money, and there is no fresh rate at which it could buy; give it once there is one.',
    )
  })
}

/** Finds the money that `word` names, in the transaction. @throws Refusal `no_such_record`, `wrong_state` */
async function requireUnclaimed(ctx: Context, word: string, session: Session): Promise<ArrivalRecord> {
  const [arrival, ...others] = await ctx.invoices.arrivals.listUnclaimed(word, session)
  if (arrival === undefined)
    throw new Refusal('no_such_record', 'Nothing that belongs to nobody came by this; "unassigned" lists it.')
  if (others.length > 0)
    throw new Refusal(
      'wrong_state',
      `It paid several addresses: name ${[arrival, ...others].map(({ _id }) => _id).join(' or ')} in its place.`,
    )
  return arrival
}

/** Checks that a transaction which pays one address alone isn't counted already, as by hand. @throws Refusal */
async function requireNotCounted(ctx: Context, { coin, tx }: ArrivalRecord, session: Session): Promise<void> {
  if (!COIN_FACTS[coin].paysOneAddress) return
  const payments = (await ctx.invoices.arrivals.listByTx(coin, [tx], session)).filter(isPayment)
  const counted = payments.find(({ reversed_at: at }) => at === undefined)
  if (counted !== undefined)
    throw new Refusal(
      'wrong_state',
      `It is counted as the payment ${counted._id} of the invoice ${counted.invoice_id}; "settle-invoice --undo" or "--lost" ends that.`,
    )
}

/**
 * Makes what came to nobody the operator's own, or nobody's again: the operator says what he has put in.
 *
 * @param word the transaction that brought it, or the id of its record
 * @throws Refusal `no_such_record`; `wrong_state` if it is so already
 */
export async function keepUnassigned(ctx: Context, word: string, isKept = true): Promise<ArrivalRecord> {
  const stepId = newStepId()
  return ctx.database.transaction(async (session) => {
    const arrival = await requireUnclaimed(ctx, word, session)
    const decision = decideArrival(
      arrival,
      { step: isKept ? 'kept' : 'kept_undone', stepId },
      nowSeconds(ctx),
    )
    if (decision.kind === 'stays')
      throw new Refusal('wrong_state', `It is ${isKept ? "the operator's" : "nobody's"} already.`)
    await storeArrivalStep(ctx, arrival, decision, session)
    return { ...arrival, ...decision.set }
  })
}

/**
 * Makes a payout that sends back what came to nobody, to an address that the operator names; it goes out like any
 * other. The money stays nobody's until it has left.
 *
 * @param word the transaction that brought it, or the id of its record
 * @throws Refusal `no_such_record`; `invalid_field` if nothing can be sent to the address; `wrong_state` if it is
 *   dust or the operator's
 */
export async function returnUnassigned(ctx: Context, word: string, text: string): Promise<PayoutRecord> {
  const stepId = newStepId()
  return ctx.database.transaction(async (session) => {
    const arrival = await requireUnclaimed(ctx, word, session)
    const { _id, coin } = arrival
    if (stageOf(arrival) === 'operator')
      throw new Refusal('wrong_state', 'The operator keeps it; "unassigned keep TX --undo" ends that.')
    const address = await requireAddress(ctx, coin, text, 'ADDRESS')
    const amountRaw = BigInt(arrival.amount_raw)
    if (amountRaw < dustThreshold(coin)) throw isDust()
    const at = nowSeconds(ctx)
    const source = `${_id}/return/${stepId}`
    const payout = newReturn({ source, coin, amountRaw, address, at }, _id)
    const sent = requireUpdate(arrival, { step: 'sent_back', payoutId: payout._id }, at)
    await storeArrivalStep(ctx, arrival, sent, session)
    await ctx.payouts.insert([payout], session)
    return payout
  })
}

/**
 * Takes back that money is sent back, as long as nothing is signed for it.
 *
 * @param word the transaction that brought it, or the id of its record
 * @returns the payout, withdrawn
 * @throws Refusal `no_such_record`; `wrong_state` if it is signed, held or paid
 */
export async function undoReturn(ctx: Context, word: string): Promise<PayoutRecord> {
  return ctx.database.transaction(async (session) => {
    const [arrival] = await ctx.invoices.arrivals.listSentBack(word, session)
    const payout = await ctx.payouts.find(arrival?.payout_id ?? '', session)
    if (arrival === undefined || payout === undefined)
      throw new Refusal('no_such_record', 'Nothing that came by this is being sent back.')
    if (payout.state !== 'owed')
      throw new Refusal('wrong_state', `The payout ${payout._id} is ${payout.state}, so it stays.`)
    await withdrawPayout(ctx, payout._id, session)
    const kept = requireUpdate(arrival, { step: 'return_withdrawn' }, nowSeconds(ctx))
    await storeArrivalStep(ctx, arrival, kept, session)
    return { ...payout, state: 'withdrawn' }
  })
}

const isDust = (): Refusal => new Refusal('wrong_state', 'It is less than counts as money.')
