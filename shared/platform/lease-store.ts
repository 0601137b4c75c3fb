import { createHash, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import mongoose, { type Connection } from 'mongoose'
import { omitUndefined } from './omit-undefined.ts'
import { isDuplicateKey, within, type Session } from './database.ts'
import { date, maybe, only, schemaOf, some, text, type RecordOf } from './fields.ts'
import { rawOf } from './records.ts'

/**
 * Leases keep processes from doing the same work side by side. They go by the server's clock, since those of
 * the processes may differ.
 *
 * The leases of the ledger only save work: a holder that slept through its lease works on beside the next
 * one, and every write under the lease is right without it.
 *
 * The lease of a key (a seed, a wallet, a seal key) guards the key: one process has it at a time, and no
 * process with another key gets the lease before the operator has said so. Each holder has a number of its
 * own, the fence. Each transaction of its work ends with a write that finds the lease with that number, so
 * that nothing is stored by a holder that was stopped while another took over.
 */
const leaseFields = {
  _id: text,
  holder: text,
  until: date,
  /** One more with each holder. */
  fence: maybe.number,
  /** Of a key's lease: the key's fingerprint, also while nobody holds the lease. */
  key: maybe.text,
  host: maybe.text,
  /** The holder's wallet cannot be asked whose it is: a process whose wallet can be asked takes over. */
  keyless: maybe.boolean,
  /** Counts the holder's transactions. */
  writes: maybe.number,
  /** Id of the session in which the holder writes: who takes over ends it. */
  session: maybe.opaque<mongoose.mongo.Binary>(),
  /** Only of a process that waits: the lease that it would have. Its record is no lease. */
  wants: maybe.text,
  public_name: maybe.text,
  refused: maybe.boolean,
}
type LeaseRecord = RecordOf<typeof leaseFields>

const leaseSchema = schemaOf<LeaseRecord>('leases', leaseFields)
leaseSchema.index({ until: 1 }, { ...only({ wants: some }, 'gone'), expireAfterSeconds: 3_600 })

export interface Lease {
  /** Goes on holding it for some seconds. @returns false if another process has it by now */
  renew(): Promise<boolean>
  release(): Promise<void>
}

/** The leases of keys: the work with each key is done by one process at a time. */
export const KEY_LEASES = { xno: 'xno wallet', xmr: 'xmr wallet', seal: 'seal key' } as const
export type KeyLease = (typeof KEY_LEASES)[keyof typeof KEY_LEASES]

/** A process that would hold the lease of a key. */
export interface Candidate {
  readonly lease: KeyLease
  /** Different in each process. */
  readonly id: string
  /** For the operator. */
  readonly host: string
  /** The address or public key that goes with its key; undefined if the wallet cannot be asked now. */
  readonly publicName: string | undefined
  /** In which it writes while it has the lease. */
  readonly session: Session
}

/** `waiting`: for the holder, who has the same key. `refused`: the key is another than the one in use. */
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

/** Another process has the lease by now, so the transaction was not stored. */
export class LeaseLost extends Error {
  override name = 'LeaseLost'
}

const leaseLost = (lease: KeyLease): LeaseLost =>
  new LeaseLost(`the lease of the ${lease} is another process's by now: nothing was stored`)

/** A dead holder is in the way for at most this long. */
const LEASE_MS = 5_000
const RENEW_AFTER_MS = 1_000
const RETRY_MS = 50
/** How long a waiting process is listed after its last try. */
const HEARD_OF_MS = 15_000
/** A stopped process's transaction may keep the lease's document locked for a minute and a half. */
const CLAIM_LIMIT_MS = 1_000
/** The server's codes for a write that another transaction keeps waiting. */
const KEPT_WAITING = new Set<unknown>([50, 112])

/** A hash by which keys are told apart. It is no secret: it is made of the public name. */
const fingerprintOf = (publicName: string): string =>
  createHash('sha256').update(`agent-network key ${publicName}`).digest('hex')

/** Creates the store of leases: take() gives those that only save work, claim() those of keys. */
export function createLeaseStore(connection: Connection) {
  const leases = connection.model('Lease', leaseSchema)
  const raw = rawOf<LeaseRecord>(leases)

  /**
   * Takes a lease that is free or ended, or goes on holding one's own, for {@link LEASE_MS}; else changes
   * nothing. With a key, the lease must not be bound to another one, and is also taken from a holder without
   * a key.
   *
   * @returns the lease afterwards, whoever holds it; null if another process has just made it
   */
  async function hold(
    name: string,
    holder: string,
    forKey?: { key: string | undefined; host: string; session: mongoose.mongo.Binary | undefined },
  ): Promise<LeaseRecord | null> {
    const { key, host, session } = forKey ?? {}
    const isOwn = { $eq: ['$holder', holder] }
    const isKeyless = key === undefined ? false : { $eq: ['$keyless', true] }
    // A new lease has no `until`, which is less than any date.
    const isFree = { $or: [isOwn, { $lt: ['$until', '$$NOW'] }, isKeyless] }
    const isOfKey = key === undefined ? true : { $eq: [{ $ifNull: ['$key', key] }, key] }
    const mayHold = { $and: [isFree, isOfKey] }
    const update = [
      {
        $set: {
          holder: { $cond: [mayHold, holder, { $ifNull: ['$holder', ''] }] },
          until: { $cond: [mayHold, { $add: ['$$NOW', LEASE_MS] }, { $ifNull: ['$until', new Date(0)] }] },
          fence: {
            $add: [{ $ifNull: ['$fence', 0] }, { $cond: [{ $and: [mayHold, { $not: [isOwn] }] }, 1, 0] }],
          },
          ...(key === undefined ? {} : { key: { $cond: [mayHold, key, '$key'] } }),
          ...(host === undefined
            ? {}
            : {
                host: { $cond: [mayHold, host, '$host'] },
                keyless: { $cond: [mayHold, key === undefined, '$keyless'] },
                session: { $cond: [mayHold, session, '$session'] },
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
  /** Takes a lease, or goes on holding it. @returns whether `holder` has it then */
  const holds = async (name: string, holder: string): Promise<boolean> =>
    (await hold(name, holder))?.holder === holder
  /**
   * Ends the session of a holder whose time is over, and with it a transaction that keeps the lease locked.
   */
  async function endStopped(name: string): Promise<void> {
    const over = await raw.findOne({ _id: name, $expr: { $lt: ['$until', '$$NOW'] } })
    if (over?.session === undefined) return
    const admin = connection.getClient().db('admin')
    await admin.command({ killSessions: [{ id: over.session }] })
  }
  /** The id of the record that says that a process waits for a lease. */
  const wantOf = ({ lease, id }: Candidate): string => `${lease} ${id}`
  /** Ids of the records that say that this process waits. */
  const waiting = new Set<string>()

  return {
    models: { leases },
    /**
     * Takes a lease that only saves work.
     *
     * @param waitMs how long to wait for it; not at all if absent
     * @returns undefined if another process holds it all that time
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
    /**
     * Takes the lease of a key, or goes on holding it. If the process doesn't get it, that is stored for
     * listHosts().
     */
    async claim(candidate: Candidate): Promise<Claim> {
      const { lease, id, host, publicName } = candidate
      const key = publicName === undefined ? undefined : fingerprintOf(publicName)
      const forKey = { key, host, session: candidate.session.id?.id }
      const held = await hold(lease, id, forKey).catch(async (error: unknown) => {
        if (!(error instanceof mongoose.mongo.MongoServerError) || !KEPT_WAITING.has(error.code)) throw error
        await endStopped(lease)
        return hold(lease, id, forKey)
      })
      if (held?.holder === id && (key === undefined || held.key === key)) {
        if (waiting.delete(wantOf(candidate))) await raw.deleteOne({ _id: wantOf(candidate) })
        return { state: 'held', fence: held.fence ?? 0 }
      }
      const isRefused = key !== undefined && held?.key !== undefined && held.key !== key
      const wants = {
        wants: lease,
        holder: id,
        host,
        refused: isRefused,
        ...omitUndefined({ public_name: publicName }),
      }
      waiting.add(wantOf(candidate))
      await raw.updateOne(
        { _id: wantOf(candidate) },
        [{ $set: { ...wants, until: { $add: ['$$NOW', HEARD_OF_MS] } } }],
        { upsert: true },
      )
      return { state: isRefused ? 'refused' : 'waiting', holder: held?.host }
    },
    /** Gives the lease up, so that the next process need not wait. */
    async leave(candidate: Candidate): Promise<void> {
      await raw.updateOne({ _id: candidate.lease, holder: candidate.id }, { $set: { until: new Date(0) } })
      await raw.deleteOne({ _id: wantOf(candidate) })
    },
    /**
     * Requires that the process had the lease when its transaction began: else what it does there would meet
     * what the next holder has stored.
     *
     * @throws LeaseLost if another process had it by then
     */
    async expectHeld({ lease, id }: Candidate, fence: number, session: Session): Promise<void> {
      const held = await raw.findOne({ _id: lease, holder: id, fence }, { session })
      if (held === null) throw leaseLost(lease)
    },
    /**
     * Requires that the process still has the lease, by a write that must be the last of its transaction: it
     * conflicts with any take-over.
     *
     * @throws LeaseLost if another process has it by now
     */
    async expectFence({ lease, id }: Candidate, fence: number, session: Session): Promise<void> {
      const ownLease = { _id: lease, holder: id, fence }
      const { matchedCount } = await raw.updateOne(ownLease, { $inc: { writes: 1 } }, { session })
      if (matchedCount === 0) throw leaseLost(lease)
    },
    /** Binds the lease to this key, unless it is bound to one already. */
    async bindFirst(lease: KeyLease, publicName: string): Promise<void> {
      const key = fingerprintOf(publicName)
      await raw.updateOne(
        { _id: lease },
        [{ $set: { key: { $ifNull: ['$key', key] }, holder: { $ifNull: ['$holder', ''] } } }],
        { upsert: true },
      )
    },
    /** Binds the lease to this key from now on; whoever holds it has lost it. */
    async bind(lease: KeyLease, publicName: string, session?: Session): Promise<void> {
      await raw.updateOne(
        { _id: lease },
        {
          $set: { key: fingerprintOf(publicName), holder: '', until: new Date(0) },
          $inc: { fence: 1 },
        },
        { upsert: true, ...within(session) },
      )
    },
    /** The processes that hold the leases of keys, wait for them or were refused; by the server's clock. */
    async listHosts(): Promise<KeyHost[]> {
      const names: readonly string[] = Object.values(KEY_LEASES)
      const records = await raw
        .find({
          $or: [{ _id: { $in: [...names] } }, { wants: { $exists: true } }],
          $expr: { $gt: ['$until', '$$NOW'] },
        })
        .sort({ _id: 1 })
        .toArray()
      return records.map(({ _id, wants, host = '', refused, public_name: publicName }) => ({
        lease: (wants ?? _id) as KeyLease,
        state: wants === undefined ? 'held' : refused === true ? 'refused' : 'waiting',
        host,
        ...omitUndefined({ publicName }),
      }))
    },
  }
}

export type LeaseStore = ReturnType<typeof createLeaseStore>
