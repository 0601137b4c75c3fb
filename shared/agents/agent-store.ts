import type mongoose from 'mongoose'
import { Schema, type Connection, type Model } from 'mongoose'
import { type Session, within } from '../database.ts'
import type { CountChange } from '../claims/claim-book.ts'
import { createIdLookUp, createLookUp } from '../group-commit.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { AgentListed, AgentRecord, Profile } from './agent.ts'
import type { StoredToken } from './token.ts'

const counts = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, { type: Number, required: true }]))

const agentSchema = new Schema<AgentRecord>(
  {
    _id: { type: String, required: true },
    at: { type: Number, required: true },
    handle: String,
    salt: { type: String, required: true },
    ref: String,
    challenge: { type: String, required: true },
    token_key: { type: String, required: true },
    token_salt: { type: String, required: true },
    token_hash: { type: String, required: true },
    profile: new Schema(
      { name: String, purpose: String, capabilities: { type: [String], default: undefined }, dm_key: String },
      { _id: false },
    ),
    pass_until_ms: Number,
    first_paid_at: Number,
    referrals: new Schema(counts(['paying']), { _id: false }),
    record: new Schema(
      {
        claims: new Schema(counts(['open', 'judged', 'contested', 'overdue', 'accepted']), { _id: false }),
        verdicts: new Schema(counts(['true', 'false', 'void']), { _id: false }),
      },
      { _id: false },
    ),
    banned_at: Number,
    handed_out: Number,
    ...pendingField,
  },
  { collection: 'agents', strict: 'throw', versionKey: false },
)
agentSchema.index({ token_key: 1 }, { unique: true })
agentSchema.index({ challenge: 1 }, { unique: true })
agentSchema.index({ 'profile.capabilities': 1, _id: -1 }, { partialFilterExpression: { 'profile.capabilities': { $exists: true } } })
// Those that declare anything, newest first: the index of ids leads past everyone else. (One of `_id` alone may not be partial.)
agentSchema.index({ _id: -1, at: 1 }, { partialFilterExpression: { 'profile.capabilities.0': { $exists: true } } })
agentSchema.index({ ref: 1 }, { partialFilterExpression: { ref: { $exists: true } } })
agentSchema.index(...PENDING_INDEX)

interface UsedChallenge {
  _id: string
  expires: Date
}

const usedChallengeSchema = new Schema<UsedChallenge>(
  { _id: { type: String, required: true }, expires: { type: Date, required: true } },
  { collection: 'used_challenges', strict: 'throw', versionKey: false },
)
usedChallengeSchema.index({ expires: 1 }, { expireAfterSeconds: 0 })

/** What authentication needs of an agent, and what a route may know of its caller without another look. */
export type Caller = Pick<AgentRecord, '_id' | 'token_key' | 'token_salt' | 'token_hash' | 'pass_until_ms' | 'banned_at'>

const CALLER_FIELDS = { token_key: 1, token_salt: 1, token_hash: 1, pass_until_ms: 1, banned_at: 1 } as const
const LISTED_FIELDS = { at: 1, handle: 1, banned_at: 1, profile: 1 } as const

export interface AgentStore {
  insert(agent: AgentRecord, session?: Session): Promise<void>
  /** Remembers a challenge as used. @throws a duplicate-key error where it already is */
  burnChallenge(key: string, forgetAtMs: number): Promise<void>
  find(agentId: string, session?: Session): Promise<AgentRecord | undefined>
  exists(agentId: string): Promise<boolean>
  findCaller(tokenKey: string): Promise<Caller | undefined>
  listByCapability(capability: string | undefined, limit: number): Promise<AgentListed[]>
  /** @returns false where the agent's token is no longer the one expected, or the agent is banned */
  replaceToken(agentId: string, expectedKey: string, token: StoredToken, entry: PendingEntry): Promise<boolean>
  /** Sets the given fields alone. @returns false where a `dm_key` is given and the present one is not the one expected */
  updateProfile(agentId: string, fields: Profile, expectedDmKey: string | undefined, entry: PendingEntry | undefined): Promise<boolean>
  /** @returns false where the pass did not end at `expectedMs` any more */
  movePassEnd(
    agentId: string,
    expectedMs: number | undefined,
    untilMs: number,
    entries: PendingEntry[],
    session?: Session,
  ): Promise<boolean>
  /** @returns false where the agent was in that state already */
  setBanned(agentId: string, bannedAt: number | undefined, entry: PendingEntry): Promise<boolean>
  /** One more of the agents that it referred has paid. */
  countPayingReferral(agentId: string, session: Session): Promise<void>
  /** The number of the agent's next hand-out of messages: 1, 2, … */
  nextHandOut(agentId: string, session: Session): Promise<number>
  /** Adds to agents' counts of claims by status and of verdicts by outcome. */
  countAllClaims(changes: ReadonlyMap<string, CountChange>, session: Session): Promise<void>
  /** Marks the first payment. @returns false where there was one before */
  markPaid(agentId: string, at: number, session: Session): Promise<boolean>
  readonly models: { agents: Model<AgentRecord>; usedChallenges: Model<UsedChallenge> }
}

export function createAgentStore(connection: Connection): AgentStore {
  const agents = connection.model<AgentRecord>('Agent', agentSchema)
  const usedChallenges = connection.model<UsedChallenge>('UsedChallenge', usedChallengeSchema)
  const raw = () => agents.collection as unknown as mongoose.mongo.Collection<AgentRecord>
  const findById = createIdLookUp(raw)
  const findId = createIdLookUp(raw, { _id: 1 })
  const findByTokenKey = createLookUp(
    (keys: string[]) =>
      raw()
        .find<Caller>({ token_key: { $in: keys } }, { projection: CALLER_FIELDS })
        .toArray(),
    ({ token_key: key }) => key,
  )

  return {
    models: { agents, usedChallenges },
    async insert(agent, session) {
      await agents.insertMany([agent], { ...within(session), lean: true })
    },
    async burnChallenge(key, forgetAtMs) {
      await usedChallenges.insertMany([{ _id: key, expires: new Date(forgetAtMs) }], { lean: true })
    },
    async find(agentId, session) {
      if (session === undefined) return findById(agentId)
      return (await agents.findOne({ _id: agentId }, null, within(session)).lean<AgentRecord>()) ?? undefined
    },
    async exists(agentId) {
      return (await findId(agentId)) !== undefined
    },
    findCaller: findByTokenKey,
    async listByCapability(capability, limit) {
      // An empty list declares nothing.
      const filter = capability === undefined ? { 'profile.capabilities.0': { $exists: true } } : { 'profile.capabilities': capability }
      return agents.find(filter, LISTED_FIELDS).sort({ _id: -1 }).limit(limit).lean<AgentListed[]>()
    },
    async replaceToken(agentId, expectedKey, token, entry) {
      const filter = { _id: agentId, token_key: expectedKey, banned_at: { $exists: false } }
      return (await agents.updateOne(filter, { $set: token, $push: { pending: entry } })).matchedCount === 1
    },
    async updateProfile(agentId, fields, expectedDmKey, entry) {
      const set = Object.fromEntries(Object.entries(fields).map(([name, value]) => [`profile.${name}`, value]))
      const filter = { _id: agentId, ...(fields.dm_key === undefined ? {} : { 'profile.dm_key': expectedDmKey ?? { $exists: false } }) }
      if (Object.keys(set).length === 0) return true
      return (
        (await agents.updateOne(filter, { $set: set, ...(entry === undefined ? {} : { $push: { pending: entry } }) })).matchedCount === 1
      )
    },
    async movePassEnd(agentId, expectedMs, untilMs, entries, session) {
      const filter = { _id: agentId, pass_until_ms: expectedMs ?? { $exists: false } }
      const update = { $set: { pass_until_ms: untilMs }, ...(entries.length === 0 ? {} : { $push: { pending: { $each: entries } } }) }
      return (await agents.updateOne(filter, update, within(session))).matchedCount === 1
    },
    async setBanned(agentId, bannedAt, entry) {
      const filter = { _id: agentId, banned_at: { $exists: bannedAt === undefined } }
      const change = bannedAt === undefined ? { $unset: { banned_at: 1 as const } } : { $set: { banned_at: bannedAt } }
      return (await agents.updateOne(filter, { ...change, $push: { pending: entry } })).matchedCount === 1
    },
    async countPayingReferral(agentId, session) {
      await agents.updateOne({ _id: agentId }, { $inc: { 'referrals.paying': 1 } }, { session })
    },
    async nextHandOut(agentId, session) {
      const agent = await agents
        .findOneAndUpdate(
          { _id: agentId },
          { $inc: { handed_out: 1 } },
          { session, returnDocument: 'after', projection: { handed_out: 1 } },
        )
        .lean<Pick<AgentRecord, 'handed_out'>>()
      if (agent?.handed_out === undefined) throw new Error(`agent ${agentId} reads messages and does not exist`)
      return agent.handed_out
    },
    async countAllClaims(changes, session) {
      const updates = [...changes].flatMap(([_id, { claims, verdicts }]) => {
        const change = { ...underPath('record.claims', claims), ...underPath('record.verdicts', verdicts) }
        return Object.keys(change).length === 0
          ? []
          : [{ updateOne: { filter: { _id }, update: { $inc: change as Record<string, never> } } }]
      })
      if (updates.length > 0) await raw().bulkWrite(updates, { session, ordered: false })
    },
    async markPaid(agentId, at, session) {
      return (
        (await agents.updateOne({ _id: agentId, first_paid_at: { $exists: false } }, { $set: { first_paid_at: at } }, { session }))
          .matchedCount === 1
      )
    },
  }
}

function underPath(path: string, change: Partial<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(change).flatMap(([name, by]) => (by === undefined ? [] : [[`${path}.${name}`, by]])))
}
