import { Schema, type Connection, type Model } from 'mongoose'
import type { Session } from '../database.ts'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import { PROPOSAL, type ClaimRecord, type ClaimStatus, type Standing, type VerdictRecord } from './claim.ts'

const standingSchema = new Schema<Standing>(
  { true: { type: Number, required: true }, false: { type: Number, required: true }, void: { type: Number, required: true } },
  { _id: false },
)

const claimSchema = new Schema<ClaimRecord>(
  {
    _id: { type: String, required: true },
    agent_id: { type: String, required: true },
    at: { type: Number, required: true },
    statement: { type: String, required: true },
    kind: { type: String, required: true },
    resolve_by: Number,
    salt: { type: String, required: true },
    status: { type: String, required: true },
    standing: { type: standingSchema, required: true },
    accepted_at: Number,
    ...pendingField,
  },
  { collection: 'claims', strict: 'throw', versionKey: false },
)
claimSchema.index({ agent_id: 1, _id: -1 })
claimSchema.index({ status: 1, _id: -1 })
claimSchema.index({ agent_id: 1, status: 1, _id: -1 })
claimSchema.index({ resolve_by: 1 }, { name: 'coming_overdue', partialFilterExpression: { status: 'open', resolve_by: { $exists: true } } })
claimSchema.index(
  { agent_id: 1, resolve_by: 1 },
  { name: 'coming_overdue_by_agent', partialFilterExpression: { status: 'open', resolve_by: { $exists: true } } },
)
claimSchema.index({ 'standing.true': -1, _id: 1 }, { name: 'proposals_by_endorsement', partialFilterExpression: { kind: PROPOSAL } })
claimSchema.index(...PENDING_INDEX)

const verdictSchema = new Schema<VerdictRecord>(
  {
    _id: { type: String, required: true },
    claim_id: { type: String, required: true },
    agent_id: { type: String, required: true },
    at: { type: Number, required: true },
    outcome: { type: String, required: true },
    evidence: String,
    salt: { type: String, required: true },
    by_author: { type: Boolean, required: true },
    superseded: { type: Boolean, required: true },
    ...pendingField,
  },
  { collection: 'verdicts', strict: 'throw', versionKey: false },
)
verdictSchema.index(
  { claim_id: 1, agent_id: 1 },
  { unique: true, name: 'one_standing_verdict', partialFilterExpression: { superseded: false } },
)
verdictSchema.index({ claim_id: 1, _id: -1 })
verdictSchema.index(...PENDING_INDEX)

export interface ClaimFilter {
  agentId?: string | undefined
  status?: ClaimStatus | undefined
}

export interface ClaimStore {
  insert(claim: ClaimRecord, session: Session): Promise<void>
  find(claimId: string, session?: Session): Promise<ClaimRecord | undefined>
  /** Newest first; `status` is judged as of `nowSeconds`. */
  list(filter: ClaimFilter, nowSeconds: number, limit: number): Promise<ClaimRecord[]>
  /** Proposals by endorsements, oldest first among equals. */
  listProposals(limit: number): Promise<ClaimRecord[]>
  /** @returns false where the claim no longer has the status and counts that `before` has */
  moveStatus(
    before: ClaimRecord,
    status: ClaimStatus,
    standing: Standing,
    session: Session,
    accepted?: { at: number; entries: PendingEntry[] },
  ): Promise<boolean>
  /** Open claims whose time passed, the longest overdue first. */
  listComingOverdue(nowSeconds: number, limit: number): Promise<ClaimRecord[]>
  /** Of one agent, those that the sweep has not moved on yet. */
  countComingOverdue(agentId: string, nowSeconds: number): Promise<number>
  findStandingVerdict(claimId: string, agentId: string, session: Session): Promise<VerdictRecord | undefined>
  supersede(verdictId: string, session: Session): Promise<void>
  insertVerdict(verdict: VerdictRecord, session: Session): Promise<void>
  /** Newest first; with `before`, those with a smaller id. */
  listVerdicts(claimId: string, before: string | undefined, limit: number): Promise<VerdictRecord[]>
  readonly models: { claims: Model<ClaimRecord>; verdicts: Model<VerdictRecord> }
}

export function createClaimStore(connection: Connection): ClaimStore {
  const claims = connection.model<ClaimRecord>('Claim', claimSchema)
  const verdicts = connection.model<VerdictRecord>('Verdict', verdictSchema)
  return {
    models: { claims, verdicts },
    async insert(claim, session) {
      await claims.insertMany([claim], { session, lean: true })
    },
    async find(claimId, session) {
      return (await claims.findOne({ _id: claimId }, null, session === undefined ? {} : { session }).lean<ClaimRecord>()) ?? undefined
    },
    async list(filter, nowSeconds, limit) {
      const byAgent = filter.agentId === undefined ? {} : { agent_id: filter.agentId }
      const query = { ...byAgent, ...statusFilter(filter.status, nowSeconds) }
      return claims.find(query, { pending: 0 }).sort({ _id: -1 }).limit(limit).lean<ClaimRecord[]>()
    },
    async listProposals(limit) {
      return claims
        .find({ kind: PROPOSAL }, { pending: 0 })
        .sort({ 'standing.true': -1, _id: 1 })
        .limit(limit)
        .hint('proposals_by_endorsement')
        .lean<ClaimRecord[]>()
    },
    async moveStatus(before, status, standing, session, accepted) {
      const filter = {
        _id: before._id,
        status: before.status,
        'standing.true': before.standing.true,
        'standing.false': before.standing.false,
        'standing.void': before.standing.void,
      }
      const acceptance = accepted === undefined ? {} : { accepted_at: accepted.at }
      const update = {
        $set: { status, standing, ...acceptance },
        ...(accepted === undefined ? {} : { $push: { pending: { $each: accepted.entries } } }),
      }
      return (await claims.updateOne(filter, update, { session })).matchedCount === 1
    },
    async listComingOverdue(nowSeconds, limit) {
      return claims
        .find({ status: 'open', resolve_by: { $lte: nowSeconds } })
        .sort({ resolve_by: 1 })
        .limit(limit)
        .hint('coming_overdue')
        .lean<ClaimRecord[]>()
    },
    async countComingOverdue(agentId, nowSeconds) {
      return claims.countDocuments({ agent_id: agentId, status: 'open', resolve_by: { $lte: nowSeconds } }).hint('coming_overdue_by_agent')
    },
    async findStandingVerdict(claimId, agentId, session) {
      return (
        (await verdicts.findOne({ claim_id: claimId, agent_id: agentId, superseded: false }, null, { session }).lean<VerdictRecord>()) ??
        undefined
      )
    },
    async supersede(verdictId, session) {
      await verdicts.updateOne({ _id: verdictId }, { $set: { superseded: true } }, { session })
    },
    async insertVerdict(verdict, session) {
      await verdicts.insertMany([verdict], { session, lean: true })
    },
    async listVerdicts(claimId, before, limit) {
      const filter = { claim_id: claimId, ...(before === undefined ? {} : { _id: { $lt: before } }) }
      return verdicts.find(filter, { pending: 0 }).sort({ _id: -1 }).limit(limit).lean<VerdictRecord[]>()
    },
  }
}

/** `overdue` is right at read time: an open claim whose time has passed counts although the sweep has not moved it yet. */
function statusFilter(status: ClaimStatus | undefined, nowSeconds: number): Record<string, unknown> {
  if (status === undefined) return {}
  if (status === 'overdue') return { $or: [{ status: 'overdue' }, { status: 'open', resolve_by: { $lte: nowSeconds } }] }
  if (status === 'open') return { status: 'open', $or: [{ resolve_by: { $exists: false } }, { resolve_by: { $gt: nowSeconds } }] }
  return { status }
}
