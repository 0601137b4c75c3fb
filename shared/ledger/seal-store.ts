import mongoose, { type Connection } from 'mongoose'
import { MAJORITY, orOvertaken, Overtaken, unlessDuplicate, within } from '../platform/database.ts'
import type { Session } from '../platform/database.ts'
import { createCosignatureStore } from './cosignature-store.ts'
import type { SealSignature } from '../crypto/seal-payload.ts'
import { PENDING_INDEX, pendingField, type Ledgered, type PendingEntry } from './pending.ts'
import { flag, list, maybe, number, schemaOf, text, type RecordOf } from '../platform/fields.ts'
import type { SealNote } from './checkpoint.ts'
import { sealRecordFields, type SealRecord } from './seal.ts'
import { rawOf, recordsOf } from '../platform/records.ts'

const sealSchema = schemaOf<SealRecord>('seals', sealRecordFields)
sealSchema.index({ to_id: 1 }, { unique: true })
sealSchema.index({ signed: 1, _id: 1 })

/** How far the chain has been verified, and what was found. */
const statusFields = {
  /** Counts the writes, so that none undoes another. */
  revision: number,
  /** Every seal up to this one has been verified: link, range, root, and the signature if it has one. */
  seq: number,
  /** Seals up to `seq` that had no signature when they were verified, ascending. */
  open: list(number),
  intact: flag,
  /** What does not hold, if something doesn't. */
  fault: maybe.text,
  /** Unix seconds: since then the whole chain has been walked from its beginning. */
  walked_at: maybe.number,
  /**
   * A walk that isn't at the chain's end yet: the last seal that it has verified, those before without a signature,
   * when it began and when it last stopped, in Unix seconds.
   */
  walk: maybe.nested({ seq: number, open: list(number), began_at: number, stopped_at: number }),
}
export type ChainStatus = RecordOf<typeof statusFields>

const statusSchema = schemaOf<ChainStatus & { _id: string }>('ledger_status', { _id: text, ...statusFields })
const CHAIN = 'chain'

/** The status before any seal was verified. */
export const NOTHING_VERIFIED: ChainStatus = { revision: 0, seq: 0, open: [], intact: true }

/** An operator's decision that the seals in the database are the ones to go on from. */
const adoptionFields = {
  _id: text,
  seq: number,
  payload_hash: text,
  /** Unix seconds. */
  at: number,
}
type AdoptionRecord = RecordOf<typeof adoptionFields> & Ledgered

const adoptionSchema = schemaOf<AdoptionRecord>('seal_adoptions', { ...adoptionFields, ...pendingField })
adoptionSchema.index(...PENDING_INDEX)

/**
 * The options of a majority read, in this session if there is one; a transaction has a read concern already.
 */
function majorityWithin(session: Session | undefined) {
  if (session === undefined) return MAJORITY
  return session.inTransaction() ? { session } : { ...MAJORITY, session }
}

/**
 * Creates the store of seals, the cosignatures of their checkpoints, the chain's status and
 * adoptions. All reads but those of cosignatures see what a majority has.
 */
export function createSealStore(connection: Connection) {
  const seals = connection.model<SealRecord>('Seal', sealSchema)
  const status = connection.model<ChainStatus & { _id: string }>('LedgerStatus', statusSchema)
  const adoptions = recordsOf(connection.model<AdoptionRecord>('SealAdoption', adoptionSchema))
  const raw = () => rawOf<SealRecord>(seals)
  /** The seal with the highest seq that matches the filter; null if there is none. */
  const newest = (filter: mongoose.mongo.Filter<SealRecord>, session?: Session) =>
    raw().find(filter, majorityWithin(session)).sort({ _id: -1 }).limit(1).next()

  return {
    models: { seals, status, adoptions: adoptions.model },
    cosignatures: createCosignatureStore(connection),
    /** The seal with the highest seq, signed or not. */
    async last(session?: Session): Promise<SealRecord | undefined> {
      return (await newest({}, session)) ?? undefined
    },
    /**
     * The signed seal with the highest seq.
     *
     * @param until if given, only seals made until then (Unix seconds)
     */
    async lastSigned(session?: Session, until?: number): Promise<SealRecord | undefined> {
      const filter = until === undefined ? {} : { at: { $lte: until } }
      return (await newest({ signed: true, ...filter }, session)) ?? undefined
    },
    async find(seq: number, session?: Session): Promise<SealRecord | undefined> {
      return (await raw().findOne({ _id: seq }, majorityWithin(session))) ?? undefined
    },
    /** The seal that covers an entry; undefined if none does yet. */
    async findCovering(entryId: number): Promise<SealRecord | undefined> {
      const seal = await raw()
        .find({ to_id: { $gte: entryId } }, MAJORITY)
        .sort({ to_id: 1 })
        .limit(1)
        .next()
      return seal !== null && seal.from_id <= entryId ? seal : undefined
    },
    /** Up to `limit` seals after `seq`, ascending. */
    listAfter: (seq: number, limit: number, session?: Session): Promise<SealRecord[]> =>
      raw()
        .find({ _id: { $gt: seq } }, { ...majorityWithin(session), batchSize: limit })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
    /** The `limit` newest seals, in ascending order. */
    async listNewest(limit: number): Promise<SealRecord[]> {
      const descending = await raw()
        .find({}, { ...MAJORITY, batchSize: limit })
        .sort({ _id: -1 })
        .limit(limit)
        .toArray()
      return descending.reverse()
    },
    /** The seqs of the first `limit` unsigned seals, ascending. */
    async listUnsigned(limit: number, session?: Session): Promise<number[]> {
      const unsigned = await raw()
        .find({ signed: false }, { ...majorityWithin(session), projection: { _id: 1 }, batchSize: limit })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray()
      return unsigned.map(({ _id }) => _id)
    },
    /** Up to `limit` signed seals from `fromSeq` to `toSeq`, ascending. */
    listSigned: (fromSeq: number, toSeq: number, limit: number, session?: Session): Promise<SealRecord[]> =>
      raw()
        .find(
          { signed: true, _id: { $gte: fromSeq, $lte: toSeq } },
          { ...majorityWithin(session), batchSize: limit },
        )
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
    /**
     * @returns false, and nothing is stored, if there is a seal of this seq or one that ends at the same
     *   entry
     */
    insert: (seal: SealRecord): Promise<boolean> => unlessDuplicate(raw().insertOne(seal)),
    /**
     * Stores the signature of a seal that is stored exactly as `seal`, unsigned.
     *
     * @returns false, and nothing is stored, if there is no such seal
     */
    async storeSignature(
      seal: SealRecord,
      signature: SealSignature & SealNote,
      session?: Session,
    ): Promise<boolean> {
      const { _id, at, count, root, prev_root, from_id, to_id } = seal
      const unsigned = { _id, at, count, root, prev_root, from_id, to_id, signed: false }
      const { matchedCount } = await raw().updateOne(
        { ...unsigned, signature: { $exists: false } },
        { $set: { ...signature, signed: true } },
        within(session),
      )
      return matchedCount === 1
    },
    /** How far the workers have verified the chain, and what they found. */
    async readStatus(session?: Session): Promise<ChainStatus> {
      const reading = { fields: { _id: 0 }, isLasting: true, session } as const
      return (await recordsOf(status).one<ChainStatus>({ _id: CHAIN }, reading)) ?? NOTHING_VERIFIED
    },
    /**
     * Replaces the stored status if its revision is still that of `next`, and counts the revision up.
     *
     * @throws Overtaken if another process has written a status meanwhile
     */
    async writeStatus(next: ChainStatus): Promise<void> {
      const write = status.replaceOne(
        { _id: CHAIN, revision: next.revision },
        { _id: CHAIN, ...next, revision: next.revision + 1 },
        // The upsert inserts the first status; for a second process its `_id` is a duplicate.
        { upsert: next.revision === 0 },
      )
      const { matchedCount, upsertedCount } = await orOvertaken(write)
      if (matchedCount + upsertedCount !== 1) throw new Overtaken('the status of the chain has changed')
    },
    /** The pending entries of an adoption; undefined if there is no such adoption. */
    async findAdoption(id: string): Promise<PendingEntry[] | undefined> {
      const adoption = await adoptions.one({ _id: id }, { isLasting: true })
      return adoption === undefined ? undefined : (adoption.pending ?? [])
    },
    /** @returns false, and nothing is stored, if there is an adoption of that id */
    insertAdoption: (adoption: AdoptionRecord): Promise<boolean> =>
      unlessDuplicate(adoptions.insert([adoption])),
  }
}

export type SealStore = ReturnType<typeof createSealStore>
