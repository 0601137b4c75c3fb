import type { Connection } from 'mongoose'
import { authorBannedField, BY_AUTHOR_INDEX, createSetAuthorBanned, LISTED } from '../agents/author-ban.ts'
import type { Past } from '../platform/list-per-agent.ts'
import type { Session } from '../platform/database.ts'
import { createIdBatchRead } from '../platform/group-commit.ts'
import { hiddenFields, createSetHidden } from '../ledger/hidden.ts'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import { pushing, indexMarks, tellsField } from '../events/mark.ts'
import { MAX_UNENDORSED_PROPOSALS, PARSED_AT_ONCE } from '../platform/limits.ts'
import type { Writes } from './claim-changes.ts'
import { claimFields, OUTCOMES, PROPOSAL, verdictFields } from './claim.ts'
import type { ClaimRecord, ClaimStatus, VerdictRecord } from './claim.ts'
import { maybe, only, schemaOf, some, type RecordOf } from '../platform/fields.ts'
import { pick } from '../platform/omit-undefined.ts'
import { rawOf, recordsOf } from '../platform/records.ts'

/**
 * Of a proposal: its `standing.true`, which is in no index itself. For an update within a transaction MongoDB 6.0 parses
 * the list of a collection's indexes twice for each index, unless no index has a field that changes.
 */
const endorsementsField = { endorsements: maybe.number }
type StoredClaim = ClaimRecord & RecordOf<typeof endorsementsField>

const claimSchema = schemaOf<StoredClaim>('claims', {
  ...claimFields,
  ...endorsementsField,
  ...hiddenFields,
  ...authorBannedField,
  ...tellsField,
  ...pendingField,
})
claimSchema.index({ agent_id: 1, _id: -1 })
// The lists: all, of a status, of a kind, of an agent, and of an agent and a status.
const ALL_LISTED = { author_banned: 1, _id: -1 } as const
claimSchema.index(ALL_LISTED)
claimSchema.index({ status: 1, ...ALL_LISTED })
claimSchema.index({ kind: 1, ...ALL_LISTED })
claimSchema.index(BY_AUTHOR_INDEX)
claimSchema.index({ agent_id: 1, status: 1, ...ALL_LISTED })
const COMING_OVERDUE = { status: 'open', resolve_by: some } as const
claimSchema.index({ resolve_by: 1 }, only(COMING_OVERDUE, 'coming_overdue'))
claimSchema.index({ agent_id: 1, resolve_by: 1 }, only(COMING_OVERDUE, 'coming_overdue_by_agent'))
const PROPOSALS = { kind: PROPOSAL }
claimSchema.index(
  { author_banned: 1, endorsements: -1, _id: -1 },
  only(PROPOSALS, 'proposals_by_endorsements'),
)
claimSchema.index({ agent_id: 1, endorsements: 1 }, only(PROPOSALS, 'endorsements_by_agent'))
indexMarks(claimSchema)
claimSchema.index(...PENDING_INDEX)

const verdictSchema = schemaOf<VerdictRecord>('verdicts', {
  ...verdictFields,
  ...tellsField,
  ...pendingField,
})
verdictSchema.index({ claim_id: 1, agent_id: 1 }, only({ superseded: false }, 'one_standing_verdict', true))
verdictSchema.index({ claim_id: 1, _id: -1 })
verdictSchema.index({ agent_id: 1, _id: -1 })
indexMarks(verdictSchema)
verdictSchema.index(...PENDING_INDEX)

export interface ClaimFilter {
  agentId?: string | undefined
  kind?: string | undefined
  status?: ClaimStatus | undefined
}

/** The writes of a group of claims and verdicts, with the verdicts' entries. */
export type ClaimWrites = Pick<Writes, 'claims' | 'supersededIds' | 'moved'> & { verdicts: VerdictRecord[] }

export function createClaimStore(connection: Connection) {
  const claims = connection.model<StoredClaim>('Claim', claimSchema)
  const verdicts = connection.model<VerdictRecord>('Verdict', verdictSchema)
  // The most frequent reads and writes go past mongoose's documents.
  const raw = () => rawOf<StoredClaim>(claims)
  const rawVerdicts = () => rawOf<VerdictRecord>(verdicts)
  const findById = createIdBatchRead(raw)
  return {
    models: { claims, verdicts },
    /** Reads a claim, hidden or not; undefined if there is none with this id. */
    find: (claimId: string, session?: Session): Promise<ClaimRecord | undefined> =>
      session === undefined ? findById(claimId) : recordsOf(claims).one({ _id: claimId }, { session }),
    /**
     * Reads the claims that these verdicts are on, of any status, without `pending` and `tells`; one that
     * doesn't exist is left out.
     */
    findByVerdicts: (
      newVerdicts: readonly Pick<VerdictRecord, 'claim_id'>[],
      session: Session,
    ): Promise<ClaimRecord[]> =>
      raw()
        .find(
          { _id: { $in: [...new Set(newVerdicts.map(({ claim_id: id }) => id))] } },
          { ...SHOWN, batchSize: newVerdicts.length + 1, session },
        )
        .toArray(),
    /** Reads the verdicts of these agents on these claims that stand. */
    async findStandingVerdicts(
      pairs: readonly Pick<VerdictRecord, 'claim_id' | 'agent_id'>[],
      session: Session,
    ): Promise<VerdictRecord[]> {
      const byClaim = Map.groupBy(pairs, ({ claim_id: id }) => id)
      const onClaims = [...byClaim].map(([claimId, ofClaim]) => ({
        claim_id: claimId,
        agent_id: { $in: ofClaim.map(({ agent_id: id }) => id) },
        superseded: false,
      }))
      const options = { hint: 'one_standing_verdict', batchSize: pairs.length + 1, session }
      const projection = { claim_id: 1, agent_id: 1, outcome: 1 }
      return rawVerdicts()
        .find({ $or: onClaims }, { ...options, projection })
        .toArray()
    },
    /**
     * Stores changes in the session's transaction, in which all that they rest on was read: inserts claims and
     * verdicts, marks verdicts as superseded, and sets the status and counts of claims that have moved.
     */
    async write({ claims, verdicts, supersededIds, moved }: ClaimWrites, session: Session): Promise<void> {
      if (claims.length > 0) await raw().insertMany(claims.map(withEndorsements), { session })
      // Before the insert: the unique index allows an agent one standing verdict on a claim.
      if (supersededIds.length > 0)
        await rawVerdicts().updateMany(
          { _id: { $in: supersededIds } },
          { $set: { superseded: true } },
          { session },
        )
      if (verdicts.length > 0) await rawVerdicts().insertMany(verdicts, { session })
      const updates = moved.map(({ after, entries = [], tells = [] }) => ({
        updateOne: {
          filter: { _id: after._id },
          update: { $set: movedFields(after), ...pushing({ pending: entries, tells }) },
        },
      }))
      if (updates.length > 0) await raw().bulkWrite(updates, { session })
    },
    /**
     * Counts for each agent its proposals that are neither endorsed nor accepted, up to
     * MAX_UNENDORSED_PROPOSALS + 1.
     *
     * @returns the numbers by agent id
     */
    async countUnendorsed(agentIds: readonly string[], session: Session): Promise<Map<string, number>> {
      const counts = new Map<string, number>()
      for (const agentId of agentIds) {
        const unendorsed = {
          kind: PROPOSAL,
          agent_id: agentId,
          endorsements: 0,
          status: { $ne: 'accepted' as const },
        }
        const options = {
          hint: 'endorsements_by_agent',
          limit: MAX_UNENDORSED_PROPOSALS + 1,
          session,
        }
        counts.set(agentId, await raw().countDocuments(unendorsed, options))
      }
      return counts
    },
    /** Hides a claim or shows it again. @returns false if it was in that state already, or doesn't exist */
    setHidden: createSetHidden(claims),
    setAuthorBanned: createSetAuthorBanned(claims),
    /**
     * Lists claims that are neither hidden nor by a banned agent, newest first.
     *
     * @param filter its `status` is that at `nowSeconds`
     * @param past lists claims after a record, without some authors
     */
    async list(
      filter: ClaimFilter,
      nowSeconds: number,
      limit: number,
      past?: Past<ClaimRecord>,
    ): Promise<ClaimRecord[]> {
      const byAgent = filter.agentId === undefined ? {} : { agent_id: filter.agentId }
      const below = past === undefined ? {} : { _id: { $lt: past.after._id }, ...notBy(past) }
      const byKind = filter.kind === undefined ? {} : { kind: filter.kind }
      const query = { $and: [LISTED, below, byAgent, byKind, statusFilter(filter.status, nowSeconds)] }
      const isFiltered = [filter.agentId, filter.kind, filter.status].some((value) => value !== undefined)
      const options = isFiltered ? SHOWN : { ...SHOWN, hint: ALL_LISTED }
      return raw().find(query, options).sort({ _id: -1 }).limit(limit).batchSize(PARSED_AT_ONCE).toArray()
    },
    /**
     * Lists proposals that are neither hidden nor by a banned agent, by descending number of endorsements,
     * newest first among equals.
     *
     * @param after lists proposals that stand below this one
     */
    async listProposals(limit: number, after?: ClaimRecord): Promise<ClaimRecord[]> {
      const later =
        after === undefined
          ? {}
          : {
              $or: [
                { endorsements: { $lt: after.standing.true } },
                { endorsements: after.standing.true, _id: { $lt: after._id } },
              ],
            }
      return claims
        .find({ kind: PROPOSAL, ...LISTED, ...later }, { pending: 0 })
        .sort({ endorsements: -1, _id: -1 })
        .limit(limit)
        .batchSize(PARSED_AT_ONCE)
        .hint('proposals_by_endorsements')
        .lean<ClaimRecord[]>()
    },
    /** Lists claims that are stored as open and whose `resolve_by` has passed, the longest overdue first. */
    async listComingOverdue(nowSeconds: number, limit: number): Promise<ClaimRecord[]> {
      return claims
        .find(comingOverdue(nowSeconds))
        .sort({ resolve_by: 1 })
        .limit(limit)
        .hint('coming_overdue')
        .lean<ClaimRecord[]>()
    },
    /** Lists an agent's claims, hidden ones too, newest first; with `before`, those with a smaller id. */
    async listByAgent(agentId: string, before: string | undefined, limit: number): Promise<ClaimRecord[]> {
      const filter = { agent_id: agentId, ...(before === undefined ? {} : { _id: { $lt: before } }) }
      return raw().find(filter, SHOWN).sort({ _id: -1 }).limit(limit).batchSize(PARSED_AT_ONCE).toArray()
    },
    /** Lists the verdicts on a claim or by an agent, newest first; with `before`, those with a smaller id. */
    async listVerdicts(
      onClaimOrByAgent: Pick<VerdictRecord, 'claim_id'> | Pick<VerdictRecord, 'agent_id'>,
      before: string | undefined,
      limit: number,
    ): Promise<VerdictRecord[]> {
      const filter = { ...onClaimOrByAgent, ...(before === undefined ? {} : { _id: { $lt: before } }) }
      return rawVerdicts()
        .find(filter, SHOWN)
        .sort({ _id: -1 })
        .limit(limit)
        .batchSize(PARSED_AT_ONCE)
        .toArray()
    },
  }
}

export type ClaimStore = ReturnType<typeof createClaimStore>

/**
 * Makes proposals say how many endorsements they have, for schema 4, and later those that a process of an older version
 * made or endorsed during the upgrade. It may be run again.
 */
export async function storeEndorsements(connection: Connection): Promise<void> {
  const differs = { ...PROPOSALS, $expr: { $ne: ['$endorsements', '$standing.true'] } }
  await connection.collection('claims').updateMany(differs, [{ $set: { endorsements: '$standing.true' } }])
}

/** Returns a filter for claims by agents other than those of `past.notBy`. */
const notBy = (past: Past<ClaimRecord>) =>
  past.notBy.length === 0 ? {} : { agent_id: { $nin: [...past.notBy] } }

const SHOWN = { projection: { pending: 0, tells: 0 } } as const

/** Returns a filter for claims whose `resolve_by` has passed and whose stored status is still `open`. */
export const comingOverdue = (nowSeconds: number) => ({
  status: 'open' as const,
  resolve_by: { $lte: nowSeconds },
})

const withEndorsements = (claim: ClaimRecord): StoredClaim =>
  claim.kind === PROPOSAL ? { ...claim, endorsements: claim.standing.true } : claim

/** The fields that a move may change. One that it leaves as it is isn't written, nor are its indexes. */
function movedFields(after: ClaimRecord) {
  const { standing, ...others } = pick(
    withEndorsements(after),
    'status',
    'standing',
    'accepted_at',
    'endorsements',
  )
  return { ...others, ...Object.fromEntries(OUTCOMES.map((one) => [`standing.${one}`, standing[one]])) }
}

/**
 * Returns a filter for claims of a status at a time; undefined: of any. An open claim whose time has passed
 * is `overdue` even if the sweep hasn't changed its stored status yet.
 */
function statusFilter(status: ClaimStatus | undefined, nowSeconds: number): Record<string, unknown> {
  if (status === undefined) return {}
  if (status === 'overdue') return { $or: [{ status: 'overdue' }, comingOverdue(nowSeconds)] }
  if (status === 'open')
    return { status: 'open', $or: [{ resolve_by: { $exists: false } }, { resolve_by: { $gt: nowSeconds } }] }
  return { status }
}
