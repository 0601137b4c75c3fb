import { orNoSuchAgent, type AgentRecord } from '../agents/agent.ts'
import type { Context } from '../context.ts'
import type { JsonValue } from '../crypto/canonical-json.ts'
import { change } from '../platform/change.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newStepId } from '../platform/ids.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { isoTime, unixSeconds } from '../platform/time.ts'
import { endAfterFreeDays, endAfterPaidDays, endAfterTakenBackDays } from './pass.ts'

type PassContext = Pick<Context, 'database' | 'agents'>

/**
 * Credits free days to an agent's pass, up to the end of the free period. The new end is stored with its ledger
 * entry in one write.
 *
 * @param freeUntilMs end of the free period, in milliseconds since the epoch
 * @returns whole days added, which may be 0, and the pass's end in milliseconds since the epoch
 * @throws Refusal `no_such_agent`; `unavailable` if the database's time is unknown
 */
export function creditFreeDays(ctx: PassContext, agentId: string, days: number, freeUntilMs: number) {
  const credit = { source: `${agentId}/pass/${newStepId()}`, means: 'free', record: {} } as const
  return change({
    now: () => ctx.database.now(),
    read: async () => orNoSuchAgent(await ctx.agents.find(agentId)),
    decide(agent, nowMs) {
      const { untilMs, creditedDays } = endAfterFreeDays(agent.pass_until_ms, nowMs, days, freeUntilMs)
      return { untilMs, creditedDays, entry: creditEntry(agentId, credit, creditedDays, nowMs, untilMs) }
    },
    async store({ untilMs, creditedDays, entry }, { pass_until_ms: before }) {
      if (untilMs !== before) await ctx.agents.movePassEnd(agentId, before, untilMs, [entry])
      return { creditedDays, passUntilMs: untilMs }
    },
  })
}

/** The part of a credit's ledger entry that the caller determines. */
export interface Credit {
  /** Unique for ever; names the entry. */
  source: string
  means: 'free' | 'coin' | 'work' | 'proposal'
  /** The ids of the records that the days were earned by. */
  record: { readonly [key: string]: JsonValue }
}

/**
 * Makes the ledger entry of a credit.
 *
 * @param days may be negative
 * @param nowMs when it is credited
 * @param untilMs the pass's end afterwards
 */
function creditEntry(
  agentId: string,
  { source, means, record }: Credit,
  days: number,
  nowMs: number,
  untilMs: number,
): PendingEntry {
  const data = { agent_id: agentId, means, ...record, days, pass_until: isoTime(untilMs) }
  return { source, at: unixSeconds(nowMs), kind: 'pass_credit', data }
}

/**
 * Adds whole days to a pass, inside the transaction of the record that earned them; that record's own
 * conditional update makes this happen once.
 *
 * @param agent as this transaction has read it
 * @returns the ledger entry, which the caller stores with that record
 * @throws Overtaken if the pass has changed since; Refusal `unavailable` if the database's time is unknown
 */
export async function creditDays(
  ctx: PassContext,
  agent: AgentRecord,
  days: number,
  credit: Credit,
  session: Session,
): Promise<PendingEntry> {
  const nowMs = ctx.database.now()
  const untilMs = endAfterPaidDays(agent.pass_until_ms, nowMs, days)
  await ctx.agents.movePassEnd(agent._id, agent.pass_until_ms, untilMs, [], session)
  return creditEntry(agent._id, credit, days, nowMs, untilMs)
}

/**
 * Shortens a pass by days that were credited for a payment that turned out not to exist. A referral that the
 * payment counted stays counted.
 *
 * @param days whole days, above 0
 * @returns the ledger entry, with negative days, which the caller stores with the record that it corrects
 * @throws Refusal `wrong_state` if a whole day or more of them is used up
 */
export async function takeBackDays(
  ctx: PassContext,
  agentId: string,
  days: number,
  credit: Credit,
  session: Session,
): Promise<PendingEntry> {
  const agent = await ctx.agents.find(agentId, session)
  const nowMs = ctx.database.now()
  const decision = endAfterTakenBackDays(agent?.pass_until_ms, nowMs, days)
  if (decision.kind === 'used_up')
    throw new Refusal(
      'wrong_state',
      `Some of the ${days} days to be taken back are used up, so they cannot be taken back.`,
    )
  const { untilMs } = decision
  await ctx.agents.movePassEnd(agentId, agent?.pass_until_ms, untilMs, [], session)
  return creditEntry(agentId, credit, -days, nowMs, untilMs)
}

/**
 * Runs a transaction that may credit paid days to an agent, and returns its result. An agent's first payment
 * also counts on its referrer's record, so concurrent first payments of agents with the same referrer are
 * serialized within this process: each conflict would cost a pause and the whole transaction.
 */
export async function serializeByReferrer<T>(ctx: PassContext, agentId: string, transact: () => Promise<T>) {
  const agent = await ctx.agents.find(agentId)
  const mayCountForReferrer = agent?.ref !== undefined && agent.first_paid_at === undefined
  return mayCountForReferrer ? ctx.database.serialize(`referrer ${agent.ref}`, transact) : transact()
}

/**
 * Credits days that were paid for, by coin or work: as creditDays(), and an agent's first payment is recorded
 * and counted for its referrer in the same transaction.
 *
 * @returns the ledger entry, which the caller stores with the record that earned the days
 */
export async function creditPaidDays(
  ctx: PassContext,
  agentId: string,
  days: number,
  credit: Credit,
  session: Session,
): Promise<PendingEntry> {
  const agent = await ctx.agents.find(agentId, session)
  if (agent === undefined) throw new Error(`agent ${agentId} is paid for and does not exist`)
  const entry = await creditDays(ctx, agent, days, credit, session)
  const isFirstPayment = await ctx.agents.markFirstPayment(agentId, entry.at, session)
  if (isFirstPayment && agent.ref !== undefined)
    await ctx.agents.addPayingReferral(agent.ref, agentId, session)
  return entry
}
