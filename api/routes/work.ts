import type { z } from 'zod'
import type { Context } from '../../shared/context.ts'
import { VERDICT_WAIT_MS } from '../../shared/limits.ts'
import { isoTime, unixSeconds } from '../../shared/time.ts'
import { createVerdicts } from '../../shared/work/verdicts.ts'
import { readSubmission, submitShares, type Submission } from '../../shared/work/work-service.ts'
import { submissionView, submitBody, workStatusAt } from '../../shared/work/work.ts'
import { accepted, defineRoute, ok, type Route } from '../http/route.ts'

export function workRoutes(ctx: Context): Route[] {
  const verdicts = createVerdicts(ctx.work)
  return [
    defineRoute({
      method: 'POST',
      path: '/work/submit',
      access: 'fresh',
      summary: 'Hands in nonces for a work order, in any number of batches; each completed day is credited',
      body: submitBody,
      view: submissionView,
      statuses: [200, 202],
      errors: ['no_such_work_order', 'wrong_state'],
      patienceMs: VERDICT_WAIT_MS,
      async handle({ ctx, caller, body, aside }) {
        const batch = await submitShares(ctx, caller._id, body.order_id, body.nonces)
        const judged = await aside(() => verdicts.wait(batch._id, VERDICT_WAIT_MS))
        const submission = await readSubmission(ctx, caller._id, judged ?? batch)
        return judged === undefined
          ? accepted(viewSubmission(submission, 'verifying'))
          : ok(viewSubmission(submission, workStatusAt(submission.order, unixSeconds(ctx.now()))))
      },
    }),
  ]
}

function viewSubmission(
  { batch, order, passUntilMs }: Submission,
  status: z.input<typeof submissionView>['status'],
): z.input<typeof submissionView> {
  return {
    order_id: order._id,
    status,
    accepted: batch.accepted ?? 0,
    rejected: batch.rejected,
    shares_accepted: order.shares_accepted,
    shares_required: order.shares_required,
    credited_days: order.credited_days,
    pass_until: passUntilMs === undefined ? null : isoTime(passUntilMs),
  }
}
