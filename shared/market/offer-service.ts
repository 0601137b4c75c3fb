import type { z } from 'zod'
import type { Context } from '../context.ts'
import { commit } from '../crypto/commitment.ts'
import { Refusal } from '../errors.ts'
import { newId } from '../ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { COINS, type Coin } from '../payments/coin.ts'
import { isCoinReady } from '../payments/invoice-service.ts'
import { requireAddress } from '../payments/payout-address.ts'
import { unixSeconds } from '../time.ts'
import { MAX_OFFER_PAGES } from './market-terms.ts'
import { deliverySeconds, offerAddresses, offerContent, type offerBody, type OfferRecord } from './offer.ts'

/** Makes an offer, with its entry. @throws Refusal `invalid_field` for a payout address that is the venue's own */
export async function makeOffer(ctx: Context, agentId: string, fields: z.output<typeof offerBody>): Promise<OfferRecord> {
  const id = newId('offer')
  const at = unixSeconds(ctx.now())
  const { title, description, delivery_hours } = fields
  const { xno, xmr } = fields.payout_addresses
  const payout_addresses = { ...(xno === undefined ? {} : { xno }), ...(xmr === undefined ? {} : { xmr }) }
  for (const [coin, address] of Object.entries(payout_addresses)) await requireAddress(ctx, coin as Coin, address, 'payout_addresses')
  const [salt, addressesSalt] = [newSalt(), newSalt()]
  const price_usd_cents = Math.round(fields.price_usd * 100)
  const offer: OfferRecord = {
    _id: id,
    agent_id: agentId,
    at,
    title,
    description,
    price_usd_cents,
    delivery_hours,
    payout_addresses,
    salt,
    addresses_salt: addressesSalt,
    open: true,
    pending: [
      {
        source: `${id}/offer`,
        at,
        kind: 'offer',
        data: {
          offer_id: id,
          agent_id: agentId,
          price_usd_cents,
          delivery_seconds: deliverySeconds(delivery_hours),
          currencies: COINS.filter((coin) => payout_addresses[coin] !== undefined),
          content_hash: commit(Buffer.from(salt, 'hex'), offerContent(fields)),
          addresses_hash: commit(Buffer.from(addressesSalt, 'hex'), offerAddresses({ payout_addresses })),
        },
      },
    ],
  }
  await ctx.offers.insert(offer)
  return offer
}

/**
 * Closes an offer: nobody can order from it any more; orders made before run on.
 *
 * @throws Refusal `no_such_offer`; `not_yours`; `wrong_state` where it is closed
 */
export async function closeOffer(ctx: Context, agentId: string, offerId: string): Promise<OfferRecord> {
  const offer = await findOffer(ctx, offerId)
  if (offer.agent_id !== agentId) throw new Refusal('not_yours', 'This offer is of another agent.', { field: 'offer_id' })
  const at = unixSeconds(ctx.now())
  const entry = { source: `${offerId}/closed`, at, kind: 'offer_closed' as const, data: { offer_id: offerId, agent_id: agentId } }
  if (!(await ctx.offers.close(offerId, agentId, at, entry)))
    throw new Refusal('wrong_state', 'This offer is closed already.', { field: 'offer_id' })
  return { ...offer, closed_at: at }
}

/** @throws Refusal `no_such_offer` */
export async function findOffer(ctx: Context, offerId: string): Promise<OfferRecord> {
  const offer = await ctx.offers.find(offerId)
  if (offer === undefined) throw new Refusal('no_such_offer', 'There is no offer with this id.', { field: 'offer_id' })
  return offer
}

/** The open offers of agents that are not banned, newest first, and whether an order could be paid now. */
export async function listMarket(
  ctx: Context,
  agentId: string | undefined,
  limit: number,
): Promise<{ offers: OfferRecord[]; canBePaid: boolean }> {
  const [offers, coins] = await Promise.all([listOfUnbanned(ctx, agentId, limit), ctx.coins.listCoins()])
  return { offers, canBePaid: coins.some((coin) => isCoinReady(ctx, coin)) }
}

/** Where banned agents' offers stood among them, it looks further down, past everything of theirs: a flood hides nobody else's. */
async function listOfUnbanned(ctx: Context, agentId: string | undefined, limit: number): Promise<OfferRecord[]> {
  const kept: OfferRecord[] = []
  const banned = new Set<string>()
  let from: { below: string; notBy: string[] } | undefined
  for (let page = 0; page < MAX_OFFER_PAGES; page++) {
    const listed = await ctx.offers.listOpen(agentId, limit, from)
    const sellers = await Promise.all([...new Set(listed.map((offer) => offer.agent_id))].map((id) => ctx.agents.find(id)))
    for (const seller of sellers) if (seller?.banned_at !== undefined) banned.add(seller._id)
    kept.push(...listed.filter((offer) => !banned.has(offer.agent_id)))
    const last = listed.at(-1)
    // One agent's are all banned or none.
    if (kept.length >= limit || listed.length < limit || last === undefined || agentId !== undefined) break
    from = { below: last._id, notBy: [...banned] }
  }
  return kept.slice(0, limit)
}
