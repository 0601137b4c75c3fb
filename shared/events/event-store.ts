import type mongoose from 'mongoose'
import { Schema, type Connection } from 'mongoose'
import { MAJORITY, Overtaken, type Session } from '../servers/database.ts'
import { createGroups } from '../servers/group-commit.ts'
import { EVENTS_KEPT } from '../foundation/limits.ts'
import { DAY_MS, unixSeconds } from '../foundation/time.ts'
import { eventId, type EventHead, type EventRecord } from './event.ts'
import { isTelling, type EventMark } from './mark.ts'

const string = { type: String, required: true } as const
const number = { type: Number, required: true } as const

const eventSchema = new Schema<EventRecord>(
  {
    _id: string,
    at: number,
    kind: string,
    id: string,
    fields: { type: Schema.Types.Mixed, required: true },
    expires: { type: Date, required: true },
  },
  { collection: 'events', strict: 'throw', versionKey: false },
)
eventSchema.index({ expires: 1 }, { expireAfterSeconds: 0 })

const headSchema = new Schema<EventHead>(
  { _id: string, seq: number, pass_told_ms: Number },
  { collection: 'event_heads', strict: 'throw', versionKey: false },
)

/** How far an agent's events go, and in which records marks for it were found. */
export interface Told {
  seq: number
  passToldMs: number | undefined
  /** Ids by collection. */
  marked: ReadonlyMap<string, readonly string[]>
}

/** Marked records read for many agents at once; past this each agent is looked at alone. */
const MANY_RECORDS = 2_000
/** Marks numbered in one transaction, about. */
const BATCH_RECORDS = 300

/** Records read by one part of a round over all marks. */
const ROUND_RECORDS = 500

/** How far a round over all marks has come: in which collection, and after which agent. */
export interface MarkPlace {
  at: number
  after: string
}

type TellingRecord = { _id: string; tells: EventMark[] }

/** A record with marks: for whom they are. */
type SeenRecord = { _id: string; to: string[]; collection: string }
type Seen = EventHead | SeenRecord

const NONE_MARKED: Told['marked'] = new Map()

/**
 * Marks of one record in the order in which they were written, which is that of the array: one that a clock behind
 * the others' gave its time gets that of the mark before it.
 */
function inOrder(marks: readonly EventMark[]): EventMark[] {
  let latestMs = 0
  return marks.map((mark) => {
    latestMs = Math.max(latestMs, mark.at_ms)
    return { ...mark, at_ms: latestMs }
  })
}

/** Of each agent, the ids of the records that have marks for it, by collection. */
function groupByAgent(
  agentIds: readonly string[],
  records: readonly SeenRecord[],
): ReadonlyMap<string, Told['marked']> {
  const wanted = new Set(agentIds)
  const marked = new Map<string, Map<string, string[]>>()
  for (const { _id, to, collection } of records)
    for (const agentId of new Set(to)) {
      if (!wanted.has(agentId)) continue
      const own = marked.get(agentId) ?? new Map<string, string[]>()
      const ids = own.get(collection)
      if (ids === undefined) own.set(collection, [_id])
      else ids.push(_id)
      marked.set(agentId, own)
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

  const marksOf = (agentIds: readonly string[], collection: string, limit: number) => [
    { $match: { 'tells.to': { $in: agentIds } } },
    { $limit: limit },
    { $project: { to: '$tells.to', collection: { $literal: collection } } },
  ]

  /** One command for all that ask at once. */
  const look = createGroups<string, Told>(async (asked) => {
    const agentIds = [...new Set(asked)]
    const collections = tellingCollections()
    const found = await rawHeads()
      .aggregate<Seen>(
        [
          { $match: { _id: { $in: agentIds } } },
          ...collections.map(({ collectionName: coll }) => ({
            $unionWith: { coll, pipeline: marksOf(agentIds, coll, MANY_RECORDS) },
          })),
        ],
        { ...MAJORITY, batchSize: agentIds.length + collections.length * MANY_RECORDS + 1 },
      )
      .toArray()
    const heads = new Map<string, EventHead>()
    const records: SeenRecord[] = []
    for (const seen of found)
      if ('collection' in seen) records.push(seen)
      else heads.set(seen._id, seen)
    const marked = groupByAgent(agentIds, await withoutCrowding(agentIds, records))
    return asked.map((agentId) => {
      const head = heads.get(agentId)
      const value: Told = {
        seq: head?.seq ?? 0,
        passToldMs: head?.pass_told_ms,
        marked: marked.get(agentId) ?? NONE_MARKED,
      }
      return { status: 'fulfilled', value }
    })
  })

  /** Whoever has very many would leave others without theirs. */
  async function withoutCrowding(
    agentIds: readonly string[],
    records: readonly SeenRecord[],
  ): Promise<readonly SeenRecord[]> {
    if (agentIds.length === 1 || records.length < MANY_RECORDS) return records
    const crowded = tellingCollections().filter(
      ({ collectionName: name }) =>
        records.filter(({ collection }) => collection === name).length >= MANY_RECORDS,
    )
    const names = new Set(crowded.map(({ collectionName }) => collectionName))
    const alone = await Promise.all(
      crowded.flatMap((collection) =>
        agentIds.map((agentId) =>
          collection
            .aggregate<SeenRecord>(marksOf([agentId], collection.collectionName, BATCH_RECORDS + 1))
            .toArray(),
        ),
      ),
    )
    return [...records.filter(({ collection }) => !names.has(collection)), ...alone.flat()]
  }

  return {
    models: { events, heads },
    look,
    /** Of these agents, how far the events of each go, and whether more are to be numbered. */
    async lookAtMany(agentIds: readonly string[]): Promise<{ agentId: string; told: Told }[]> {
      return Promise.all(agentIds.map(async (agentId) => ({ agentId, told: await look(agentId) })))
    },
    /**
     * Gives the marks of an agent in these records their numbers, together with an event that no record tells of.
     * Number and mark change in one transaction that names the highest number as it was read, so of two at once one
     * begins again: a number is never seen before a smaller one, and a mark is numbered once.
     *
     * @throws Overtaken or a duplicate-key error on a conflict
     * @returns the highest number then, and whether it was all
     */
    async number(
      agentId: string,
      marked: Told['marked'],
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
        // In the order of their writing, which their ids are for those of one kind.
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
        // A mark that was pushed since the transaction began ends it.
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
      else if (
        (await rawHeads().updateOne({ _id: agentId, seq: before }, { $set: set }, { session }))
          .matchedCount === 0
      )
        throw new Overtaken()
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
     * Agents that have left marks unasked for since before a time, from a place in the round over all marks on; each
     * part of the round reads few records.
     *
     * @param place where the previous call stopped; undefined starts from the beginning
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
      // The index gives each record at the first of its agents behind the place.
      const [last] = (records.at(-1)?.tells ?? [])
        .map(({ to }) => to)
        .filter((to) => to > after)
        .sort()
      const isLast = records.length < ROUND_RECORDS || last === undefined
      const next = isLast ? (rest.length === 0 ? undefined : { at: at + 1, after: '' }) : { at, after: last }
      return { agentIds: [...agentIds], next }
    },
    /** Those after a number, in order. */
    list: (agentId: string, after: number, limit: number): Promise<EventRecord[]> =>
      raw()
        .find(
          { _id: { $gt: eventId(agentId, after), $lt: `${agentId}/~` } },
          { ...MAJORITY, sort: { _id: 1 }, limit, batchSize: limit },
        )
        .toArray(),
    /** Forgets what is older than an agent's last {@link EVENTS_KEPT}. */
    async forget(agentId: string, seq: number): Promise<void> {
      const upTo = seq - EVENTS_KEPT.count
      if (upTo <= 0) return
      // The server's own sweep of what has expired takes them away.
      await raw().updateMany(
        { _id: { $gt: eventId(agentId, 0), $lte: eventId(agentId, upTo) } },
        { $set: { expires: new Date(0) } },
      )
    },
  }
}

export type EventStore = ReturnType<typeof createEventStore>
