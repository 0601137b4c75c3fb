import { createHash, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import mongoose, { Schema, type Connection } from 'mongoose'
import { isDuplicateKey, type Session } from './database.ts'

/**
 * Leases keep processes from doing the same work side by side. The server's clock alone judges them, since
 * those of the workers may differ.
 *
 * Those of the ledger guard nothing: a holder that slept through its lease works on beside the next one, and
 * every write under it is right without it.
 *
 * Those of a key (a seed, a wallet, a seal key) guard it: one process has it at a time, and no process with
 * another key gets the lease before the operator has said so. Each holder has a number of its own, the fence;
 * each transaction of its work ends with a write that finds the lease with that number, so that nothing is
 * stored by a holder that was stopped while another took over.
 */
interface LeaseRecord {
  _id: string
  holder: string
  until: Date
  /** One more with each holder. */
  fence?: number
  /** Of a key's lease: what the key is known by, also while nobody holds the lease. */
  key?: string
  host?: string
  /** The holder's wallet cannot be asked whose it is: anyone who knows takes over. */
  keyless?: boolean
  /** Counts the holder's transactions. */
  writes?: number
  /** Id of the session in which the holder writes: who takes over ends it. */
  session?: mongoose.mongo.Binary
  /** It is no lease, but a process that would have this one. */
  wants?: string
  public_name?: string
  refused?: boolean
}

const leaseSchema = new Schema<LeaseRecord>(
  {
    _id: { type: String, required: true },
    holder: { type: String, required: true },
    until: { type: Date, required: true },
    fence: Number,
    key: String,
    host: String,
    keyless: Boolean,
    writes: Number,
    session: Schema.Types.Mixed,
    wants: String,
    public_name: String,
    refused: Boolean,
  },
  { collection: 'leases', strict: 'throw', versionKey: false },
)
leaseSchema.index(
  { until: 1 },
  { name: 'gone', expireAfterSeconds: 3_600, partialFilterExpression: { wants: { $exists: true } } },
)

export interface Lease {
  /** Goes on holding it. @returns false where another has it by now */
  renew(): Promise<boolean>
  release(): Promise<void>
}

/** One lease for each: what only one process may do at a time. */
export const KEY_LEASES = { xno: 'xno wallet', xmr: 'xmr wallet', seal: 'seal key' } as const
export type KeyLease = (typeof KEY_LEASES)[keyof typeof KEY_LEASES]

/** A process that would hold the lease of a key. */
export interface Candidate {
  readonly lease: KeyLease
  /** Unlike that of any other process. */
  readonly id: string
  /** For the operator. */
  readonly host: string
  /** The address or public key that goes with its key; undefined if the wallet cannot be asked now. */
  readonly publicName: string | undefined
  /** In which it writes while it has the lease. */
  readonly session: Session
}

/**
 * `waiting`: for the holder, who has the same key. `refused`: the key is another than the one in use.
 */
export type Claim =
  { state: 'held'; fence: number } | { state: 'waiting' | 'refused'; holder: string | undefined }

/** Who would have the lease of a key, or has it. */
export interface KeyHost {
  lease: KeyLease
  state: Claim['state']
  host: string
  /** Absent for one whose wallet cannot be asked. */
  publicName?: string
}

/** Another process has the lease by now: what was to be stored is not. */
export class LeaseLost extends Error {
  override name = 'LeaseLost'
}

/** A dead holder is in the way for at most this long. */
const LEASE_MS = 5_000
const RENEW_AFTER_MS = 1_000
const RETRY_MS = 50
/** A process that waits is heard of so long. */
const HEARD_OF_MS = 15_000
/** A transaction of a stopped process keeps the lease's document to itself, for a minute and a half. */
const CLAIM_LIMIT_MS = 1_000
/** The server's codes for a write that another transaction keeps waiting. */
const KEPT_WAITING = new Set<unknown>([50, 112])

/** Tells keys apart and nothing else: it is made of what is public anyway. */
export const fingerprintOf = (publicName: string): string =>
  createHash('sha256').update(`agent-network key ${publicName}`).digest('hex')

export function createLeaseStore(connection: Connection) {
  const leases = connection.model<LeaseRecord>('Lease', leaseSchema)
  const raw = leases.collection as unknown as mongoose.mongo.Collection<LeaseRecord>

  async function hold(
    name: string,
    holder: string,
    forKey?: { key: string | undefined; host: string; session: mongoose.mongo.Binary | undefined },
  ): Promise<LeaseRecord | null> {
    const { key, host, session } = forKey ?? {}
    const isOwn = { $eq: ['$holder', holder] }
    const isKeyless = key === undefined ? false : { $eq: ['$keyless', true] }
    // Without a lease there is no `until`, which is less than any date.
    const isFree = { $or: [isOwn, { $lt: ['$until', '$$NOW'] }, isKeyless] }
    const isOfKey = key === undefined ? true : { $eq: [{ $ifNull: ['$key', key] }, key] }
    const mine = { $and: [isFree, isOfKey] }
    const update = [
      {
        $set: {
          holder: { $cond: [mine, holder, { $ifNull: ['$holder', ''] }] },
          until: { $cond: [mine, { $add: ['$$NOW', LEASE_MS] }, { $ifNull: ['$until', new Date(0)] }] },
          fence: {
            $add: [{ $ifNull: ['$fence', 0] }, { $cond: [{ $and: [mine, { $not: [isOwn] }] }, 1, 0] }],
          },
          ...(key === undefined ? {} : { key: { $cond: [mine, key, '$key'] } }),
          ...(host === undefined
            ? {}
            : {
                host: { $cond: [mine, host, '$host'] },
                keyless: { $cond: [mine, key === undefined, '$keyless'] },
                session: { $cond: [mine, session, '$session'] },
              }),
        },
      },
    ]
    try {
      return await raw.findOneAndUpdate({ _id: name }, update, {
        upsert: true,
        returnDocument: 'after',
        maxTimeMS: CLAIM_LIMIT_MS,
      })
    } catch (error) {
      if (isDuplicateKey(error)) return null // two made the first one at once
      throw error
    }
  }
  const holds = async (name: string, holder: string): Promise<boolean> =>
    (await hold(name, holder))?.holder === holder
  /** Ends what a holder whose time is over has begun to write and cannot end. */
  async function endStopped(name: string): Promise<void> {
    const over = await raw.findOne({ _id: name, $expr: { $lt: ['$until', '$$NOW'] } })
    if (over?.session === undefined) return
    await connection
      .getClient()
      .db('admin')
      .command({ killSessions: [{ id: over.session }] })
  }
  const wantOf = ({ lease, id }: Candidate): string => `${lease} ${id}`
  /** Who of this process is written down as waiting. */
  const waiting = new Set<string>()

  return {
    models: { leases },
    /**
     * @param waitMs how long to wait for it
     * @returns undefined where another holds it all that time
     */
    async take(name: string, waitMs: number = 0): Promise<Lease | undefined> {
      const holder = randomUUID()
      const deadline = performance.now() + waitMs
      while (!(await holds(name, holder))) {
        if (performance.now() >= deadline) return undefined
        await sleep(RETRY_MS)
      }
      let heldAt = performance.now()
      return {
        async renew() {
          if (performance.now() - heldAt < RENEW_AFTER_MS) return true
          heldAt = performance.now()
          return holds(name, holder)
        },
        async release() {
          await raw.deleteOne({ _id: name, holder })
        },
      }
    },
    /** Takes the lease of a key, or goes on holding it; who doesn't get it is written down. */
    async claim(candidate: Candidate): Promise<Claim> {
      const { lease, id, host, publicName } = candidate
      const key = publicName === undefined ? undefined : fingerprintOf(publicName)
      const forKey = { key, host, session: candidate.session.id?.id }
      const found = await hold(lease, id, forKey).catch(async (error: unknown) => {
        if (!(error instanceof mongoose.mongo.MongoServerError) || !KEPT_WAITING.has(error.code)) throw error
        await endStopped(lease)
        return hold(lease, id, forKey)
      })
      if (found?.holder === id && (key === undefined || found.key === key)) {
        if (waiting.delete(wantOf(candidate))) await raw.deleteOne({ _id: wantOf(candidate) })
        return { state: 'held', fence: found.fence ?? 0 }
      }
      const isRefused = key !== undefined && found?.key !== undefined && found.key !== key
      const wants = {
        wants: lease,
        holder: id,
        host,
        refused: isRefused,
        ...(publicName === undefined ? {} : { public_name: publicName }),
      }
      waiting.add(wantOf(candidate))
      await raw.updateOne(
        { _id: wantOf(candidate) },
        [{ $set: { ...wants, until: { $add: ['$$NOW', HEARD_OF_MS] } } }],
        { upsert: true },
      )
      return { state: isRefused ? 'refused' : 'waiting', holder: found?.host }
    },
    /** The next one need not wait. */
    async leave(candidate: Candidate): Promise<void> {
      await raw.updateOne({ _id: candidate.lease, holder: candidate.id }, { $set: { until: new Date(0) } })
      await raw.deleteOne({ _id: wantOf(candidate) })
    },
    /**
     * The last write of a transaction: it conflicts with any take-over.
     *
     * @throws LeaseLost
     */
    async expectFence({ lease, id }: Candidate, fence: number, session: Session): Promise<void> {
      const own = { _id: lease, holder: id, fence }
      const { matchedCount } = await raw.updateOne(own, { $inc: { writes: 1 } }, { session })
      if (matchedCount === 0)
        throw new LeaseLost(`the lease of the ${lease} is another process's by now: nothing was stored`)
    },
    /** What the key is known by, if nobody has held the lease yet. */
    async expectKey(lease: KeyLease, publicName: string): Promise<void> {
      const key = fingerprintOf(publicName)
      await raw.updateOne(
        { _id: lease },
        [{ $set: { key: { $ifNull: ['$key', key] }, holder: { $ifNull: ['$holder', ''] } } }],
        { upsert: true },
      )
    },
    /** From now on the lease is for this key alone; whoever holds it has lost it. */
    async entrust(lease: KeyLease, publicName: string, session?: Session): Promise<void> {
      await raw.updateOne(
        { _id: lease },
        {
          $set: { key: fingerprintOf(publicName), holder: '', until: new Date(0) },
          $inc: { fence: 1 },
        },
        { upsert: true, ...(session === undefined ? {} : { session }) },
      )
    },
    /** Who holds the leases of keys, who waits and who was refused; by the server's clock. */
    async listHosts(): Promise<KeyHost[]> {
      const names: readonly string[] = Object.values(KEY_LEASES)
      const found = await raw
        .find({
          $or: [{ _id: { $in: [...names] } }, { wants: { $exists: true } }],
          $expr: { $gt: ['$until', '$$NOW'] },
        })
        .sort({ _id: 1 })
        .toArray()
      return found.map(({ _id, wants, host = '', refused, public_name: publicName }) => ({
        lease: (wants ?? _id) as KeyLease,
        state: wants === undefined ? 'held' : refused === true ? 'refused' : 'waiting',
        host,
        ...(publicName === undefined ? {} : { publicName }),
      }))
    },
  }
}

export type LeaseStore = ReturnType<typeof createLeaseStore>
