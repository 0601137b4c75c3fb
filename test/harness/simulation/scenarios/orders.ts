import { omitUndefined } from '../../../../shared/platform/omit-undefined.ts'
import { newSalt } from '../../../../shared/ledger/pending.ts'
import { payoutFor, releaseUpdate, type OrderUpdate } from '../../../../shared/market/order-rules.ts'
import { applyChange, journalLinesOf, stepChange, type OrderRecord } from '../../../../shared/market/order.ts'
import type { InvoiceRecord } from '../../../../shared/money/invoice.ts'
import type { PaymentRecord } from '../../../../shared/money/arrival.ts'
import { paymentLine } from '../../../../shared/money/journal.ts'
import { paymentEntry } from '../../../../shared/money/arrival-steps.ts'
import type { Doc } from '../query.ts'
import type { World } from '../world.ts'
import type { Chain } from './chain.ts'

export const [BUYER, SELLER] = ['agt_buyer', 'agt_seller']
export const FEE = 10n ** 28n
export const PRICE = 100n * FEE
/** Within which everything is paid, and each deadline passes. */
const SOON_SECONDS = 4
/** awaiting payment, paid, delivered, released, disputed */
const STAGES = 5

/**
 * Stores an order as it stands at some stage, with all that belongs to it, and has it paid: in parts, or
 * once more if its price was paid before. @returns its id
 */
export function beginOrder({ set, schedule }: World, chain: Chain, index: number): string {
  const { random, nowMs } = schedule
  const at = Math.floor(nowMs / 1_000)
  const soon = at + SOON_SECONDS
  const stage = random.below(STAGES)
  const [orderId, invoiceId] = [`mkt_${index}`, `inv_${index}`]
  const begin = (collection: string, ...records: readonly object[]): void =>
    records.forEach((record) => set.begin(collection, record as Doc))
  const common = { at, coin: 'xno', price_usd_cents: 100, amount_raw: String(PRICE), version: 0 } as const
  const order: OrderRecord = {
    ...common,
    ...{ _id: orderId, offer_id: 'ofr_1', buyer_id: BUYER, seller_id: SELLER, title: 't' },
    ...{ fee_raw: String(FEE), invoice_id: invoiceId, written_off_raw: '0', payout_salt: 's' },
    ...{ delivery_seconds: SOON_SECONDS, accept_seconds: SOON_SECONDS },
    ...{ payout_address: 'nano_seller', refund_address: 'nano_buyer' },
    ...{ status: 'awaiting_payment', unpaid_slot: index, pay_by: soon },
  }
  const invoice: InvoiceRecord = {
    ...common,
    ...{ _id: invoiceId, agent_id: BUYER, order_id: orderId, rate: '1', rate_source: 's', rate_at: at },
    ...{ address: `nano_${index}`, address_index: index, expires_at: soon, lapsed: false },
    ...{ received_raw: '0', carried_raw: '0', moved_raw: '0', unspent: '0', credited_days: 0 },
  }
  if (stage === 0) {
    for (const tenths of random.pick([[10], [4, 6], [6, 6], [4]]))
      chain.pay(index, (PRICE / 10n) * BigInt(tenths), SOON_SECONDS * 1_500)
    begin('orders', order)
    begin('invoices', invoice)
    return orderId
  }
  const excessRaw = random.pick([0n, PRICE / 2n])
  const { tx } = chain.pay(index, PRICE + excessRaw, 1)
  if (random.chance(0.5)) chain.pay(index, PRICE / 2n, SOON_SECONDS * 1_500)
  const payment: PaymentRecord = {
    ...{ _id: `pay_${index}`, coin: 'xno', tx, address_index: index, invoice_id: invoiceId, agent_id: BUYER },
    ...{ order_id: orderId, amount_raw: String(PRICE + excessRaw), state: 'settled', confirmations: 1 },
    ...{ first_seen_at: at, late: false, by: 'chain', settled_at: at, salt: newSalt() },
  }
  begin('payments', { ...payment, pending: [paymentEntry(payment, at)] })
  begin('journal', ...paymentLine(payment, 'received', at))
  begin('invoices', { ...invoice, received_raw: payment.amount_raw, has_payments: true, version: 2 })
  let now = order
  const pending: object[] = []
  const take = ({ change, payouts = [] }: OrderUpdate): void => {
    begin('journal', ...journalLinesOf(now, change, payouts))
    begin('payouts', ...payouts.map(omitUndefined))
    pending.push(...(change.entries ?? []))
    now = applyChange(now, change)
  }
  const paid = { paid_at: at, deliver_by: soon, due_at: soon }
  take({
    change: stepChange(now, 'paid', at, { set: paid, unset: ['unpaid_slot'] }),
    payouts: excessRaw === 0n ? [] : [payoutFor(now, 'buyer', 'excess', excessRaw, at)],
  })
  const delivered = { delivery: 'd', delivery_salt: 's', delivered_at: at, accept_by: soon, due_at: soon }
  if (stage > 1) take({ change: stepChange(now, 'delivered', at, { set: delivered }) })
  if (stage === 3) take(releaseUpdate(now, 'accepted', at))
  const disputed = { disputed_at: at, disputed_by: 'buyer' } as const
  if (stage === 4) take({ change: stepChange(now, 'disputed', at, { set: disputed, unset: ['due_at'] }) })
  begin('orders', { ...now, pending })
  return orderId
}
