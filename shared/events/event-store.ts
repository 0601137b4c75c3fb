import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { MAJORITY, Overtaken, type Session } from '../servers/database.ts'
import { schemaOf } from '../servers/fields.ts'
import { createGroups } from '../servers/group-commit.ts'
import { EVENTS_KEPT } from '../foundation/limits.ts'
import { DAY_MS, unixSeconds } from '../foundation/time.ts'
import { eventId, headFields, recordFields, type EventHead, type EventRecord } from './event.ts'
import { isTelling, type EventMark } from './mark.ts'

const eventSchema = schemaOf<EventRecord>('events', recordFields)
eventSchema.index({ expires: 1 }, { expireAfterSeconds: 0 })
const headSchema = schemaOf<EventHead>('event_heads', headFields)

/** How far an agent's events go, and which records have marks for it. */
export interface EventProgress {
  agentId: string
  /** The number of its last event; 0 if it has none. */
  seq: number
  /** The end of the pass that an event has told of. */
  passToldMs: number | undefined
  /** Ids of the records with marks, by collection. */
  marked: ReadonlyMap<string, readonly string[]>
}

/**
 * Marked records of one collection that are read for many agents at once; if there are more, agent by agent.
 */
const MANY_RECORDS = 2_000
/** Records whose marks are numbered in one transaction. */
const BATCH_RECORDS = 300
/** Records read by one part of a round over all marks. */
const ROUND_RECORDS = 500

/** How far a round over all marks has come: in which collection, and after which agent. */
export interface MarkPlace {
  at: number
  after: string
}

type TellingRecord = { _id: string; tells: EventMark[] }

/** A record with marks, and the agents that they are for. */
type MarkedRecord = { _id: string; to: string[]; collection: string }

/**
 * One agent's marks in one record, in their order; a mark that was made by a slow clock gets the time before
 * it.
 */
function inOrder(marks: readonly EventMark[]): EventMark[] {
  let latestMs = 0
  return marks.map((mark) => {
    latestMs = Math.max(latestMs, mark.at_ms)
    return { ...mark, at_ms: latestMs }
  })
}

/** For each agent, the ids of the records that have marks for it, by collection. */
function groupByAgent(
  agentIds: readonly string[],
  records: readonly MarkedRecord[],
): ReadonlyMap<string, ReadonlyMap<string, readonly string[]>> {
  const marked = new Map(agentIds.map((agentId) => [agentId, new Map<string, string[]>()]))
  for (const { _id, to, collection } of records)
    for (const agentId of new Set(to)) {
      const own = marked.get(agentId)
      const ids = own?.get(collection)
      if (ids === undefined) own?.set(collection, [_id])
      else ids.push(_id)
    }
  return marked
}

export function createEventStore(connection: Connection) {
  const events = connection.model<EventRecord>('Event', eventSchema)
  const heads = connection.model<EventHead>('EventHead', headSchema)
  const raw = () => events.collection as unknown as mongoose.mongo.Collection<EventRecord>
  const rawHeads = () => heads.collection as unknown as mongoose.mongo.Collection<EventHead>
  let telling: mongoose.mongo.Collection<TellingRecord>[] | undefined
  const tellingCollections = () =>
    (telling ??= Object.values(connection.models)
      .filter(({ schema }) => isTelling(schema))
      .map(({ collection }) => collection as unknown as mongoose.mongo.Collection<TellingRecord>))

  const findMarked = (agentIds: readonly string[], collection: string, limit: number) => [
    { $match: { 'tells.to': { $in: agentIds } } },
    { $limit: limit },
    { $project: { to: '$tells.to', collection: { $literal: collection } } },
  ]

  /** Reads how far an agent's events go; one command for all that ask at once. */
  const readProgress = createGroups<string, EventProgress>(async (asked) => {
    const agentIds = [...new Set(asked)]
    const collections = tellingCollections()
    const found = await rawHeads()
      .aggregate<EventHead | MarkedRecord>(
        [
          { $match: { _id: { $in: agentIds } } },
          ...collections.map(({ collectionName: coll }) => ({
            $unionWith: { coll, pipeline: findMarked(agentIds, coll, MANY_RECORDS) },
          })),
        ],
        { ...MAJORITY, batchSize: agentIds.length + collections.length * MANY_RECORDS + 1 },
      )
      .toArray()
    const ownHeads = new Map<string, EventHead>()
    const records: MarkedRecord[] = []
    for (const one of found)
      if ('collection' in one) records.push(one)
      else ownHeads.set(one._id, one)
    const marked = groupByAgent(agentIds, await readCutOff(agentIds, records))
    return asked.map((agentId) => {
      const { seq = 0, pass_told_ms: passToldMs } = ownHeads.get(agentId) ?? {}
      const value = { agentId, seq, passToldMs, marked: marked.get(agentId) ?? new Map() }
      return { status: 'fulfilled', value }
    })
  })

  /** If the limit has cut off a collection's records, reads that collection for each agent alone instead. */
  async function readCutOff(
    agentIds: readonly string[],
    records: readonly MarkedRecord[],
  ): Promise<readonly MarkedRecord[]> {
    if (agentIds.length === 1 || records.length < MANY_RECORDS) return records
    const byCollection = Map.groupBy(records, ({ collection }) => collection)
    const isCutOff = (name: string) => (byCollection.get(name)?.length ?? 0) >= MANY_RECORDS
    const alone = await Promise.all(
      tellingCollections()
        .filter(({ collectionName }) => isCutOff(collectionName))
        .flatMap((collection) =>
          agentIds.map((agentId) =>
            collection
              .aggregate<MarkedRecord>(findMarked([agentId], collection.collectionName, BATCH_RECORDS + 1))
              .toArray(),
          ),
        ),
    )
    return [...records.filter(({ collection }) => !isCutOff(collection)), ...alone.flat()]
  }

  return {
    models: { events, heads },
    readProgress,
    /**
     * Turns an agent's marks in these records into numbered events, with one for `due`, which no record tells of.
     * Numbers and marks change in one transaction whose update names the highest number as it was read, so of two
     * at once one begins again: no number is seen before a smaller one, and a mark is numbered once.
     *
     * @throws Overtaken or a duplicate-key error on a conflict
     * @returns the highest number then, and whether there are more marks
     */
    async number(
      agentId: string,
      marked: EventProgress['marked'],
      due: { mark: EventMark; passToldMs: number } | undefined,
      nowMs: number,
      session: Session,
    ): Promise<{ seq: number; more: boolean }> {
      const head = (await rawHeads().findOne({ _id: agentId }, { session })) ?? undefined
      const isDue = due !== undefined && head?.pass_told_ms !== due.passToldMs
      const marks: EventMark[] = isDue ? [due.mark] : []
      let room = BATCH_RECORDS
      let more = false
      for (const collection of tellingCollections()) {
        const ids = marked.get(collection.collectionName) ?? []
        if (ids.length > room) more = true
        if (ids.length === 0 || room === 0) continue
        // Ids of one kind of record sort in the order in which the records were made.
        const first = [...ids].sort().slice(0, room)
        room -= first.length
        const records = await collection
          .find(
            { _id: { $in: first }, 'tells.to': agentId },
            { session, projection: { tells: 1 }, sort: { _id: 1 } },
          )
          .toArray()
        if (records.length === 0) continue
        marks.push(...records.flatMap(({ tells }) => inOrder(tells.filter(({ to }) => to === agentId))))
        // If a mark was pushed since the transaction began, this conflicts.
        await collection.updateMany(
          { _id: { $in: records.map(({ _id }) => _id) } },
          { $pull: { tells: { to: agentId } } },
          { session },
        )
      }
      const before = head?.seq ?? 0
      if (marks.length === 0) return { seq: before, more }
      marks.sort((a, b) => a.at_ms - b.at_ms)
      const seq = before + marks.length
      const set = { seq, ...(isDue ? { pass_told_ms: due.passToldMs } : {}) }
      if (head === undefined) await rawHeads().insertOne({ _id: agentId, ...set }, { session })
      else {
        const own = { _id: agentId, seq: before }
        const { matchedCount } = await rawHeads().updateOne(own, { $set: set }, { session })
        if (matchedCount === 0) throw new Overtaken()
      }
      const expires = new Date(nowMs + EVENTS_KEPT.days * DAY_MS)
      await raw().insertMany(
        marks.map(({ at_ms: atMs, kind, id, fields }, index) => ({
          _id: eventId(agentId, before + 1 + index),
          at: unixSeconds(atMs),
          kind,
          id,
          fields,
          expires,
        })),
        { session },
      )
      return { seq, more }
    },
    /**
     * Agents with marks from before a time, found in one part of a round over all marks.
     *
     * @param place where the previous part ended; undefined begins the round
     * @returns the place for the next part, undefined at the end of the round
     */
    async listOverdue(
      place: MarkPlace | undefined,
      beforeMs: number,
    ): Promise<{ agentIds: string[]; next: MarkPlace | undefined }> {
      const { at, after } = place ?? { at: 0, after: '' }
      const [collection, ...rest] = tellingCollections().slice(at)
      if (collection === undefined) return { agentIds: [], next: undefined }
      const records = await collection
        .find(
          { 'tells.to': { $gt: after } },
          { projection: { tells: 1 }, hint: 'tells', limit: ROUND_RECORDS },
        )
        .toArray()
      const marks = records.flatMap(({ tells }) => tells)
      const agentIds = new Set(marks.filter(({ at_ms: atMs }) => atMs < beforeMs).map(({ to }) => to))
      // The index lists each record at the first of its agents behind the place.
      const [last] = (records.at(-1)?.tells ?? [])
        .map(({ to }) => to)
        .filter((to) => to > after)
        .sort()
      if (records.length === ROUND_RECORDS && last !== undefined)
        return { agentIds: [...agentIds], next: { at, after: last } }
      return { agentIds: [...agentIds], next: rest.length === 0 ? undefined : { at: at + 1, after: '' } }
    },
    /** An agent's events after a number, in order. */
    list: (agentId: string, after: number, limit: number): Promise<EventRecord[]> =>
      raw()
        .find(
          { _id: { $gt: eventId(agentId, after), $lt: `${agentId}/~` } },
          { ...MAJORITY, sort: { _id: 1 }, limit, batchSize: limit },
        )
        .toArray(),
    /** Has MongoDB remove the events that are older than an agent's last {@link EVENTS_KEPT}. */
    async forget(agentId: string, seq: number): Promise<void> {
      const upTo = seq - EVENTS_KEPT.count
      if (upTo <= 0) return
      await raw().updateMany(
        { _id: { $gt: eventId(agentId, 0), $lte: eventId(agentId, upTo) } },
        { $set: { expires: new Date(0) } },
      )
    },
  }
}

export type EventStore = ReturnType<typeof createEventStore>
