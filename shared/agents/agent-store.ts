import { setTimeout as sleep } from 'node:timers/promises'
import type mongoose from 'mongoose'
import type { Connection } from 'mongoose'
import { MAJORITY, Overtaken, type Session, unavailable } from '../platform/database.ts'
import { createIdBatchRead, createBatchRead } from '../platform/group-commit.ts'
import { PARSED_AT_ONCE } from '../platform/limits.ts'
import { hiddenFields, NOT_HIDDEN, createSetHidden } from '../ledger/hidden.ts'
import { makeMark, indexMarks, pushing, tellsField } from '../events/mark.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { createAllowanceStore } from './allowance-store.ts'
import { agentFields, type AgentListed, type AgentRecord, type Profile, type ProfileChange } from './agent.ts'
import type { StoredToken } from './token.ts'
import { date, maybe, none, only, schemaOf, some, text, type RecordOf } from '../platform/fields.ts'
import { rawOf, recordsOf } from '../platform/records.ts'

/** The fields of a profile whose change is a ledger entry. */
export type KeyField = 'dm_key' | 'author_key'

const agentSchema = schemaOf<AgentRecord>('agents', {
  ...agentFields,
  ...hiddenFields,
  ...tellsField,
  ...pendingField,
})
agentSchema.index({ token_key: 1 }, { unique: true })
agentSchema.index({ challenge: 1 }, { unique: true })
agentSchema.index({ 'profile.capabilities': 1, _id: -1 }, only({ 'profile.capabilities': some }))
// Agents that declare a capability, newest first; the index on `_id` would lead past all others too. It has
// `at` as well because MongoDB allows no partial index on `_id` alone.
agentSchema.index({ _id: -1, at: 1 }, only({ 'profile.capabilities.0': some }))
agentSchema.index({ ref: 1 }, only({ ref: some }))
/**
 * Makes the filter for agents that are neither banned nor hidden, declare a capability (any if it is
 * undefined), and have an id below `before`.
 */
function declaring(capability: string | undefined, before: string | undefined) {
  return {
    // An empty list doesn't count as declaring any.
    ...(capability === undefined
      ? { 'profile.capabilities.0': { $exists: true } }
      : { 'profile.capabilities': capability }),
    ...NOT_HIDDEN,
    banned_at: none,
    ...(before === undefined ? {} : { _id: { $lt: before } }),
  }
}
/** Has only agents that are banned, or were and have records that may still say so. */
const BANS = 'bans'
agentSchema.index({ ban_applied: 1, banned_at: 1 }, { name: BANS, sparse: true })
indexMarks(agentSchema)
agentSchema.index(...PENDING_INDEX)

const usedChallengeFields = {
  _id: text,
  expires: date,
  /** Whether it was used with the right answer, so that it is for one agent. */
  answered: maybe.boolean,
}
type UsedChallenge = RecordOf<typeof usedChallengeFields>

const usedChallengeSchema = schemaOf<UsedChallenge>('used_challenges', usedChallengeFields)
usedChallengeSchema.index({ expires: 1 }, { expireAfterSeconds: 0 })

/**
 * The fields of an agent that authentication reads; a route knows these of its caller without another
 * query.
 */
export type Caller = Pick<
  AgentRecord,
  | '_id'
  | 'token_key'
  | 'token_salt'
  | 'token_hash'
  | 'pass_until_ms'
  | 'banned_at'
  | 'handle'
  | 'hidden_at'
  | 'ban_hides'
>

const CALLER_FIELDS = {
  token_key: 1,
  token_salt: 1,
  token_hash: 1,
  pass_until_ms: 1,
  banned_at: 1,
  handle: 1,
  hidden_at: 1,
  ban_hides: 1,
} as const
/** What readers of an agent's records need to know of it. */
type Author = Pick<AgentRecord, '_id' | 'handle' | 'hidden_at' | 'ban_hides' | 'banned_at'>

const AUTHOR_FIELDS = { handle: 1, hidden_at: 1, ban_hides: 1, banned_at: 1 } as const
/** An agent's ban, if it is banned, and when that was changed. */
type Ban = Pick<AgentRecord, '_id' | 'banned_at' | 'ban_changed'>
const BAN_FIELDS = { banned_at: 1, ban_changed: 1 } as const
const LISTED_FIELDS = { at: 1, handle: 1, profile: 1 } as const

/** How often, and after which pauses, a new token is looked for among what a majority has. */
const LASTING_TRIES = 20
const LASTING_PAUSE_MS = 50

/** Changes to the counts of an agent's claims by status, and of the verdicts on them by outcome. */
export interface ClaimCounts {
  claims: Partial<Record<string, number>>
  verdicts: Partial<Record<string, number>>
}

/**
 * Creates the store of agents, of what each may still write today, and of used challenges.
 *
 * @param patienceMs how long a count of an allowance may wait before its update begins
 */
export function createAgentStore(connection: Connection, patienceMs: number) {
  const agents = connection.model<AgentRecord>('Agent', agentSchema)
  const records = recordsOf(agents)
  const usedChallenges = recordsOf(connection.model<UsedChallenge>('UsedChallenge', usedChallengeSchema))
  const raw = () => rawOf<AgentRecord>(agents)
  const findById = createIdBatchRead(raw)
  const findId = createIdBatchRead(raw, { _id: 1 })
  const findAuthor: (agentId: string) => Promise<Author | undefined> = createIdBatchRead(raw, AUTHOR_FIELDS)
  /** Creates a function that finds an agent, even a banned one, by its token key. */
  const createTokenLookUp = (options: mongoose.mongo.FindOptions = {}) =>
    createBatchRead(
      (keys: string[]) =>
        raw()
          .find<Caller>({ token_key: { $in: keys } }, { projection: CALLER_FIELDS, ...options })
          .toArray(),
      ({ token_key: key }) => key,
    )
  const [findByTokenKey, findLastingByTokenKey] = [createTokenLookUp(), createTokenLookUp(MAJORITY)]

  return {
    models: { agents, usedChallenges: usedChallenges.model },
    allowances: createAllowanceStore(connection, patienceMs),
    /** Stores a new agent. @throws a duplicate-key error if its challenge or token key is taken */
    insert: (agent: AgentRecord, session?: Session): Promise<void> => records.insert([agent], session),
    /**
     * Records a challenge as used, until `forgetAtMs`.
     *
     * @param key the challenge's `key`
     * @param answered whether the answer is right
     * @throws a duplicate-key error if it already was
     */
    burnChallenge: (key: string, forgetAtMs: number, answered: boolean): Promise<void> =>
      usedChallenges.insert([{ _id: key, expires: new Date(forgetAtMs), answered }]),
    /** Whether a challenge was burned by a request that had the right answer. */
    async wasAnswered(key: string): Promise<boolean> {
      return (await usedChallenges.one({ _id: key }))?.answered === true
    },
    /** Reads an agent, banned or not; undefined if there is none with this id. */
    find: (agentId: string, session?: Session): Promise<AgentRecord | undefined> =>
      session === undefined ? findById(agentId) : records.one({ _id: agentId }, { session }),
    /** Whether there is an agent with this id, banned or not. */
    async exists(agentId: string): Promise<boolean> {
      return (await findId(agentId)) !== undefined
    },
    /**
     * Reads what authentication needs to know of the agent that has this token key, or undefined if no agent
     * has it. It reads what a majority of the database's members has. So a rotation counts once no election can
     * take it back: until then the old token is valid and the new one isn't. Otherwise an agent that was refused,
     * or served, might keep the wrong token for ever.
     *
     * @throws Refusal `unavailable` if it stays unknown whether a rotation lasts
     */
    async findCaller(key: string): Promise<Caller | undefined> {
      for (let tries = 1; ; tries++) {
        const lasting = await findLastingByTokenKey(key)
        if (lasting !== undefined || (await findByTokenKey(key)) === undefined) return lasting
        if (tries === LASTING_TRIES) throw unavailable()
        await sleep(LASTING_PAUSE_MS)
      }
    },
    findAuthor,
    /**
     * Lists agents that are neither banned nor hidden, newest first.
     *
     * @param capability lists agents that declare it; undefined: agents that declare any
     * @param before lists agents with a smaller id
     */
    listByCapability: (
      capability: string | undefined,
      limit: number,
      before?: string,
    ): Promise<AgentListed[]> =>
      agents
        .find(declaring(capability, before), LISTED_FIELDS)
        .sort({ _id: -1 })
        .limit(limit)
        .batchSize(PARSED_AT_ONCE)
        .lean<AgentListed[]>()
        .exec(),
    /** Reads those of the given agents that exist, with what readers of their records need to know of them. */
    async findAuthors(agentIds: readonly string[]): Promise<Author[]> {
      if (agentIds.length === 0) return []
      return raw()
        .find<Author>(
          { _id: { $in: [...agentIds] } },
          { projection: AUTHOR_FIELDS, batchSize: agentIds.length + 1 },
        )
        .toArray()
    },
    /** Lists ids of agents whose ban, or its end, may not have been applied to all of their records. */
    async listUnappliedBans(limit: number): Promise<string[]> {
      const found = await raw()
        .find({ ban_applied: false }, { projection: { _id: 1 }, hint: BANS, limit })
        .toArray()
      return found.map(({ _id }) => _id)
    },
    /** Reads an agent's ban, or that it has none; undefined if there is no such agent. */
    async findBan(agentId: string): Promise<Ban | undefined> {
      return (await raw().findOne<Ban>({ _id: agentId }, { projection: BAN_FIELDS })) ?? undefined
    },
    /**
     * Stores that an agent's ban, or its end, was applied to all of its records. Does nothing if it was changed
     * since it was read.
     */
    async setBanApplied({ _id, banned_at: bannedAt, ban_changed: changed }: Ban): Promise<void> {
      const filter = { _id, banned_at: bannedAt ?? none, ban_changed: changed ?? none }
      const done = bannedAt === undefined ? {} : { $set: { ban_applied: true } }
      const settled = bannedAt === undefined ? { ban_applied: 1, ban_changed: 1 } : { ban_changed: 1 }
      await raw().updateOne(filter, { ...done, $unset: settled } as object)
    },
    /**
     * Hides or shows handle and profile.
     *
     * @returns false if the agent was in that state already, or doesn't exist
     */
    setHidden: createSetHidden(agents),
    /**
     * Replaces the agent's token, and stores the ledger entry and an event.
     *
     * @param expectedKey the token key that the agent must still have
     * @returns false if it has another one, or is banned; then nothing is stored
     */
    replaceToken(
      agentId: string,
      expectedKey: string,
      token: StoredToken,
      entry: PendingEntry,
    ): Promise<boolean> {
      const filter = { _id: agentId, token_key: expectedKey, banned_at: none }
      const tells = makeMark(agentId, 'key_changed', agentId, { key: 'token' })
      return records.change(filter, { $set: token, $push: { pending: entry, tells } })
    },
    /**
     * Sets the given fields and no others, in one update; null removes one.
     *
     * @param entries the ledger entry of each key that is changed
     * @param before the profile by which that was decided; if absent, it may be any
     * @returns the agent after the update; undefined if no agent has this id
     * @throws Overtaken if `before` is given and the agent has other keys by now
     */
    async updateProfile(
      agentId: string,
      fields: ProfileChange,
      entries: ReadonlyMap<KeyField, PendingEntry>,
      before?: Profile,
    ): Promise<AgentRecord | undefined> {
      const given = Object.entries(fields).map(([name, value]) => [`profile.${name}`, value] as const)
      if (given.length === 0) return findById(agentId)
      const [removed, set] = [
        given.filter(([, value]) => value === null),
        given.filter(([, value]) => value !== null),
      ]
      const tells = [...entries.keys()].map((key) => makeMark(agentId, 'key_changed', agentId, { key }))
      const update = {
        ...(set.length === 0 ? {} : { $set: Object.fromEntries(set) }),
        ...(removed.length === 0 ? {} : { $unset: Object.fromEntries(removed.map(([path]) => [path, 1])) }),
        ...pushing({ pending: [...entries.values()], tells }),
      }
      const keysAsRead =
        before === undefined
          ? {}
          : {
              'profile.dm_key': before.dm_key ?? none,
              'profile.author_key': before.author_key ?? none,
            }
      const after = await raw().findOneAndUpdate({ _id: agentId, ...keysAsRead }, update as object, {
        returnDocument: 'after',
      })
      if (after === null && before !== undefined)
        throw new Overtaken(`the keys of ${agentId} have changed since they were read`)
      return after ?? undefined
    },
    /** Sets the agent's witness key and stores the entry; does nothing if it is the present key. */
    async setWitnessKey(agentId: string, vkey: string, entry: PendingEntry): Promise<void> {
      await records.change(
        { _id: agentId, witness_vkey: { $ne: vkey } },
        { $set: { witness_vkey: vkey }, $push: { pending: entry } },
      )
    },
    /**
     * Sets the end of an agent's pass, and stores ledger entries.
     *
     * @param expectedMs where the pass must end now; undefined: the agent has had no pass
     * @throws Overtaken if it ends elsewhere
     */
    async movePassEnd(
      agentId: string,
      expectedMs: number | undefined,
      untilMs: number,
      entries: PendingEntry[],
      session?: Session,
    ): Promise<void> {
      const filter = { _id: agentId, pass_until_ms: expectedMs ?? none }
      const update = {
        $set: { pass_until_ms: untilMs },
        ...(entries.length === 0 ? {} : { $push: { pending: { $each: entries } } }),
      }
      if (!(await records.change(filter, update, session)))
        throw new Overtaken(`the pass of ${agentId} has changed since it was read`)
    },
    /**
     * Bans an agent or lifts its ban, stores the ledger entry, and that this is to be applied to its records.
     *
     * @param bannedAt Unix seconds; undefined lifts the ban
     * @param hides whether the ban hides everything that the agent wrote
     * @returns false if the agent was in that state already; then nothing is stored
     */
    setBanned(
      agentId: string,
      bannedAt: number | undefined,
      hides: boolean,
      entry: PendingEntry,
    ): Promise<boolean> {
      const filter = {
        _id: agentId,
        [hides ? 'ban_hides' : 'banned_at']: { $exists: bannedAt === undefined },
      }
      const change =
        bannedAt === undefined
          ? { $set: { ban_applied: false }, $unset: { banned_at: 1 as const, ban_hides: 1 as const } }
          : {
              $set: {
                banned_at: bannedAt,
                ban_applied: false,
                ...(hides ? { ban_hides: true as const } : {}),
              },
            }
      const update = { ...change, $currentDate: { ban_changed: true as const }, $push: { pending: entry } }
      return records.change(filter, update)
    },
    /** Counts one more paying agent that this agent referred, and stores an event about it. */
    async addPayingReferral(agentId: string, referredId: string, session: Session): Promise<void> {
      const tells = makeMark(agentId, 'referral', referredId, { state: 'paying' })
      await records.change({ _id: agentId }, { $inc: { 'referrals.paying': 1 }, $push: { tells } }, session)
    },
    /** Counts one more hand-out of messages to the agent, and returns its number: 1, 2, … */
    async countHandOut(agentId: string, session: Session): Promise<number> {
      const agent = await agents
        .findOneAndUpdate(
          { _id: agentId },
          { $inc: { handed_out: 1 } },
          { session, returnDocument: 'after', projection: { handed_out: 1 } },
        )
        .lean<Pick<AgentRecord, 'handed_out'>>()
      if (agent?.handed_out === undefined)
        throw new Error(`agent ${agentId} reads messages and does not exist`)
      return agent.handed_out
    },
    /**
     * Adds to the counts of claims by status and of verdicts by outcome.
     *
     * @param changes by agent id
     */
    async addToRecords(changes: ReadonlyMap<string, ClaimCounts>, session: Session): Promise<void> {
      const updates = [...changes].flatMap(([_id, { claims, verdicts }]) => {
        const change = { ...underPath('record.claims', claims), ...underPath('record.verdicts', verdicts) }
        return Object.keys(change).length === 0
          ? []
          : [{ updateOne: { filter: { _id }, update: { $inc: change as Record<string, never> } } }]
      })
      if (updates.length > 0) await raw().bulkWrite(updates, { session, ordered: false })
    },
    /**
     * Records the time of the agent's first payment, in Unix seconds.
     *
     * @returns false if there was one before; then nothing is stored
     */
    markFirstPayment: (agentId: string, at: number, session: Session): Promise<boolean> =>
      records.change({ _id: agentId, first_paid_at: none }, { $set: { first_paid_at: at } }, session),
  }
}

export type AgentStore = ReturnType<typeof createAgentStore>

/** Returns the changes with `path.` before their names; undefined ones are left out. */
function underPath(path: string, change: Partial<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(change).flatMap(([name, by]) => (by === undefined ? [] : [[`${path}.${name}`, by]])),
  )
}
