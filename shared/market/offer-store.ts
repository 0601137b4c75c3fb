import { omitUndefined } from '../platform/omit-undefined.ts'
import { PARSED_AT_ONCE } from '../platform/limits.ts'
import type { Connection } from 'mongoose'
import { authorBannedField, BY_AUTHOR_INDEX, createSetAuthorBanned, LISTED } from '../agents/author-ban.ts'
import { only, schemaOf, some } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import { hiddenFields, createSetHidden } from '../ledger/hidden.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { offerFields, type OfferQuery, type OfferRecord } from './offer.ts'

const offerSchema = schemaOf<OfferRecord>('offers', {
  ...offerFields,
  ...hiddenFields,
  ...authorBannedField,
  ...pendingField,
})
/** The fields that a list filters by: in the index of each list, so that no offer is read to be left out. */
const FILTERED = {
  agent_id: 1,
  price_usd_cents: 1,
  'payout_addresses.xno': 1,
  'payout_addresses.xmr': 1,
} as const
const LISTS = {
  open: { name: 'open_offers_listed', filter: { open: true as const } },
  closed: { name: 'closed_offers_listed', filter: { closed_at: some } },
}
for (const { name, filter } of Object.values(LISTS))
  offerSchema.index({ author_banned: 1, _id: -1, ...FILTERED }, only(filter, name))
offerSchema.index({ agent_id: 1, _id: -1 }, only({ open: true }, 'open_offers_of_an_agent'))
offerSchema.index(BY_AUTHOR_INDEX)
offerSchema.index({ agent_id: 1, open_slot: 1 }, only({ open_slot: some }, undefined, true))
offerSchema.index(...PENDING_INDEX)

export type OfferStore = ReturnType<typeof createOfferStore>

/** Creates the store of offers. */
export function createOfferStore(connection: Connection) {
  const offers = recordsOf(connection.model<OfferRecord>('Offer', offerSchema))
  return {
    models: { offers: offers.model },
    /** @throws a duplicate-key error on `agent_id` if another offer of the agent has its `open_slot` */
    insert: (offer: OfferRecord) => offers.insert([offer]),
    listOpenSlots: (agentId: string): Promise<number[]> =>
      offers.model.distinct('open_slot', { agent_id: agentId, open_slot: some }).exec(),
    find: (offerId: string) => offers.one({ _id: offerId }),
    setHidden: createSetHidden(offers.model),
    setAuthorBanned: createSetAuthorBanned(offers.model),
    /** Offers that are neither hidden nor by a banned agent, newest first. */
    async list(query: OfferQuery): Promise<OfferRecord[]> {
      const { agent, before, currency, limit, max_price: maxPrice, status } = query
      const filter = {
        ...LISTS[status].filter,
        ...LISTED,
        // A bound on the index's field lets MongoDB filter by its others too.
        _id: { $gt: '', ...omitUndefined({ $lt: before }) },
        ...omitUndefined({ agent_id: agent }),
        ...(maxPrice === undefined ? {} : { price_usd_cents: { $lte: Math.round(maxPrice * 100) } }),
        ...(currency === undefined ? {} : { [`payout_addresses.${currency}`]: { $gt: '' } }),
      }
      const reading = offers.model
        .find(filter, { pending: 0 })
        .sort({ _id: -1 })
        .limit(limit)
        .batchSize(PARSED_AT_ONCE)
      if (agent === undefined || status === 'closed') reading.hint(LISTS[status].name)
      return reading.lean<OfferRecord[]>().exec()
    },
    /** Closes an offer. @returns false if it is closed already, or of another agent */
    close: (offerId: string, agentId: string, at: number, entry: PendingEntry) =>
      offers.change(
        { _id: offerId, agent_id: agentId, open: true },
        { $set: { closed_at: at }, $unset: { open: 1, open_slot: 1 }, $push: { pending: entry } },
      ),
  }
}
