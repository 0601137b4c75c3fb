import type { z } from 'zod'
import { authorData, readAuthorship } from '../agents/authorship.ts'
import type { Context } from '../context.ts'
import type { Authorship } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { isDuplicateKey } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import { newId } from '../foundation/ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { COINS, type Coin } from '../payments/coin.ts'
import { isCoinReady, logInvoice, prepareInvoice, requireReady } from '../payments/invoice-service.ts'
import type { InvoiceRecord } from '../payments/invoice.ts'
import { SECOND_MS, unixSeconds } from '../foundation/time.ts'
import { MARKET_FEE_PERCENT, MAX_UNPAID_ORDERS } from './market-terms.ts'
import { deliverySeconds, type OfferRecord } from './offer.ts'
import { findOffer } from './offer-service.ts'
import { feeOf } from './order-states.ts'
import type { orderBody } from './order-views.ts'
import { orderEntry, orderMarks, type OrderRecord } from './order.ts'
import { requireAddress } from '../payments/payout-address.ts'

/**
 * In one transaction.
 *
 * @throws Refusal `no_such_offer` `own_offer` `wrong_state` `invalid_field`, and as readAuthorship() and
 *   prepareInvoice()
 */
export async function placeOrder(
  ctx: Context,
  buyerId: string,
  fields: z.output<typeof orderBody>,
): Promise<{ order: OrderRecord; invoice: InvoiceRecord }> {
  const offer = await findOffer(ctx, fields.offer_id)
  if (offer.agent_id === buyerId)
    throw new Refusal('own_offer', 'This offer is your own; order from another agent.', { field: 'offer_id' })
  const seller = await ctx.agents.find(offer.agent_id)
  if (offer.open !== true || offer.hidden_at !== undefined || seller?.banned_at !== undefined)
    throw new Refusal('wrong_state', 'This offer is closed; GET /market/offers lists those that are open.', {
      field: 'offer_id',
    })
  const coin = await chooseCoin(ctx, offer, fields.currency)
  const refundAddress =
    fields.refund_address === undefined
      ? undefined
      : await requireAddress(ctx, coin, fields.refund_address, 'refund_address')
  const { offer_id, currency, refund_address } = fields
  const said = { offer_id, currency, refund_address }
  const author = await readAuthorship(ctx, buyerId, 'order ordered', said, fields)
  // Within this process; across processes the unique index on the buyer's slots decides.
  return ctx.serialize(`order ${buyerId}`, async () => {
    await requireSlot(ctx, buyerId)
    const orderId = newId('order')
    const expiresAt = unixSeconds(ctx.databaseNow() + ctx.config.payByMs)
    const asked = { agentId: buyerId, coin, priceUsdCents: offer.price_usd_cents, expiresAt }
    const prepared = await prepareInvoice(ctx, asked)
    const invoice = { ...prepared, order_id: orderId }
    const order = newOrder(invoice, offer, Math.ceil(ctx.config.acceptMs / SECOND_MS), refundAddress, author)
    for (;;) {
      const placed = { ...order, unpaid_slot: await requireSlot(ctx, buyerId) }
      try {
        await ctx.database.transaction(async (session) => {
          await ctx.orders.insert(placed, session)
          await ctx.invoices.insert(invoice, session)
        })
        logInvoice(ctx.log, invoice)
        return { order: placed, invoice }
      } catch (error) {
        if (!isDuplicateKey(error, 'buyer_id')) throw error
      }
    }
  })
}

async function chooseCoin(ctx: Context, offer: OfferRecord, wanted: Coin | undefined): Promise<Coin> {
  const taken = COINS.filter((coin) => offer.payout_addresses[coin] !== undefined)
  const paidIn = `This offer can be paid in ${taken.join(' or ')}`

  if (wanted !== undefined) {
    if (!taken.includes(wanted))
      throw new Refusal('invalid_field', `${paidIn}; expected one of them.`, { field: 'currency' })
    await requireReady(ctx, wanted)
    return wanted
  }
  for (const coin of taken) if (isCoinReady(ctx, await ctx.coins.findCoin(coin))) return coin
  const why = `${paidIn}, which cannot be taken now; GET /api/v1/currencies says what is ready.`
  throw new Refusal('currency_not_configured', why, { field: 'currency' })
}

async function requireSlot(ctx: Context, buyerId: string): Promise<number> {
  const used = new Set(await ctx.orders.listUnpaidSlots(buyerId))
  for (let slot = 0; slot < MAX_UNPAID_ORDERS; slot++) if (!used.has(slot)) return slot
  throw new Refusal(
    'wrong_state',
    `You have ${MAX_UNPAID_ORDERS} orders that are not paid; pay them, or wait until they expire.`,
  )
}

function newOrder(
  invoice: InvoiceRecord & { order_id: string },
  offer: OfferRecord,
  acceptSeconds: number,
  refundAddress: string | undefined,
  author: Authorship | undefined,
): OrderRecord {
  const { order_id: orderId, agent_id: buyerId, at, coin, expires_at: payBy } = invoice
  const payoutAddress = offer.payout_addresses[coin]
  if (payoutAddress === undefined)
    throw new TypeError(`"coin" expected one that offer ${offer._id} has an address for, got ${coin}`)
  const feeRaw = String(feeOf(BigInt(invoice.amount_raw), MARKET_FEE_PERCENT))
  const payoutSalt = newSalt()
  const refund =
    refundAddress === undefined ? undefined : { refund_address: refundAddress, refund_salt: newSalt() }
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
    payout_address_hash: commitRecord(orderId, payoutSalt, { address: payoutAddress }),
    refund_address_hash:
      refund === undefined
        ? null
        : commitRecord(orderId, refund.refund_salt, { address: refund.refund_address }),
    ...authorData(author),
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
    pay_by: payBy,
    written_off_raw: '0',
    ...(author === undefined ? {} : { signatures: [{ ...author, step: 'ordered', agent_id: buyerId }] }),
    tells: orderMarks(
      { _id: orderId, buyer_id: buyerId, seller_id: offer.agent_id },
      'ordered',
      'awaiting_payment',
    ),
    pending: [entry],
  }
}
