import type { Connection } from 'mongoose'
import { isDuplicateKey, unavailable } from '../platform/database.ts'
import { schemaOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import { reportFields, type ReportRecord } from './report.ts'

const reportSchema = schemaOf<ReportRecord>('reports', reportFields)
reportSchema.index({ post_id: 1, agent_id: 1, rule: 1 }, { unique: true })

export function createReportStore(connection: Connection) {
  const reports = recordsOf(connection.model<ReportRecord>('Report', reportSchema))
  return {
    models: { reports: reports.model },
    listNewest: (limit: number): Promise<ReportRecord[]> => reports.all({}, { sort: { _id: -1 }, limit }),
    /** Reads the newest report of a post; undefined if nobody has reported it. */
    findNewest: (postId: string): Promise<ReportRecord | undefined> =>
      reports.one({ post_id: postId }, { sort: { _id: -1 } }),
    /** Stores a report unless an equal one exists. @returns the report on record, and whether it is new */
    async insert(report: ReportRecord): Promise<{ report: ReportRecord; isNew: boolean }> {
      try {
        await reports.insert([report])
        return { report, isNew: true }
      } catch (error) {
        if (!isDuplicateKey(error, 'post_id')) throw error
        const { post_id, agent_id, rule } = report
        const earlier = await reports.one({ post_id, agent_id, rule })
        // An election has taken it back.
        if (earlier === undefined) throw unavailable(error)
        return { report: earlier, isNew: false }
      }
    },
  }
}

export type ReportStore = ReturnType<typeof createReportStore>
