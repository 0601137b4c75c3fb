import type { z } from 'zod'
import { authorData, readAuthorship } from '../agents/authorship.ts'
import type { Context } from '../context.ts'
import type { Authorship } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { insertInSlot } from '../platform/slots.ts'
import { Refusal } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import { newSalt } from '../ledger/pending.ts'
import type { Coin } from '../money/coin.ts'
import { isCoinReady, logInvoice, prepareInvoice, requireReady } from '../money/invoice-service.ts'
import type { InvoiceRecord } from '../money/invoice.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { MAX_UNPAID_ORDERS } from './market-terms.ts'
import { coinsOf, deliverySeconds, type OfferRecord } from './offer.ts'
import { findOffer } from './offer-service.ts'
import { feeOf } from './order-states.ts'
import type { orderBody } from './order-views.ts'
import { orderEntry, orderMarks, type OrderRecord } from './order.ts'
import { requireAddress } from '../money/payout-address.ts'

type OrderInvoice = InvoiceRecord & { order_id: string }

/**
 * Orders from an offer: stores the order with its invoice, in one transaction.
 *
 * @throws Refusal `no_such_offer`; `own_offer`; `wrong_state` if the offer is closed or hidden, or the buyer
 *   has too many unpaid orders; `invalid_field` for a coin, an address or a signature that cannot be used;
 *   `currency_not_configured`; `rate_unavailable`; `unavailable` if no address could be had
 */
export async function placeOrder(
  ctx: Context,
  buyerId: string,
  fields: z.output<typeof orderBody>,
): Promise<{ order: OrderRecord; invoice: OrderInvoice }> {
  const { offer_id, currency, refund_address } = fields
  const offer = await requireOffer(ctx, buyerId, offer_id)
  const coin = await chooseCoin(ctx, offer, currency)
  const refundAddress =
    refund_address === undefined
      ? undefined
      : await requireAddress(ctx, coin, refund_address, 'refund_address')
  const signed = { offer_id, currency, refund_address }
  const author = await readAuthorship(ctx, buyerId, 'order ordered', signed, fields)
  const orderId = newId('order')
  let invoice: OrderInvoice | undefined
  return insertInSlot(
    ctx,
    { owner: buyerId, ownerField: 'buyer_id', slots: MAX_UNPAID_ORDERS },
    () => ctx.orders.listUnpaidSlots(buyerId),
    async (unpaid_slot) => {
      // Only with a free slot, and once: each invoice uses up an address.
      const expiresAt = unixSeconds(ctx.database.now() + ctx.config.payByMs)
      const asked = { agentId: buyerId, coin, priceUsdCents: offer.price_usd_cents, expiresAt }
      invoice ??= { ...(await prepareInvoice(ctx, asked)), order_id: orderId }
      const placed = {
        order: { ...newOrder(ctx, invoice, offer, refundAddress, author), unpaid_slot },
        invoice,
      }
      await ctx.database.transaction(async (session) => {
        await ctx.orders.insert(placed.order, session)
        await ctx.invoices.insert(placed.invoice, session)
      })
      logInvoice(ctx.log, invoice)
      return placed
    },
    tooManyUnpaid,
  )
}

const tooManyUnpaid = () =>
  new Refusal(
    'wrong_state',
    `You have ${MAX_UNPAID_ORDERS} orders that are not paid; pay them, or wait until they expire.`,
  )

/** Finds an offer that the buyer can order from. @throws Refusal `no_such_offer`; `own_offer`; `wrong_state` */
async function requireOffer(ctx: Context, buyerId: string, offerId: string): Promise<OfferRecord> {
  const offer = await findOffer(ctx, offerId)
  if (offer.agent_id === buyerId)
    throw new Refusal('own_offer', 'This offer is your own; order from another agent.', { field: 'offer_id' })
  const seller = await ctx.agents.find(offer.agent_id)
  if (offer.open !== true || offer.hidden_at !== undefined || seller?.banned_at !== undefined)
    throw new Refusal('wrong_state', 'This offer is closed; GET /market/offers lists those that are open.', {
      field: 'offer_id',
    })
  return offer
}

/**
 * Chooses the coin to pay in: `wanted`, or else the first of the offer's coins that is ready.
 *
 * @throws Refusal `invalid_field` if the offer does not take `wanted`; `currency_not_configured` if that
 *   isn't ready, or if none is
 */
async function chooseCoin(ctx: Context, offer: OfferRecord, wanted: Coin | undefined): Promise<Coin> {
  const accepted = coinsOf(offer)
  const paidIn = `This offer can be paid in ${accepted.join(' or ')}`
  if (wanted !== undefined) {
    if (!accepted.includes(wanted))
      throw new Refusal('invalid_field', `${paidIn}; expected one of them.`, { field: 'currency' })
    await requireReady(ctx, wanted)
    return wanted
  }
  for (const coin of accepted) if (isCoinReady(ctx, await ctx.coins.findCoin(coin))) return coin
  const why = `${paidIn}, which cannot be taken now; GET /api/v1/currencies says what is ready.`
  throw new Refusal('currency_not_configured', why, { field: 'currency' })
}

/** Makes the order that goes with an invoice, with its ledger entry and event marks; stores nothing. */
function newOrder(
  ctx: Context,
  invoice: OrderInvoice,
  offer: OfferRecord,
  refundAddress: string | undefined,
  author: Authorship | undefined,
): OrderRecord {
  const { order_id: orderId, agent_id: buyerId, at, coin } = invoice
  const payoutAddress = offer.payout_addresses[coin]
  if (payoutAddress === undefined)
    throw new TypeError(`"coin" expected one that offer ${offer._id} has an address for, got ${coin}`)
  const [payoutSalt, refundSalt] = [newSalt(), newSalt()]
  const status = 'awaiting_payment'
  /** Fields of the record and of the ledger entry alike. */
  const terms = {
    offer_id: offer._id,
    buyer_id: buyerId,
    seller_id: offer.agent_id,
    invoice_id: invoice._id,
    coin,
    price_usd_cents: offer.price_usd_cents,
    amount_raw: invoice.amount_raw,
    fee_raw: String(feeOf(BigInt(invoice.amount_raw))),
    pay_by: invoice.expires_at,
    delivery_seconds: deliverySeconds(offer.delivery_hours),
    accept_seconds: Math.ceil(ctx.config.acceptMs / SECOND_MS),
  }
  const entry = orderEntry({ _id: orderId, version: -1 }, 'ordered', at, {
    status,
    ...terms,
    payout_address_hash: commitRecord(orderId, payoutSalt, { address: payoutAddress }),
    refund_address_hash:
      refundAddress === undefined ? null : commitRecord(orderId, refundSalt, { address: refundAddress }),
    ...authorData(author),
  })
  return {
    _id: orderId,
    ...terms,
    at,
    title: offer.title,
    payout_address: payoutAddress,
    payout_salt: payoutSalt,
    ...(refundAddress === undefined ? {} : { refund_address: refundAddress, refund_salt: refundSalt }),
    status,
    version: 0,
    written_off_raw: '0',
    ...(author === undefined ? {} : { signatures: [{ ...author, step: 'ordered', agent_id: buyerId }] }),
    tells: orderMarks({ _id: orderId, ...terms }, 'ordered', status),
    pending: [entry],
  }
}
