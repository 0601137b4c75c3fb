import { Schema, type Connection, type Model } from 'mongoose'
import { isDuplicateKey } from '../database.ts'
import type { ReportRecord } from './report.ts'

const string = { type: String, required: true } as const

const reportSchema = new Schema<ReportRecord>(
  { _id: string, agent_id: string, post_id: string, rule: string, at: { type: Number, required: true } },
  { collection: 'reports', strict: 'throw', versionKey: false },
)
reportSchema.index({ post_id: 1, agent_id: 1, rule: 1 }, { unique: true })

export interface ReportStore {
  /** @returns the report on record, and whether it is this one */
  insert(report: ReportRecord): Promise<{ report: ReportRecord; isNew: boolean }>
  /** Newest first. */
  listNewest(limit: number): Promise<ReportRecord[]>
  /** The last report of a post. */
  findNewest(postId: string): Promise<ReportRecord | undefined>
  readonly models: { reports: Model<ReportRecord> }
}

export function createReportStore(connection: Connection): ReportStore {
  const reports = connection.model<ReportRecord>('Report', reportSchema)
  return {
    models: { reports },
    async listNewest(limit) {
      return reports.find().sort({ _id: -1 }).limit(limit).lean<ReportRecord[]>()
    },
    async findNewest(postId) {
      return (await reports.findOne({ post_id: postId }).sort({ _id: -1 }).lean<ReportRecord>()) ?? undefined
    },
    async insert(report) {
      try {
        await reports.insertMany([report], { lean: true })
        return { report, isNew: true }
      } catch (error) {
        if (!isDuplicateKey(error, 'post_id')) throw error
        const { post_id, agent_id, rule } = report
        const earlier = await reports.findOne({ post_id, agent_id, rule }).lean<ReportRecord>()
        if (earlier === null) throw error
        return { report: earlier, isNew: false }
      }
    },
  }
}
