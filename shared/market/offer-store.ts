import { given } from '../foundation/given.ts'
import type { Connection } from 'mongoose'
import type { Past } from '../agents/unbanned.ts'
import { createSharedReads } from '../servers/group-commit.ts'
import { only, schemaOf, some } from '../servers/fields.ts'
import { recordsOf } from '../servers/records.ts'
import { hiddenFields, NOT_HIDDEN, createSetHidden } from '../ledger/hidden.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { offerFields, type OfferQuery, type OfferRecord } from './offer.ts'

const offerSchema = schemaOf<OfferRecord>('offers', { ...offerFields, ...hiddenFields, ...pendingField })
/** Each index has what a list filters by, so that no filtered offer is read. */
const FILTERED = {
  agent_id: 1,
  price_usd_cents: 1,
  'payout_addresses.xno': 1,
  'payout_addresses.xmr': 1,
} as const
const LISTS = {
  open: { name: 'open_offers_to_filter', filter: { open: true as const } },
  closed: { name: 'closed_offers_to_filter', filter: { closed_at: some } },
}
for (const { name, filter } of Object.values(LISTS))
  offerSchema.index({ _id: -1, ...FILTERED }, only(filter, name))
offerSchema.index({ agent_id: 1, _id: -1 }, only({ open: true }, 'open_offers_of_an_agent'))
offerSchema.index({ agent_id: 1, open_slot: 1 }, only({ open_slot: some }, undefined, true))
offerSchema.index(...PENDING_INDEX)

export type OfferStore = ReturnType<typeof createOfferStore>

export function createOfferStore(connection: Connection) {
  const offers = recordsOf(connection.model<OfferRecord>('Offer', offerSchema))
  const shareReads = createSharedReads<OfferRecord[]>()
  return {
    models: { offers: offers.model },
    insert: (offer: OfferRecord) => offers.insert([offer]),
    async listSlots(agentId: string): Promise<number[]> {
      const found = await offers.all({ agent_id: agentId, open_slot: some }, { fields: { open_slot: 1 } })
      return found.flatMap(({ open_slot: slot }) => slot ?? [])
    },
    find: (offerId: string) => offers.one({ _id: offerId }),
    setHidden: createSetHidden(offers.model),
    /** Those that are not hidden, newest first. */
    async list(asked: Omit<OfferQuery, 'before' | 'limit'>, limit: number, past?: Past<{ _id: string }>) {
      const { agent, currency, max_price: maxPrice, status } = asked
      const filter = {
        ...LISTS[status].filter,
        ...NOT_HIDDEN,
        // A bound on the first field, whatever it is, lets the index leave out by the others too.
        _id: { $gt: '', ...(past === undefined ? {} : { $lt: past.after._id }) },
        ...(past === undefined ? {} : { agent_id: { $nin: [...past.notBy] } }),
        ...given({ agent_id: agent }),
        ...(maxPrice === undefined ? {} : { price_usd_cents: { $lte: Math.round(maxPrice * 100) } }),
        ...(currency === undefined ? {} : { [`payout_addresses.${currency}`]: { $gt: '' } }),
      }
      return shareReads(JSON.stringify([filter, limit]), async () => {
        const query = offers.model.find(filter, { pending: 0 }).sort({ _id: -1 }).limit(limit)
        return (agent === undefined || status === 'closed' ? query.hint(LISTS[status].name) : query).lean<
          OfferRecord[]
        >()
      })
    },
    /** @returns false if it is closed already, or of another agent */
    close: (offerId: string, agentId: string, at: number, entry: PendingEntry) =>
      offers.change(
        { _id: offerId, agent_id: agentId, open: true },
        { $set: { closed_at: at }, $unset: { open: 1, open_slot: 1 }, $push: { pending: entry } },
      ),
  }
}
