import type { z } from 'zod'
import { omitUndefined } from '../platform/omit-undefined.ts'
import { spendAllowance } from '../agents/allowance-service.ts'
import type { Context } from '../context.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { Refusal } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { COINS, type Coin } from '../money/coin.ts'
import { isCoinReady } from '../money/invoice-service.ts'
import { requireAddress } from '../money/payout-address.ts'
import { nowSeconds } from '../platform/time.ts'
import { insertInSlot } from '../platform/slots.ts'
import { MAX_OPEN_OFFERS } from './market-terms.ts'
import { coinsOf, deliverySeconds, offerContent } from './offer.ts'
import type { offerBody, OfferRecord } from './offer.ts'

/**
 * Stores a new offer with its ledger entry.
 *
 * @throws Refusal `invalid_field` for the venue's own address; `wrong_state` if the agent has too many open
 *   offers, or has used up today's allowance
 */
export async function makeOffer(
  ctx: Context,
  agentId: string,
  fields: z.output<typeof offerBody>,
): Promise<OfferRecord> {
  const { title, description, payout_addresses } = fields
  for (const coin of COINS)
    if (payout_addresses[coin] !== undefined)
      await requireAddress(ctx, coin, payout_addresses[coin], 'payout_addresses')
  await spendAllowance(ctx, agentId, 'changes', title, description)
  const offer = newOffer(agentId, fields, nowSeconds(ctx))
  await insertInSlot(
    ctx,
    { owner: agentId, ownerField: 'agent_id', slots: MAX_OPEN_OFFERS },
    () => ctx.offers.listOpenSlots(agentId),
    (open_slot) => ctx.offers.insert({ ...offer, open_slot }),
    () =>
      new Refusal(
        'wrong_state',
        `You have ${MAX_OPEN_OFFERS} open offers; close one with POST /market/offer/close.`,
      ),
  )
  return offer
}

/** Makes the record of an open offer, with its ledger entry. @param at Unix seconds */
function newOffer(agentId: string, fields: z.output<typeof offerBody>, at: number): OfferRecord {
  const { title, description, delivery_hours } = fields
  const payout_addresses = omitUndefined(fields.payout_addresses)
  const id = newId('offer')
  const [salt, addresses_salt] = [newSalt(), newSalt()]
  const price_usd_cents = Math.round(fields.price_usd * 100)
  const data = {
    offer_id: id,
    agent_id: agentId,
    price_usd_cents,
    delivery_seconds: deliverySeconds(delivery_hours),
    currencies: coinsOf({ payout_addresses }),
    content_hash: commitRecord(id, salt, offerContent(fields)),
    addresses_hash: commitRecord(id, addresses_salt, { payout_addresses }),
  }
  return {
    _id: id,
    agent_id: agentId,
    at,
    title,
    description,
    price_usd_cents,
    delivery_hours,
    payout_addresses,
    salt,
    addresses_salt,
    open: true,
    pending: [{ source: `${id}/offer`, at, kind: 'offer', data }],
  }
}

/**
 * Closes an offer of the agent, and gives it as it is then; orders made from it run on.
 *
 * @throws Refusal `no_such_offer`; `not_yours`; `wrong_state` if it is closed
 */
export async function closeOffer(ctx: Context, agentId: string, offerId: string): Promise<OfferRecord> {
  const offer = await findOffer(ctx, offerId)
  if (offer.agent_id !== agentId)
    throw new Refusal('not_yours', 'This offer is of another agent.', { field: 'offer_id' })
  const at = nowSeconds(ctx)
  const data = { offer_id: offerId, agent_id: agentId }
  const entry = { source: `${offerId}/closed`, at, kind: 'offer_closed' as const, data }
  if (!(await ctx.offers.close(offerId, agentId, at, entry)))
    throw new Refusal('wrong_state', 'This offer is closed already.', { field: 'offer_id' })
  return { ...offer, closed_at: at }
}

/** Reads an offer, open or closed. @throws Refusal `no_such_offer` */
export async function findOffer(ctx: Context, offerId: string): Promise<OfferRecord> {
  const offer = await ctx.offers.find(offerId)
  if (offer === undefined)
    throw new Refusal('no_such_offer', 'There is no offer with this id.', { field: 'offer_id' })
  return offer
}

/** Reads which coins an order can be paid in now. */
export const listReadyCoins = async (ctx: Context): Promise<Coin[]> =>
  (await ctx.coins.listCoins()).filter((coin) => isCoinReady(ctx, coin)).map(({ _id }) => _id)
