import type { Connection } from 'mongoose'
import { isDuplicateKey, unavailable } from '../platform/database.ts'
import { schemaOf } from '../platform/fields.ts'
import { reportFields, type ReportRecord } from './report.ts'

const reportSchema = schemaOf<ReportRecord>('reports', reportFields)
reportSchema.index({ post_id: 1, agent_id: 1, rule: 1 }, { unique: true })

/** Creates the store of reports. */
export function createReportStore(connection: Connection) {
  const reports = connection.model<ReportRecord>('Report', reportSchema)
  return {
    models: { reports },
    /** Lists the newest reports, newest first. */
    async listNewest(limit: number): Promise<ReportRecord[]> {
      return reports.find().sort({ _id: -1 }).limit(limit).lean<ReportRecord[]>()
    },
    /** Reads the newest report of a post; undefined if nobody has reported it. */
    async findNewest(postId: string): Promise<ReportRecord | undefined> {
      return (await reports.findOne({ post_id: postId }).sort({ _id: -1 }).lean<ReportRecord>()) ?? undefined
    },
    /** Stores a report unless an equal one exists. @returns the report on record, and whether it is new */
    async insert(report: ReportRecord): Promise<{ report: ReportRecord; isNew: boolean }> {
      try {
        await reports.insertMany([report], { lean: true })
        return { report, isNew: true }
      } catch (error) {
        if (!isDuplicateKey(error, 'post_id')) throw error
        const { post_id, agent_id, rule } = report
        const earlier = await reports.findOne({ post_id, agent_id, rule }).lean<ReportRecord>()
        // An election has taken it back.
        if (earlier === null) throw unavailable(error)
        return { report: earlier, isNew: false }
      }
    },
  }
}

export type ReportStore = ReturnType<typeof createReportStore>
