import { Schema, type Connection } from 'mongoose'
import type { Past } from '../agents/unbanned.ts'
import { createSharedReads } from '../servers/group-commit.ts'
import { recordsOf } from '../servers/records.ts'
import { hiddenFields, NOT_HIDDEN, setHiddenIn } from '../ledger/hidden.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { OfferQuery, OfferRecord } from './offer.ts'

const number = { type: Number, required: true } as const
const string = { type: String, required: true } as const

const offerSchema = new Schema<OfferRecord>(
  {
    _id: string,
    agent_id: string,
    at: number,
    title: string,
    description: string,
    price_usd_cents: number,
    delivery_hours: number,
    payout_addresses: { type: new Schema({ xno: String, xmr: String }, { _id: false }), required: true },
    salt: string,
    addresses_salt: string,
    open: Boolean,
    open_slot: Number,
    closed_at: Number,
    ...hiddenFields,
    ...pendingField,
  },
  { collection: 'offers', strict: 'throw', versionKey: false },
)
/**
 * Each carries what a list leaves out by (a banned seller, a price, a coin), so that none of these is looked
 * at, however many they are.
 */
const FILTERED = {
  agent_id: 1,
  price_usd_cents: 1,
  'payout_addresses.xno': 1,
  'payout_addresses.xmr': 1,
} as const
const LISTS = {
  open: { name: 'open_offers_to_filter', filter: { open: true as const } },
  closed: { name: 'closed_offers_to_filter', filter: { closed_at: { $exists: true } } },
}
for (const { name, filter } of Object.values(LISTS))
  offerSchema.index({ _id: -1, ...FILTERED }, { name, partialFilterExpression: filter })
offerSchema.index(
  { agent_id: 1, _id: -1 },
  { name: 'open_offers_of_an_agent', partialFilterExpression: { open: true } },
)
offerSchema.index(
  { agent_id: 1, open_slot: 1 },
  { unique: true, partialFilterExpression: { open_slot: { $exists: true } } },
)
offerSchema.index(...PENDING_INDEX)

export type OfferStore = ReturnType<typeof createOfferStore>

export function createOfferStore(connection: Connection) {
  const offers = recordsOf(connection.model<OfferRecord>('Offer', offerSchema))
  const shareReads = createSharedReads<OfferRecord[]>()
  return {
    models: { offers: offers.model },
    insert: (offer: OfferRecord) => offers.insert([offer]),
    async listSlots(agentId: string): Promise<number[]> {
      const found = await offers.all(
        { agent_id: agentId, open_slot: { $exists: true } },
        { fields: { open_slot: 1 } },
      )
      return found.flatMap(({ open_slot: slot }) => slot ?? [])
    },
    find: (offerId: string) => offers.one({ _id: offerId }),
    setHidden: setHiddenIn(offers.model),
    /** Those that are not hidden, newest first. */
    async list(
      asked: Omit<OfferQuery, 'before' | 'limit'>,
      limit: number,
      past?: Past<{ _id: string }>,
    ): Promise<OfferRecord[]> {
      const { agent, currency, max_price: maxPrice, status } = asked
      const filter = {
        ...LISTS[status].filter,
        ...NOT_HIDDEN,
        // A bound on the first field, whatever it is, lets the index leave out by the others too.
        _id: { $gt: '', ...(past === undefined ? {} : { $lt: past.after._id }) },
        ...(past === undefined ? {} : { agent_id: { $nin: [...past.notBy] } }),
        ...(agent === undefined ? {} : { agent_id: agent }),
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
    /** @returns false where it is closed already, or of another agent */
    close: (offerId: string, agentId: string, at: number, entry: PendingEntry) =>
      offers.change(
        { _id: offerId, agent_id: agentId, open: true },
        { $set: { closed_at: at }, $unset: { open: 1, open_slot: 1 }, $push: { pending: entry } },
      ),
  }
}
