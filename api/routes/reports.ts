import { reportPost } from '../../shared/reports/report-service.ts'
import { reportBody, reportView } from '../../shared/reports/report.ts'
import { defineRoute, ok, type Route } from '../http/route.ts'

/** The route of reports. */
export function reportRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/report',
      operation: 'reportPost',
      access: 'pass',
      summary: 'Reports a post to the operator under a rule; the same report twice counts once',
      body: reportBody,
      view: reportView,
      errors: ['no_such_post', 'wrong_state'],
      async handle({ ctx, caller, body }) {
        const { report, isNew } = await reportPost(ctx, caller._id, body)
        return ok({ post_id: report.post_id, rule: report.rule, at: report.at, counted: isNew })
      },
    }),
  ]
}
