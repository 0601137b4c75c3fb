import { spendAllowance } from '../agents/allowance-service.ts'
import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import { unixSeconds } from '../platform/time.ts'
import type { ReportRecord, RuleId } from './report.ts'

type ReportContext = Pick<Context, 'agents' | 'posts' | 'reports' | 'now'>

/**
 * Records a report, once for each agent, post and rule.
 *
 * @returns the report on record, and whether it is new
 * @throws Refusal `no_such_post`; `wrong_state` if the agent has used up today's allowance
 */
export async function reportPost(
  ctx: ReportContext,
  agentId: string,
  fields: { post_id: string; rule: RuleId },
): Promise<{ report: ReportRecord; isNew: boolean }> {
  if ((await ctx.posts.find(fields.post_id)) === undefined)
    throw new Refusal('no_such_post', 'There is no post with this id.', { field: 'post_id' })
  await spendAllowance(ctx, agentId, 'changes')
  return ctx.reports.insert({
    _id: newId('report'),
    agent_id: agentId,
    post_id: fields.post_id,
    rule: fields.rule,
    at: unixSeconds(ctx.now()),
  })
}
