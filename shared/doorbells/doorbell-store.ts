import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { indexMarks, pushing, tellsField } from '../events/mark.ts'
import { MAJORITY, Overtaken } from '../platform/database.ts'
import { date, none, only, schemaOf, some, text, type RecordOf } from '../platform/fields.ts'
import { createBatchRead, createGroups, type Outcomes } from '../platform/group-commit.ts'
import { newStepId } from '../platform/ids.ts'
import { rawOf, recordsOf } from '../platform/records.ts'
import { doorbellFields, type DoorbellRecord } from './doorbell.ts'
import type { DoorbellStep } from './doorbell-steps.ts'

const doorbellSchema = schemaOf<DoorbellRecord>('doorbells', { ...doorbellFields, ...tellsField })
doorbellSchema.index({ due_ms: 1 }, only({ due_ms: some }))
doorbellSchema.index({ failing_ms: 1 }, only({ failing_ms: some }))
indexMarks(doorbellSchema)

const keyFields = {
  /** The public key, 64 hex characters. */
  _id: text,
  /** When a process that has the secret half last said so, by the database's clock. */
  seen_at: date,
}
type KeyRecord = RecordOf<typeof keyFields>

const keySchema = schemaOf<KeyRecord>('doorbell_keys', keyFields)
/** A key that nobody has used for so long is published no longer. */
keySchema.index({ seen_at: 1 }, { expireAfterSeconds: 30 * 86_400 })

/** What a step rests on: whoever changes one of these makes another step begin again. */
const asRead = (bell: DoorbellRecord) => ({
  _id: bell._id,
  rev: bell.rev,
  state: bell.state,
  due_ms: bell.due_ms ?? none,
  tried_ms: bell.tried_ms ?? none,
  news_ms: bell.news_ms ?? none,
})

const updateOf = ({ set, unset, tells }: DoorbellStep) => ({
  ...(Object.keys(set).length === 0 ? {} : { $set: set }),
  ...(unset.length === 0 ? {} : { $unset: Object.fromEntries(unset.map((name) => [name, 1])) }),
  ...pushing({ tells }),
})

/** A doorbell as it was read, and what becomes of it. */
export interface Taken {
  bell: DoorbellRecord
  step: DoorbellStep
}

const overtaken = ({ bell }: Taken) =>
  new Overtaken(`the doorbell of ${bell._id} has changed since it was read`)

/** Steps under way: few, so that those of many rings go together. */
const AT_ONCE = 2

/** Creates the store of doorbells, and of the public keys that sign rings. */
export function createDoorbellStore(connection: Connection) {
  const doorbells = connection.model<DoorbellRecord>('Doorbell', doorbellSchema)
  const keys = connection.model<KeyRecord>('DoorbellKey', keySchema)
  const records = recordsOf(doorbells)
  const raw = () => rawOf<DoorbellRecord>(doorbells)

  /** Stores steps in one command. @returns whether each was stored; Overtaken for one that found another record */
  async function takeEach(taken: readonly Taken[]): Promise<Outcomes<void>> {
    const named = taken.map((one) => ({ ...one, name: newStepId() }))
    const { matchedCount } = await raw().bulkWrite(
      named.map(({ bell, step, name }) => ({
        updateOne: { filter: asRead(bell), update: updateOf({ ...step, set: { ...step.set, step: name } }) },
      })) as mongoose.mongo.AnyBulkWriteOperation<DoorbellRecord>[],
      { ordered: false },
    )
    const stored =
      matchedCount === taken.length
        ? undefined
        : new Set(await raw().distinct('step', { _id: { $in: taken.map(({ bell }) => bell._id) } }))
    return named.map((one) =>
      stored === undefined || stored.has(one.name)
        ? { status: 'fulfilled', value: undefined }
        : { status: 'rejected', reason: overtaken(one) },
    )
  }
  const take = createGroups(takeEach, { atOnce: AT_ONCE })
  return {
    models: { doorbells, keys },
    /** Reads an agent's doorbell, together with others that are asked for at that moment. */
    find: createBatchRead(
      (agentIds: string[]) =>
        raw()
          .find({ _id: { $in: agentIds } }, MAJORITY)
          .toArray(),
      ({ _id }) => _id,
    ),
    /** Stores a doorbell in place of the agent's earlier one; what that one tells of stays told. */
    async put({ _id, tells: _none, ...bell }: DoorbellRecord): Promise<void> {
      const gone = Object.keys(doorbellFields).filter((name) => name !== '_id' && !(name in bell))
      await raw().updateOne(
        { _id },
        { $set: bell, $unset: Object.fromEntries(gone.map((name) => [name, 1])) } as object,
        { upsert: true },
      )
    },
    /**
     * Stores a step, in one command with others that come at that moment.
     *
     * @throws Overtaken if the doorbell isn't as it was read
     */
    take: (bell: DoorbellRecord, step: DoorbellStep): Promise<void> => take({ bell, step }),
    /** Stores steps of many doorbells; of one that isn't as it was read, nothing. */
    async takeAll(taken: readonly Taken[]): Promise<void> {
      if (taken.length > 0) await takeEach(taken)
    },
    /** Reads those of the agents' doorbells that may ring. */
    listOf: (agentIds: readonly string[]): Promise<DoorbellRecord[]> =>
      agentIds.length === 0
        ? Promise.resolve([])
        : raw()
            .find({ _id: { $in: [...agentIds] }, state: { $in: ['on', 'silent'] } })
            .toArray(),
    /** Lists doorbells that are due since before a time, the longest first. */
    listDue: (beforeMs: number, limit: number): Promise<DoorbellRecord[]> =>
      records.all({ due_ms: { $lt: beforeMs } }, { sort: { due_ms: 1 }, limit }),
    /** Lists doorbells that may ring and have failed since before a time. */
    listFailing: (beforeMs: number, limit: number): Promise<DoorbellRecord[]> =>
      records.all({ failing_ms: { $lte: beforeMs }, state: { $in: ['on', 'silent'] } }, { limit }),
    /** Says that this process signs with this key. */
    async noteKey(publicKey: string): Promise<void> {
      await rawOf<KeyRecord>(keys).updateOne(
        { _id: publicKey },
        { $currentDate: { seen_at: true } },
        { upsert: true },
      )
    },
    /** The public keys that sign rings, the newest in use first. */
    async listKeys(): Promise<string[]> {
      const found = await rawOf<KeyRecord>(keys).find().sort({ seen_at: -1 }).limit(8).toArray()
      return found.map(({ _id }) => _id)
    },
  }
}

export type DoorbellStore = ReturnType<typeof createDoorbellStore>
