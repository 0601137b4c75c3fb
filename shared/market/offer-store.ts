import { Schema, type Connection, type Model } from 'mongoose'
import { createSharedReads } from '../group-commit.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { OfferRecord } from './offer.ts'

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
    closed_at: Number,
    ...pendingField,
  },
  { collection: 'offers', strict: 'throw', versionKey: false },
)
/** Carries the agent, so that a banned one's offers are passed over without a look at them, however many they are. */
const OPEN_OFFERS = 'open_offers_and_agents'
offerSchema.index({ open: 1, _id: -1, agent_id: 1 }, { name: OPEN_OFFERS, partialFilterExpression: { open: true } })
offerSchema.index({ agent_id: 1, _id: -1 }, { name: 'open_offers_of_an_agent', partialFilterExpression: { open: true } })
offerSchema.index(...PENDING_INDEX)

export interface OfferStore {
  insert(offer: OfferRecord): Promise<void>
  find(offerId: string): Promise<OfferRecord | undefined>
  /** Those that are open, newest first; with `from`, those below an id and of none of these agents. */
  listOpen(agentId: string | undefined, limit: number, from?: { below: string; notBy: readonly string[] }): Promise<OfferRecord[]>
  /** @returns false where it is closed already, or of another agent */
  close(offerId: string, agentId: string, at: number, entry: PendingEntry): Promise<boolean>
  readonly models: { offers: Model<OfferRecord> }
}

export function createOfferStore(connection: Connection): OfferStore {
  const offers = connection.model<OfferRecord>('Offer', offerSchema)
  const shareReads = createSharedReads<OfferRecord[]>()
  return {
    models: { offers },
    async insert(offer) {
      await offers.insertMany([offer], { lean: true })
    },
    async find(offerId) {
      return (await offers.findOne({ _id: offerId }).lean<OfferRecord>()) ?? undefined
    },
    async listOpen(agentId, limit, from) {
      const filter = {
        open: true as const,
        ...(from === undefined ? {} : { _id: { $lt: from.below }, agent_id: { $nin: [...from.notBy] } }),
        ...(agentId === undefined ? {} : { agent_id: agentId }),
      }
      return shareReads(JSON.stringify([agentId, limit, from]), async () => {
        const query = offers.find(filter, { pending: 0 }).sort({ _id: -1 }).limit(limit)
        // A database that was made before has an index without the agent too.
        return (agentId === undefined ? query.hint(OPEN_OFFERS) : query).lean<OfferRecord[]>()
      })
    },
    async close(offerId, agentId, at, entry) {
      const filter = { _id: offerId, agent_id: agentId, open: true as const }
      const update = { $set: { closed_at: at }, $unset: { open: 1 as const }, $push: { pending: entry } }
      return (await offers.updateOne(filter, update)).matchedCount === 1
    },
  }
}
