import { usageError } from '../agent/command-error.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/errors.ts'
import { COIN_UNITS, dustThreshold, formatAmount, parseAmount } from '../../shared/payments/coin.ts'
import { COIN_FACTS } from '../../shared/payments/coin-facts.ts'
import { invoiceStatus, type InvoiceRecord, type PaymentRecord } from '../../shared/payments/invoice.ts'
import { requiredConfirmations } from '../../shared/payments/invoice-service.ts'
import { recordPayment } from '../../shared/payments/settlement.ts'
import { isoTime } from '../../shared/time.ts'
import { showDone } from './shown.ts'
import { defineOperatorVerb, type OperatorVerb, type Shown } from './verb.ts'

export const paymentVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'settle-invoice',
    words: ['INVOICE_ID', 'AMOUNT', 'TX'],
    options: {},
    help: "Count a payment of AMOUNT coins by the transaction or block TX for an invoice, by hand; the coin's node may be away",
    changes: true,
    run: ({ ctx, words: [invoiceId, amount, tx], dryRun }) => settleInvoice(ctx, invoiceId, amount, tx.toLowerCase(), dryRun),
  }),
]

/**
 * Counts a payment as a worker that found it would. TX is what makes it count once: the chain's own look at the same
 * transaction, now or later, finds it counted.
 */
async function settleInvoice(ctx: Context, invoiceId: string, amount: string, tx: string, dryRun: boolean): Promise<Shown> {
  if (!/^[0-9a-f]{64}$/.test(tx)) throw usageError('TX is the hash of a transaction or block: 64 hex characters.')
  const invoice = await ctx.invoices.find(invoiceId)
  if (invoice === undefined) throw new Refusal('no_such_invoice', 'There is no invoice with this id.')
  const amountRaw = readAmount(amount, invoice)
  const known = await findRecorded(ctx, invoice, tx)
  if (known !== undefined && BigInt(known.amount_raw) !== amountRaw)
    throw new Refusal(
      'wrong_state',
      `The payment ${known._id} by this transaction is on record with ${formatAmount(BigInt(known.amount_raw), known.coin)}; the amount of a transaction does not change.`,
    )
  if (dryRun || known?.state === 'settled')
    return show({ invoice, payment: known, amountRaw, tx, changed: known?.state !== 'settled', dryRun })
  const { required_confirmations: base = 1 } = (await ctx.coins.findCoin(invoice.coin)) ?? {}
  const confirmations = known?.confirmations ?? requiredConfirmations(invoice, base)
  await recordPayment(
    ctx,
    { coin: invoice.coin, tx, addressIndex: invoice.address_index, amountRaw, confirmations, isConfirmed: true },
    'operator',
  )
  const [after, payment, agent] = await Promise.all([
    ctx.invoices.find(invoiceId),
    ctx.invoices.findPayment(invoice.coin, tx, invoice.address_index),
    ctx.agents.find(invoice.agent_id),
  ])
  return show({ invoice: after ?? invoice, payment, amountRaw, tx, changed: true, passUntilMs: agent?.pass_until_ms, dryRun: false })
}

function readAmount(text: string, { coin }: InvoiceRecord): bigint {
  let amountRaw: bigint
  try {
    amountRaw = parseAmount(text, coin)
  } catch {
    throw usageError(
      `AMOUNT is in ${COIN_UNITS[coin].name}, as a decimal number with at most ${COIN_UNITS[coin].decimals} decimals, such as 1.5.`,
    )
  }
  if (amountRaw < dustThreshold(coin))
    throw usageError(`AMOUNT is at least ${formatAmount(dustThreshold(coin), coin)}: less is not counted as money.`)
  return amountRaw
}

/** @throws Refusal `wrong_state` for a Nano block that is another invoice's: a block has one recipient */
async function findRecorded(ctx: Context, invoice: InvoiceRecord, tx: string): Promise<PaymentRecord | undefined> {
  const recorded = await ctx.invoices.listPaymentsByTx(invoice.coin, [tx])
  const elsewhere = recorded.find(({ invoice_id }) => invoice_id !== invoice._id)
  if (COIN_FACTS[invoice.coin].paysOneAddress && elsewhere !== undefined)
    throw new Refusal('wrong_state', `This block is on record as the payment ${elsewhere._id} of the invoice ${elsewhere.invoice_id}.`)
  return recorded.find(({ invoice_id }) => invoice_id === invoice._id)
}

function show(outcome: {
  invoice: InvoiceRecord
  payment: PaymentRecord | undefined
  amountRaw: bigint
  tx: string
  changed: boolean
  passUntilMs?: number | undefined
  dryRun: boolean
}): Shown {
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
    isWaiting ? 'It is late money and there is no fresh rate: it is counted as soon as there is one.' : undefined,
  )
}
