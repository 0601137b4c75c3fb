import type { z } from 'zod'
import type { Context } from '../context.ts'
import { isDuplicateKey } from '../database.ts'
import { Refusal } from '../errors.ts'
import { newId } from '../ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { createTurns } from '../one-at-a-time.ts'
import { COINS, type Coin } from '../payments/coin.ts'
import { isCoinReady, prepareInvoice, requireReady } from '../payments/invoice-service.ts'
import type { InvoiceRecord } from '../payments/invoice.ts'
import { SECOND_MS, unixSeconds } from '../time.ts'
import { MARKET_FEE_PERCENT, MAX_UNPAID_ORDERS } from './market-terms.ts'
import { deliverySeconds, type OfferRecord } from './offer.ts'
import { findOffer } from './offer-service.ts'
import { feeOf } from './order-states.ts'
import type { orderBody } from './order-views.ts'
import { orderEntry, type OrderRecord } from './order.ts'
import { commitAddress, requireAddress } from '../payments/payout-address.ts'

/** A buyer's orders take turns within this process; across processes the unique index on their slots decides. */
const takeTurns = createTurns()

/**
 * Orders from an offer: an order and its invoice, in one transaction.
 *
 * @throws Refusal `no_such_offer`; `own_offer`; `wrong_state` where the offer is closed or the buyer has too many unpaid
 *   orders; `invalid_field` for a currency that the seller does not take, or a refund address that is none;
 *   `currency_not_configured`, `rate_unavailable`, `unavailable` as prepareInvoice()
 */
export async function placeOrder(
  ctx: Context,
  buyerId: string,
  fields: z.output<typeof orderBody>,
): Promise<{ order: OrderRecord; invoice: InvoiceRecord }> {
  const offer = await findOffer(ctx, fields.offer_id)
  if (offer.agent_id === buyerId) throw new Refusal('own_offer', 'This offer is your own; order from another agent.', { field: 'offer_id' })
  const seller = await ctx.agents.find(offer.agent_id)
  if (offer.open !== true || seller?.banned_at !== undefined)
    throw new Refusal('wrong_state', 'This offer is closed; GET /market/offers lists those that are open.', { field: 'offer_id' })
  const coin = await chooseCoin(ctx, offer, fields.currency)
  const refundAddress =
    fields.refund_address === undefined ? undefined : await requireAddress(ctx, coin, fields.refund_address, 'refund_address')
  return takeTurns(buyerId, async () => {
    await requireSlot(ctx, buyerId)
    const orderId = newId('order')
    const nowMs = ctx.now()
    const payBy = unixSeconds(nowMs + ctx.config.payByMs)
    const asked = { agentId: buyerId, coin, priceUsdCents: offer.price_usd_cents, expiresAt: payBy }
    const invoice = { ...(await prepareInvoice(ctx, asked)), order_id: orderId }
    const acceptSeconds = Math.ceil(ctx.config.acceptMs / SECOND_MS)
    for (;;) {
      const slot = await requireSlot(ctx, buyerId)
      const order = newOrder({ orderId, buyerId, offer, coin, invoice, payBy, acceptSeconds, slot, refundAddress })
      try {
        await ctx.database.transaction(async (session) => {
          await ctx.orders.insert(order, session)
          await ctx.invoices.insert(invoice, session)
        })
        return { order, invoice }
      } catch (error) {
        if (!isDuplicateKey(error, 'buyer_id')) throw error
      }
    }
  })
}

async function chooseCoin(ctx: Context, offer: OfferRecord, wanted: Coin | undefined): Promise<Coin> {
  const taken = COINS.filter((coin) => offer.payout_addresses[coin] !== undefined)
  if (wanted !== undefined) {
    if (!taken.includes(wanted))
      throw new Refusal('invalid_field', `This offer can be paid in ${taken.join(' or ')}; expected one of them.`, { field: 'currency' })
    await requireReady(ctx, wanted)
    return wanted
  }
  for (const coin of taken) if (isCoinReady(ctx, await ctx.coins.findCoin(coin))) return coin
  throw new Refusal(
    'currency_not_configured',
    `This offer can be paid in ${taken.join(' or ')}, which cannot be taken now; GET /api/v1/currencies says what is ready.`,
    { field: 'currency' },
  )
}

/** The lowest free slot of a buyer's unpaid orders. */
async function requireSlot(ctx: Context, buyerId: string): Promise<number> {
  const used = new Set(await ctx.orders.listUnpaidSlots(buyerId))
  for (let slot = 0; slot < MAX_UNPAID_ORDERS; slot++) if (!used.has(slot)) return slot
  throw new Refusal('wrong_state', `You have ${MAX_UNPAID_ORDERS} orders that are not paid; pay them, or wait until they expire.`)
}

function newOrder(fields: {
  orderId: string
  buyerId: string
  offer: OfferRecord
  coin: Coin
  invoice: InvoiceRecord
  payBy: number
  acceptSeconds: number
  slot: number
  refundAddress: string | undefined
}): OrderRecord {
  const { orderId, buyerId, offer, coin, invoice, payBy, acceptSeconds, slot, refundAddress } = fields
  const { at } = invoice
  const payoutAddress = offer.payout_addresses[coin]
  if (payoutAddress === undefined) throw new TypeError(`"coin" expected one that offer ${offer._id} has an address for, got ${coin}`)
  const feeRaw = String(feeOf(BigInt(invoice.amount_raw), MARKET_FEE_PERCENT))
  const payoutSalt = newSalt()
  const refund = refundAddress === undefined ? undefined : { refund_address: refundAddress, refund_salt: newSalt() }
  const entry = orderEntry({ _id: orderId, version: -1 }, 'ordered', at, {
    status: 'awaiting_payment',
    offer_id: offer._id,
    buyer_id: buyerId,
    seller_id: offer.agent_id,
    invoice_id: invoice._id,
    coin,
    price_usd_cents: offer.price_usd_cents,
    amount_raw: invoice.amount_raw,
    fee_raw: feeRaw,
    pay_by: payBy,
    delivery_seconds: deliverySeconds(offer.delivery_hours),
    accept_seconds: acceptSeconds,
    payout_address_hash: commitAddress(payoutSalt, payoutAddress),
    refund_address_hash: refund === undefined ? null : commitAddress(refund.refund_salt, refund.refund_address),
  })
  return {
    _id: orderId,
    offer_id: offer._id,
    buyer_id: buyerId,
    seller_id: offer.agent_id,
    at,
    title: offer.title,
    coin,
    price_usd_cents: offer.price_usd_cents,
    amount_raw: invoice.amount_raw,
    fee_raw: feeRaw,
    invoice_id: invoice._id,
    delivery_seconds: deliverySeconds(offer.delivery_hours),
    accept_seconds: acceptSeconds,
    payout_address: payoutAddress,
    payout_salt: payoutSalt,
    ...refund,
    status: 'awaiting_payment',
    version: 0,
    unpaid_slot: slot,
    pay_by: payBy,
    written_off_raw: '0',
    pending: [entry],
  }
}
