import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type mongoose from 'mongoose'
import { Schema, type Connection } from 'mongoose'
import { isDuplicateKey } from '../servers/database.ts'

interface LeaseRecord {
  _id: string
  holder: string
  until: Date
}

const leaseSchema = new Schema<LeaseRecord>(
  {
    _id: { type: String, required: true },
    holder: { type: String, required: true },
    until: { type: Date, required: true },
  },
  { collection: 'leases', strict: 'throw', versionKey: false },
)

export interface Lease {
  /** Goes on holding it. @returns false where another has it by now */
  renew(): Promise<boolean>
  release(): Promise<void>
}

/** A dead holder is in the way for at most this long. */
const LEASE_MS = 5_000
const RENEW_AFTER_MS = 1_000
const RETRY_MS = 50

export function createLeaseStore(connection: Connection) {
  const leases = connection.model<LeaseRecord>('Lease', leaseSchema)
  const raw = leases.collection as unknown as mongoose.mongo.Collection<LeaseRecord>
  // The server's clock alone judges a lease: those of the workers may differ.
  const hold = async (name: string, holder: string): Promise<boolean> => {
    const isFree = { $or: [{ $eq: ['$holder', holder] }, { $lt: ['$until', '$$NOW'] }] } // without a lease there is no `until`, which is less than any date
    const update = [
      {
        $set: {
          holder: { $cond: [isFree, holder, '$holder'] },
          until: { $cond: [isFree, { $add: ['$$NOW', LEASE_MS] }, '$until'] },
        },
      },
    ]
    try {
      const lease = await raw.findOneAndUpdate({ _id: name }, update, {
        upsert: true,
        returnDocument: 'after',
      })
      return lease?.holder === holder
    } catch (error) {
      if (isDuplicateKey(error)) return false // two made the first one at once
      throw error
    }
  }
  return {
    models: { leases },
    /**
     * @param waitMs how long to wait for it
     * @returns undefined where another holds it all that time
     */
    async take(name: string, waitMs: number = 0): Promise<Lease | undefined> {
      const holder = randomUUID()
      const deadline = performance.now() + waitMs
      while (!(await hold(name, holder))) {
        if (performance.now() >= deadline) return undefined
        await sleep(RETRY_MS)
      }
      let heldAt = performance.now()
      return {
        async renew() {
          if (performance.now() - heldAt < RENEW_AFTER_MS) return true
          heldAt = performance.now()
          return hold(name, holder)
        },
        async release() {
          await raw.deleteOne({ _id: name, holder })
        },
      }
    },
  }
}

/**
 * Leases keep processes from doing the same work side by side. They guard nothing: a holder that slept
 * through its lease works on beside the next one, and every write under a lease is right without it.
 */
export type LeaseStore = ReturnType<typeof createLeaseStore>
