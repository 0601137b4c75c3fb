import type { z } from 'zod'
import { RESULT_WAIT_MS } from '../../shared/platform/limits.ts'
import { isoTime, unixSeconds } from '../../shared/platform/time.ts'
import {
  readSubmission,
  submitShares,
  waitUntilVerified,
  type Submission,
} from '../../shared/passes/work-service.ts'
import { submissionView, submitBody, workStatusAt } from '../../shared/passes/work.ts'
import { accepted, defineRoute, ok, type Route } from '../http/route.ts'

/** The route that takes nonces for work orders. */
export function workRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/work/submit',
      operation: 'submitWork',
      access: 'fresh',
      summary: 'Hands in nonces for a work order, in any number of batches; each completed day is credited',
      body: submitBody,
      view: submissionView,
      statuses: [200, 202],
      errors: ['no_such_work_order', 'wrong_state', 'insufficient_work', 'try_later'],
      patienceMs: RESULT_WAIT_MS,
      async handle({ ctx, caller, body }) {
        const submitted = await submitShares(ctx, caller._id, body.order_id, body.nonces)
        const { batchId } = submitted
        const verified =
          batchId === undefined ? undefined : await waitUntilVerified(ctx, batchId, RESULT_WAIT_MS)
        const submission = await readSubmission(ctx, caller._id, submitted, verified)
        if (batchId !== undefined && verified === undefined)
          return accepted(viewSubmission(submission, 'verifying'))
        const status = workStatusAt(submission.order, unixSeconds(ctx.database.now()))
        return ok(viewSubmission(submission, status))
      },
    }),
  ]
}

/** Returns the result of a submission as answers show it. */
function viewSubmission(
  { order, accepted, rejected, passUntilMs }: Submission,
  status: z.input<typeof submissionView>['status'],
): z.input<typeof submissionView> {
  return {
    order_id: order._id,
    status,
    accepted,
    rejected: [...rejected],
    shares_accepted: order.shares_accepted,
    shares_required: order.shares_required,
    credited_days: order.credited_days,
    pass_until: passUntilMs === undefined ? null : isoTime(passUntilMs),
  }
}
