import { usageError } from '../../client/command/command-error.ts'
import { flagOption, textOption } from '../../client/command/verb.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { COIN_UNITS, dustThreshold, formatAmount, parseAmount, type Coin } from '../../shared/money/coin.ts'
import { COIN_FACTS } from '../../shared/money/coin-facts.ts'
import type { FoundPay } from '../../shared/money/driver.ts'
import { invoiceStatus, remainingRaw, type InvoiceRecord } from '../../shared/money/invoice.ts'
import { isPayment, type PaymentRecord } from '../../shared/money/arrival.ts'
import { requiredConfirmations } from '../../shared/money/invoice-service.ts'
import { givePaymentUp, undoPayment } from '../../shared/money/payment-undo.ts'
import { noteShown, recordPayment } from '../../shared/money/record-arrival.ts'
import { isoTime } from '../../shared/platform/time.ts'
import { filterPaysTo, lookUpTransaction, requireTxHash } from './look-up.ts'
import { rehearseIf } from './rehearse.ts'
import { formatAmountOf, showDone } from './output.ts'
import { defineOperatorVerb, wrongState, type OperatorVerb, type VerbOutput } from './verb.ts'

export const paymentVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'settle-invoice',
    words: ['[INVOICE_ID]', '[AMOUNT]', '[TX]'],
    options: {
      over: flagOption('count more than is still to be paid'),
      unseen: flagOption('count it although the node does not have the transaction'),
      undo: textOption('PAYMENT_ID', 'take back what was counted so, while what it bought can be taken back'),
      lost: textOption(
        'PAYMENT_ID',
        'it never came, and what it bought is used: the venue bears it, and payouts wait for it no more',
      ),
    },
    help: 'Count a payment of AMOUNT coins by the transaction or block TX for an invoice, by hand; AMOUNT may be left out if the node can say it',
    changes: true,
    async run({ ctx, words: [invoiceId, amount, tx], options: { undo, lost, ...options }, dryRun }) {
      if (lost !== undefined) return recordLost(ctx, lost, dryRun)
      if (undo !== undefined) return undoSettled(rehearseIf(dryRun, ctx), undo, dryRun)
      // Of two words the second is TX.
      const hash = (tx ?? amount)?.toLowerCase()
      if (invoiceId === undefined || hash === undefined)
        throw usageError(
          '"settle-invoice" takes INVOICE_ID [AMOUNT] TX, --undo PAYMENT_ID or --lost PAYMENT_ID.',
        )
      return settleInvoice(ctx, {
        invoiceId,
        amount: tx === undefined ? undefined : amount,
        tx: hash,
        ...options,
        dryRun,
      })
    },
  }),
]

interface SettleRequest {
  invoiceId: string
  /** In coins, as the operator typed it. */
  amount: string | undefined
  tx: string
  /** Whether it may be more than is still to be paid. */
  over: boolean
  /** Whether it counts although the node doesn't have the transaction. */
  unseen: boolean
  dryRun: boolean
}

/**
 * Counts a payment for an invoice, as a worker that found it would. If it was counted already, nothing
 * changes; so a worker that finds the transaction later doesn't count it again. Until the chain has shown it,
 * no payout is made of it.
 *
 * @throws Refusal if there is no such invoice, or the amount disagrees with what is on record, what the chain
 *   says or what is still to be paid
 */
async function settleInvoice(
  ctx: Context,
  { invoiceId, amount, tx, over, unseen, dryRun }: SettleRequest,
): Promise<VerbOutput> {
  requireTxHash(tx)
  const invoice = await ctx.invoices.find(invoiceId)
  if (invoice === undefined) throw new Refusal('no_such_invoice', 'There is no invoice with this id.')
  const { coin, address_index: addressIndex } = invoice
  const namedRaw = amount === undefined ? undefined : parseAmountWord(amount, coin)
  const known = await findRecorded(ctx, invoice, tx)
  const isSettled = known?.state === 'settled'
  const seen = isSettled ? undefined : await findInChain(ctx, invoice, tx, unseen)
  const amountRaw = namedRaw ?? seen?.amountRaw ?? (known && BigInt(known.amount_raw))
  if (amountRaw === undefined)
    throw usageError('The node cannot be asked for the amount now; name AMOUNT before TX.')
  if (known !== undefined && BigInt(known.amount_raw) !== amountRaw)
    throw wrongState(
      `The payment ${known._id} by this transaction is on record with ${formatAmountOf(known)}; the amount of a transaction does not change.`,
    )
  if (seen !== undefined && seen.amountRaw !== amountRaw)
    throw wrongState(
      `This transaction pays ${formatAmount(seen.amountRaw, coin)} to the invoice; leave AMOUNT out.`,
    )
  // An amount that the chain has shown counts in full.
  const openRaw = remainingRaw(invoice)
  if (known === undefined && seen === undefined && amountRaw > openRaw && !over)
    throw wrongState(`Only ${formatAmount(openRaw, coin)} ${coin} is still to be paid; --over counts more.`)
  if (dryRun || isSettled)
    return showSettled({ invoice, payment: known, amountRaw, tx, changed: !isSettled, dryRun })
  const { required_confirmations: base = 1 } = (await ctx.coins.findCoin(coin)) ?? {}
  const confirmations = known?.confirmations ?? requiredConfirmations(invoice, base)
  const found = { coin, tx, addressIndex, amountRaw, confirmations, isConfirmed: true }
  await recordPayment(ctx, found, 'operator')
  const arrival = await ctx.invoices.arrivals.find(coin, tx, addressIndex)
  const payment = arrival !== undefined && isPayment(arrival) ? arrival : undefined
  if (payment !== undefined && seen?.isConfirmed === true) await noteShown(ctx, payment)
  const [after = invoice, agent] = await Promise.all([
    ctx.invoices.find(invoiceId),
    ctx.agents.find(invoice.agent_id),
  ])
  const passUntilMs = agent?.pass_until_ms
  return showSettled({ invoice: after, payment, amountRaw, tx, changed: true, passUntilMs, dryRun })
}

/**
 * Asks the chain what a transaction pays to the invoice's address, in one sum.
 *
 * @param mayBeUnseen whether the operator's word is enough if the node doesn't have the transaction
 * @returns undefined if the node could not be asked, or doesn't have it and need not
 * @throws Refusal `wrong_state` if it pays somebody else, or the node doesn't have it but must
 */
async function findInChain(
  ctx: Context,
  { coin, address }: InvoiceRecord,
  tx: string,
  mayBeUnseen: boolean,
): Promise<FoundPay | undefined> {
  const lookUp = await lookUpTransaction(ctx, coin, tx)
  if (lookUp === 'no_answer') return undefined
  if (!lookUp.isKnown) {
    if (mayBeUnseen) return undefined
    throw wrongState('The node does not have this transaction; --unseen counts it on your word.')
  }
  const { pays, sumRaw } = filterPaysTo(coin, lookUp.pays, address)
  if (pays.length === 0) {
    const others = lookUp.pays.map(({ to }) => to).join(', ') || 'nobody'
    throw wrongState(`This transaction pays ${others}, and not the invoice's address ${address}.`)
  }
  return { to: address, amountRaw: sumRaw, isConfirmed: pays.every(({ isConfirmed }) => isConfirmed) }
}

/** Takes a payment back that was counted by hand. @param ctx of a rehearsal if `dryRun` */
async function undoSettled(ctx: Context, paymentId: string, dryRun: boolean): Promise<VerbOutput> {
  const { invoice_id, agent_id, coin, amount_raw: raw, tx } = await undoPayment(ctx, paymentId)
  const fields = { payment_id: paymentId, invoice_id, agent_id, currency: coin }
  const amount = formatAmount(BigInt(raw), coin)
  return showDone({ ...fields, amount, tx_hash: tx, state: 'gone', ledger_entry: 'payment' }, dryRun)
}

/**
 * Gives up a payment that was counted by hand and never came.
 *
 * @throws Refusal as givePaymentUp(), and `wrong_state` if it can be taken back with what it bought
 */
async function recordLost(ctx: Context, paymentId: string, dryRun: boolean): Promise<VerbOutput> {
  if (await canBeUndone(ctx, paymentId))
    throw wrongState(`What it bought can be taken back: "settle-invoice --undo ${paymentId}" does that.`)
  const given = await givePaymentUp(rehearseIf(dryRun, ctx), paymentId)
  const { invoice_id, agent_id, order_id, coin, amount_raw, tx } = given
  return showDone(
    {
      payment_id: paymentId,
      invoice_id,
      agent_id,
      order_id: order_id ?? null,
      currency: coin,
      amount: formatAmountOf({ amount_raw, coin }),
      tx_hash: tx,
      borne_by: 'venue',
      ledger_entry: 'payment',
    },
    dryRun,
    'What it bought stays bought. If the chain shows the transaction after all, the loss ends by itself.',
  )
}

/** Whether a payment that was counted by hand can be taken back with what it bought. */
async function canBeUndone(ctx: Context, paymentId: string): Promise<boolean> {
  try {
    await undoPayment(rehearseIf(true, ctx), paymentId)
    return true
  } catch (error) {
    if (error instanceof Refusal && error.code === 'wrong_state') return false
    throw error
  }
}

/**
 * Parses the word AMOUNT.
 *
 * @returns the amount in the coin's smallest unit
 * @throws CommandError if it isn't a number of coins, or is below what counts as money
 */
function parseAmountWord(text: string, coin: Coin): bigint {
  const { name, decimals } = COIN_UNITS[coin]
  let amountRaw: bigint
  try {
    amountRaw = parseAmount(text, coin)
  } catch {
    throw usageError(
      `AMOUNT is in ${name}, as a decimal number with at most ${decimals} decimals, such as 1.5.`,
    )
  }
  const leastRaw = dustThreshold(coin)
  if (amountRaw < leastRaw)
    throw usageError(`AMOUNT is at least ${formatAmount(leastRaw, coin)}: less is not counted as money.`)
  return amountRaw
}

/**
 * Finds the payment of this invoice by this transaction that is on record; undefined if there is none.
 *
 * @throws Refusal `wrong_state` if a Nano block, which has one recipient, is on record for another invoice, or
 *   what the transaction brought is on record and belongs to nobody
 */
async function findRecorded(
  ctx: Context,
  invoice: InvoiceRecord,
  tx: string,
): Promise<PaymentRecord | undefined> {
  const arrivals = await ctx.invoices.arrivals.listByTx(invoice.coin, [tx])
  const recorded = arrivals.filter(isPayment)
  const own = recorded.find(({ invoice_id }) => invoice_id === invoice._id)
  const [elsewhere] = recorded
  if (COIN_FACTS[invoice.coin].paysOneAddress && elsewhere !== undefined && own === undefined)
    throw wrongState(
      `This block is on record as the payment ${elsewhere._id} of the invoice ${elsewhere.invoice_id}.`,
    )
  if (own === undefined && arrivals.length > recorded.length)
    throw wrongState(
      `It came to an address that no invoice has: "unassigned give ${tx} ${invoice._id}" counts it for this one.`,
    )
  return own
}

/** What was counted, or would be. @param outcome.payment undefined if none is on record yet */
function showSettled(outcome: {
  invoice: InvoiceRecord
  payment: PaymentRecord | undefined
  amountRaw: bigint
  tx: string
  changed: boolean
  passUntilMs?: number | undefined
  dryRun: boolean
}): VerbOutput {
  const { invoice, payment, amountRaw, tx, changed, passUntilMs, dryRun } = outcome
  const isWaiting = payment?.waits_for_rate === true
  return showDone(
    {
      invoice_id: invoice._id,
      agent_id: invoice.agent_id,
      order_id: invoice.order_id ?? null,
      currency: invoice.coin,
      payment_id: payment?._id ?? null,
      amount: formatAmount(amountRaw, invoice.coin),
      tx_hash: tx,
      settlement: payment?.state === 'settled' && payment.by === 'chain' ? 'automatic' : 'manual',
      invoice_status: invoiceStatus(invoice, payment?.state === 'seen'),
      credited_days: payment?.credited_days ?? 0,
      pass_until: passUntilMs === undefined ? null : isoTime(passUntilMs),
      changed,
      ledger_entry: changed && !isWaiting ? 'payment' : null,
    },
    dryRun,
    isWaiting
      ? 'It is late money and there is no fresh rate: it is counted as soon as there is one.'
      : undefined,
  )
}
