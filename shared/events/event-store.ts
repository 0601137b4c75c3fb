import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { MAJORITY, Overtaken, within, type Session } from '../platform/database.ts'
import { schemaOf } from '../platform/fields.ts'
import { createGroups } from '../platform/group-commit.ts'
import { EVENTS_KEPT } from '../platform/limits.ts'
import { DAY_MS, unixSeconds } from '../platform/time.ts'
import { eventId, eventHeadFields, eventRecordFields, type EventHead, type EventRecord } from './event.ts'
import { isTelling, type EventMark } from './mark.ts'
import { rawOf } from '../platform/records.ts'

const eventSchema = schemaOf<EventRecord>('events', eventRecordFields)
eventSchema.index({ expires: 1 }, { expireAfterSeconds: 0 })
const headSchema = schemaOf<EventHead>('event_heads', eventHeadFields)
headSchema.index({ numbered_ms: 1 }, { sparse: true })

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
/** Less than a request may take; only after an election is there anything to wait for. */
const SURELY_WITHIN_MS = 5_000
/** Records read by one part of a round over all marks. */
const ROUND_RECORDS = 500

/** How far a round over all marks has come. */
export interface MarkPlace {
  /** Index among the collections whose records can have marks. */
  collectionIndex: number
  /** Id of the last agent that was looked at there; empty at the beginning. */
  afterAgent: string
}

type TellingRecord = { _id: string; tells: EventMark[] }

/** A record with marks, and the agents that they are for. */
type MarkedRecord = { _id: string; to: string[]; collection: string }

/**
 * Returns one agent's marks in one record, so that sorting them by time keeps their order: a mark whose time
 * is before that of an earlier one, because its clock was slow, gets that one's time.
 */
function withAscendingTimes(marks: readonly EventMark[]): EventMark[] {
  let latestMs = 0
  return marks.map((mark) => {
    latestMs = Math.max(latestMs, mark.at_ms)
    return { ...mark, at_ms: latestMs }
  })
}

/** Returns for each agent the ids of the records that have marks for it, by collection. */
function groupByAgent(
  agentIds: readonly string[],
  records: readonly MarkedRecord[],
): ReadonlyMap<string, ReadonlyMap<string, readonly string[]>> {
  const marked = new Map(agentIds.map((agentId) => [agentId, new Map<string, string[]>()]))
  for (const { _id, to, collection } of records)
    for (const agentId of new Set(to)) {
      const byCollection = marked.get(agentId)
      const ids = byCollection?.get(collection)
      if (ids === undefined) byCollection?.set(collection, [_id])
      else ids.push(_id)
    }
  return marked
}

/**
 * Creates the store of events and of their numbers; it also reads the marks in all records that can have any.
 */
export function createEventStore(connection: Connection) {
  const events = connection.model<EventRecord>('Event', eventSchema)
  const heads = connection.model<EventHead>('EventHead', headSchema)
  const raw = () => rawOf<EventRecord>(events)
  const rawHeads = () => rawOf<EventHead>(heads)
  let telling: mongoose.mongo.Collection<TellingRecord>[] | undefined
  /** The collections whose records can have marks; all models must exist at the first call. */
  const tellingCollections = () =>
    (telling ??= Object.values(connection.models)
      .filter(({ schema }) => isTelling(schema))
      .map((model) => rawOf<TellingRecord>(model)))

  /** Aggregation stages that find up to `limit` records of a collection with marks for any of the agents. */
  const markedStages = (agentIds: readonly string[], collection: string, limit: number) => [
    { $match: { 'tells.to': { $in: agentIds } } },
    { $limit: limit },
    { $project: { to: '$tells.to', collection: { $literal: collection } } },
  ]

  /**
   * Reads how far an agent's events go, and which records have marks for it; agents that are asked about at
   * the same time are read by one command.
   */
  const readProgress = createGroups<string, EventProgress>(async (asked) => {
    const agentIds = [...new Set(asked)]
    const collections = tellingCollections()
    const found = await rawHeads()
      .aggregate<EventHead | MarkedRecord>(
        [
          { $match: { _id: { $in: agentIds } } },
          ...collections.map(({ collectionName: coll }) => ({
            $unionWith: { coll, pipeline: markedStages(agentIds, coll, MANY_RECORDS) },
          })),
        ],
        { ...MAJORITY, batchSize: agentIds.length + collections.length * MANY_RECORDS + 1 },
      )
      .toArray()
    const headOf = new Map<string, EventHead>()
    const records: MarkedRecord[] = []
    for (const document of found)
      if ('collection' in document) records.push(document)
      else headOf.set(document._id, document)
    const marked = groupByAgent(agentIds, await rereadIfCutOff(agentIds, records))
    return asked.map((agentId) => {
      const { seq = 0, pass_told_ms: passToldMs } = headOf.get(agentId) ?? {}
      const value = { agentId, seq, passToldMs, marked: marked.get(agentId) ?? new Map() }
      return { status: 'fulfilled', value }
    })
  })

  /**
   * Returns the records, but those of a collection at the limit of MANY_RECORDS, which may have cut some off,
   * as read again for each agent alone.
   */
  async function rereadIfCutOff(
    agentIds: readonly string[],
    records: readonly MarkedRecord[],
  ): Promise<readonly MarkedRecord[]> {
    if (agentIds.length === 1 || records.length < MANY_RECORDS) return records
    const byCollection = Map.groupBy(records, ({ collection }) => collection)
    const isCutOff = (name: string) => (byCollection.get(name)?.length ?? 0) >= MANY_RECORDS
    const reread = await Promise.all(
      tellingCollections()
        .filter(({ collectionName }) => isCutOff(collectionName))
        .flatMap((collection) =>
          agentIds.map((agentId) =>
            collection
              .aggregate<MarkedRecord>(markedStages([agentId], collection.collectionName, BATCH_RECORDS + 1))
              .toArray(),
          ),
        ),
    )
    return [...records.filter(({ collection }) => !isCutOff(collection)), ...reread.flat()]
  }

  /**
   * Takes an agent's marks off up to BATCH_RECORDS of the records that have some.
   *
   * @param marked the ids of these records, by collection
   * @returns the marks, those of each record in their order, and whether any of these records was left
   */
  async function takeMarks(
    agentId: string,
    marked: EventProgress['marked'],
    session: Session,
  ): Promise<{ marks: EventMark[]; more: boolean }> {
    const marks: EventMark[] = []
    let recordsLeft = BATCH_RECORDS
    let more = false
    for (const collection of tellingCollections()) {
      const ids = marked.get(collection.collectionName) ?? []
      if (ids.length > recordsLeft) more = true
      // Ids of one kind of record sort in the order in which the records were made.
      const oldestIds = ids.toSorted().slice(0, recordsLeft)
      if (oldestIds.length === 0) continue
      recordsLeft -= oldestIds.length
      const records = await collection
        .find(
          { _id: { $in: oldestIds }, 'tells.to': agentId },
          { session, projection: { tells: 1 }, sort: { _id: 1 } },
        )
        .toArray()
      if (records.length === 0) continue
      for (const { tells } of records)
        marks.push(...withAscendingTimes(tells.filter(({ to }) => to === agentId)))
      // If a mark was pushed since the transaction began, this conflicts.
      await collection.updateMany(
        { _id: { $in: records.map(({ _id }) => _id) } },
        { $pull: { tells: { to: agentId } } },
        { session },
      )
    }
    return { marks, more }
  }

  /**
   * Stores how far an agent's events are numbered, in place of what was read.
   *
   * @param before undefined if there was nothing
   * @throws Overtaken or a duplicate-key error if another has stored it since
   */
  async function moveHead(
    agentId: string,
    before: EventHead | undefined,
    after: Omit<EventHead, '_id'>,
    session: Session,
  ): Promise<void> {
    if (before === undefined)
      return void (await rawHeads().insertOne({ _id: agentId, ...after }, { session }))
    const asRead = { _id: agentId, seq: before.seq }
    const { matchedCount } = await rawHeads().updateOne(asRead, { $set: after }, { session })
    if (matchedCount === 0) throw new Overtaken(`the events of ${agentId} were numbered since they were read`)
  }

  return {
    models: { events, heads },
    readProgress,
    /**
     * Turns an agent's marks in up to BATCH_RECORDS of these records into numbered events, and `passEnding`
     * into one unless an event has told of that end. Numbers and marks change in one transaction whose update
     * names the highest number as it was read, so of two at once one begins again: no number is seen before a
     * smaller one, and a mark is numbered once.
     *
     * @param marked ids of records with marks for the agent, by collection
     * @param nowMs by which the events expire
     * @returns the agent's highest number afterwards, and whether marks in these records are left
     * @throws Overtaken or a duplicate-key error on a conflict; the caller must abort
     */
    async numberMarks(
      agentId: string,
      marked: EventProgress['marked'],
      passEnding: { mark: EventMark; passToldMs: number } | undefined,
      nowMs: number,
      session: Session,
    ): Promise<{ seq: number; more: boolean }> {
      const head = (await rawHeads().findOne({ _id: agentId }, { session })) ?? undefined
      const isPassEndingNew = passEnding !== undefined && head?.pass_told_ms !== passEnding.passToldMs
      const { marks: taken, more } = await takeMarks(agentId, marked, session)
      const marks = [...(isPassEndingNew ? [passEnding.mark] : []), ...taken]
      const seqBefore = head?.seq ?? 0
      if (marks.length === 0) return { seq: seqBefore, more }
      const seq = seqBefore + marks.length
      const passTold = isPassEndingNew ? { pass_told_ms: passEnding.passToldMs } : {}
      await moveHead(agentId, head, { seq, numbered_ms: nowMs, ...passTold }, session)
      const expires = new Date(nowMs + EVENTS_KEPT.days * DAY_MS)
      const numbered = marks
        .toSorted((a, b) => a.at_ms - b.at_ms)
        .map(({ at_ms: atMs, kind, id, fields }, index) => ({
          _id: eventId(agentId, seqBefore + 1 + index),
          at: unixSeconds(atMs),
          kind,
          id,
          fields,
          expires,
        }))
      await raw().insertMany(numbered, { session })
      return { seq, more }
    },
    /**
     * Lists the agents that have marks made since a time, or an event that got its number since then: then with
     * the number of their last one.
     */
    async listNews(sinceMs: number): Promise<{ marked: ReadonlySet<string>; numbered: Map<string, number> }> {
      const found = await rawHeads()
        .aggregate<{ _id: string; seq: number } | { tells: EventMark[] }>(
          [
            { $match: { numbered_ms: { $gte: sinceMs } } },
            { $project: { seq: 1 } },
            ...tellingCollections().map(({ collectionName: coll }) => ({
              $unionWith: {
                coll,
                pipeline: [
                  { $match: { 'tells.to': { $exists: true }, 'tells.at_ms': { $gte: sinceMs } } },
                  { $project: { _id: 0, 'tells.to': 1, 'tells.at_ms': 1 } },
                ],
              },
            })),
          ],
          MAJORITY,
        )
        .toArray()
      const marked = new Set<string>()
      const numbered = new Map<string, number>()
      for (const one of found)
        if ('seq' in one) numbered.set(one._id, one.seq)
        else for (const { to, at_ms: atMs } of one.tells) if (atMs >= sinceMs) marked.add(to)
      return { marked, numbered }
    },
    /** Lists the marks made since a time, of all agents. */
    async listMarks(sinceMs: number): Promise<Pick<EventMark, 'to' | 'at_ms' | 'kind'>[]> {
      const [first, ...others] = tellingCollections()
      const stages = [
        { $match: { 'tells.to': { $exists: true }, 'tells.at_ms': { $gte: sinceMs } } },
        { $project: { _id: 0, 'tells.to': 1, 'tells.at_ms': 1, 'tells.kind': 1 } },
      ]
      if (first === undefined) return []
      const found = await first
        .aggregate<{ tells: EventMark[] }>(
          [
            ...stages,
            ...others.map(({ collectionName: coll }) => ({ $unionWith: { coll, pipeline: stages } })),
          ],
          MAJORITY,
        )
        .toArray()
      return found.flatMap(({ tells }) => tells.filter(({ at_ms: atMs }) => atMs >= sinceMs))
    },
    /** Lists the agents whose events got numbers since a time, and when: they, or a day, have asked for them. */
    listNumbered: (sinceMs: number): Promise<Pick<EventHead, '_id' | 'numbered_ms'>[]> =>
      rawHeads()
        .find({ numbered_ms: { $gte: sinceMs } }, { ...MAJORITY, projection: { numbered_ms: 1 } })
        .toArray(),
    /** The numbers of these agents' last events, as a majority has them; an agent without events is left out. */
    async listSeqs(agentIds: readonly string[]): Promise<Map<string, number>> {
      const heads = await rawHeads()
        .find({ _id: { $in: [...agentIds] } }, { ...MAJORITY, projection: { seq: 1 } })
        .toArray()
      return new Map(heads.map(({ _id, seq }) => [_id, seq]))
    },
    /**
     * Lists agents with marks from before a time, found in one part of a round over all marks.
     *
     * @param place where the previous part ended; undefined begins the round
     * @returns `next`: the place for the next part, undefined at the end of the round
     */
    async listOverdue(
      place: MarkPlace | undefined,
      beforeMs: number,
    ): Promise<{ agentIds: string[]; next: MarkPlace | undefined }> {
      const { collectionIndex, afterAgent } = place ?? { collectionIndex: 0, afterAgent: '' }
      const collections = tellingCollections()
      const collection = collections[collectionIndex]
      if (collection === undefined) return { agentIds: [], next: undefined }
      const records = await collection
        .find(
          { 'tells.to': { $gt: afterAgent } },
          { projection: { tells: 1 }, hint: 'tells', limit: ROUND_RECORDS },
        )
        .toArray()
      const marks = records.flatMap(({ tells }) => tells)
      const agentIds = new Set(marks.filter(({ at_ms: atMs }) => atMs < beforeMs).map(({ to }) => to))
      // The index lists each record at the first of its agents behind the place.
      const [lastAgent] = (records.at(-1)?.tells ?? [])
        .map(({ to }) => to)
        .filter((to) => to > afterAgent)
        .sort()
      if (records.length === ROUND_RECORDS && lastAgent !== undefined)
        return { agentIds: [...agentIds], next: { collectionIndex, afterAgent: lastAgent } }
      if (collectionIndex + 1 >= collections.length) return { agentIds: [...agentIds], next: undefined }
      return { agentIds: [...agentIds], next: { collectionIndex: collectionIndex + 1, afterAgent: '' } }
    },
    /** Reads an agent's events after a number, in order, as a majority of the database has them. */
    list: (agentId: string, after: number, limit: number, session?: Session): Promise<EventRecord[]> =>
      raw()
        .find(
          { _id: { $gt: eventId(agentId, after), $lt: `${agentId}/~` } },
          { ...MAJORITY, ...within(session), sort: { _id: 1 }, limit, batchSize: limit },
        )
        .toArray(),
    /** The number of the agent's last event that a majority has, as the primary knows it. */
    async readSeq(agentId: string, session: Session): Promise<number> {
      return (await rawHeads().findOne({ _id: agentId }, { ...MAJORITY, ...within(session) }))?.seq ?? 0
    },
    /** The same from a primary that isn't cut off and knows all. @throws an outage if that cannot be had */
    async readSeqSurely(agentId: string): Promise<number> {
      const surely = { readConcern: { level: 'linearizable' }, maxTimeMS: SURELY_WITHIN_MS } as const
      return (await rawHeads().findOne({ _id: agentId }, surely))?.seq ?? 0
    },
    /**
     * Marks all but the agent's last EVENTS_KEPT.count events as expired, so that MongoDB removes them.
     *
     * @param seq the number of its last event
     */
    async expireOld(agentId: string, seq: number): Promise<void> {
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
