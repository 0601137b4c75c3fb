import type { Context } from '../context.ts'
import type { JsonValue } from '../crypto/canonical-json.ts'
import type { Session } from '../database.ts'
import { Refusal } from '../errors.ts'
import { newStepId } from '../ids.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { isoTime, unixSeconds } from '../time.ts'
import { orderWork } from '../work/work-order.ts'
import type { WorkOrderRecord } from '../work/work.ts'
import { addFreeDays, addPaidDays, isFreePeriod, type Currency } from './pass.ts'

/**
 * Buys days with a currency: credited directly in the free period with any valid currency, configured or not; else what
 * has to be paid.
 *
 * @throws Refusal `currency_not_configured`
 */
export async function buyDays(
  ctx: Context,
  agentId: string,
  currency: Currency,
  days: number,
): Promise<{ creditedDays: number; passUntilMs: number } | { order: WorkOrderRecord }> {
  const { freeUntilMs } = ctx.config
  if (freeUntilMs !== undefined && isFreePeriod(freeUntilMs, ctx.now())) return creditFreeDays(ctx, agentId, days, freeUntilMs)
  if (currency === 'pow') return { order: await orderWork(ctx, agentId, days) }
  throw new Refusal('currency_not_configured', `The operator has not set ${currency} up; GET /api/v1/currencies says what is ready.`, {
    field: 'currency',
  })
}

/**
 * Credits free days to an agent. One conditional update on the agent carries the ledger entry; a concurrent credit
 * makes it miss, and then the rule is applied to what is there now, so every one of them counts.
 *
 * @throws Refusal `no_such_agent`
 */
export async function creditFreeDays(
  ctx: Context,
  agentId: string,
  days: number,
  freeUntilMs: number,
): Promise<{ creditedDays: number; passUntilMs: number }> {
  for (;;) {
    const agent = await ctx.agents.find(agentId)
    if (agent === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
    const nowMs = ctx.now()
    const { untilMs, creditedDays } = addFreeDays(agent.pass_until_ms, nowMs, days, freeUntilMs)
    if (untilMs === agent.pass_until_ms) return { creditedDays: 0, passUntilMs: untilMs }
    const entry = {
      source: `${agentId}/pass/${newStepId()}`,
      at: unixSeconds(nowMs),
      kind: 'pass_credit' as const,
      data: { agent_id: agentId, means: 'free', days: creditedDays, pass_until: isoTime(untilMs) },
    }
    if (await ctx.agents.movePassEnd(agentId, agent.pass_until_ms, untilMs, [entry])) return { creditedDays, passUntilMs: untilMs }
  }
}

/**
 * Credits days that were paid for, inside the payer's transaction: the pass, the first payment and the referrer's count
 * move together. The caller stores the entry with the record that was paid, whose own conditional update makes this
 * happen once.
 */
export async function creditPaidDays(
  ctx: Context,
  agentId: string,
  days: number,
  credit: { source: string; means: 'coin' | 'work'; record: { readonly [key: string]: JsonValue } },
  session: Session,
): Promise<PendingEntry> {
  const agent = await ctx.agents.find(agentId, session)
  if (agent === undefined) throw new Error(`agent ${agentId} is paid for and does not exist`)
  const nowMs = ctx.now()
  const at = unixSeconds(nowMs)
  const untilMs = addPaidDays(agent.pass_until_ms, nowMs, days)
  if (!(await ctx.agents.movePassEnd(agentId, agent.pass_until_ms, untilMs, [], session)))
    throw new Error(`agent ${agentId} changed inside its own transaction`)
  if (await ctx.agents.markPaid(agentId, at, session)) {
    if (agent.ref !== undefined) await ctx.agents.countPayingReferral(agent.ref, session)
  }
  return {
    source: credit.source,
    at,
    kind: 'pass_credit',
    data: { agent_id: agentId, means: credit.means, ...credit.record, days, pass_until: isoTime(untilMs) },
  }
}
