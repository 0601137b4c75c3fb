import type { Context } from '../context.ts'
import type { EventMark } from '../events/mark.ts'
import { enqueueRing } from './doorbell-service.ts'
import { onAsked, onNews, onTime, OFF_AFTER_MS, type DoorbellStep } from './doorbell-steps.ts'
import type { Taken } from './doorbell-store.ts'
import type { DoorbellRecord } from './doorbell.ts'

type FinderContext = Pick<Context, 'config' | 'database' | 'queues' | 'agents' | 'events' | 'doorbells'>

/** Agents whose doorbells are read by one query. */
const AGENTS_AT_ONCE = 1_000
/** Doorbells that one sweep brings back, and looks at for being off; the next goes on. */
const SWEPT = 1_000

/**
 * Finds the doorbells that are to ring for events since a time, and those that needn't because their agents have
 * asked since, and enqueues the rings. What is found twice rings once.
 *
 * @param sinceMs by the database's clock
 * @returns how many rings became due
 */
export async function findRings(ctx: FinderContext, sinceMs: number): Promise<number> {
  // Numbers first: what stands among the marks after that has not been asked for.
  const numbered = await ctx.events.listNumbered(sinceMs)
  const news = Map.groupBy(await ctx.events.listMarks(sinceMs), ({ to }) => to)
  const asked = new Map(numbered.map(({ _id, numbered_ms: ms = 0 }) => [_id, ms]))
  const agentIds = [...new Set([...news.keys(), ...asked.keys()])]
  let due = 0
  for (let at = 0; at < agentIds.length; at += AGENTS_AT_ONCE) {
    const part = agentIds.slice(at, at + AGENTS_AT_ONCE)
    due += await findRingsOf(ctx, part, news, asked)
  }
  return due
}

/** The doorbells of which something becomes, with what does. */
const takenOf = (
  bells: readonly DoorbellRecord[],
  decide: (bell: DoorbellRecord) => DoorbellStep | undefined,
): Taken[] =>
  bells.flatMap((bell) => {
    const step = decide(bell)
    return step === undefined ? [] : [{ bell, step }]
  })

/** @returns how many rings of these agents became due */
async function findRingsOf(
  ctx: FinderContext,
  agentIds: readonly string[],
  news: ReadonlyMap<string, readonly Pick<EventMark, 'at_ms' | 'kind'>[]>,
  asked: ReadonlyMap<string, number>,
): Promise<number> {
  const bells = await ctx.doorbells.listOf(agentIds)
  if (bells.length === 0) return 0
  const ids = bells.map(({ _id }) => _id)
  const [seqs, authors] = await Promise.all([ctx.events.listSeqs(ids), ctx.agents.findAuthors(ids)])
  const banned = new Set(authors.filter((one) => one.banned_at !== undefined).map(({ _id }) => _id))
  const nowMs = ctx.database.now()
  const { intervalMs } = ctx.config.doorbells
  const decide = (bell: DoorbellRecord): DoorbellStep | undefined => {
    const ringing = (news.get(bell._id) ?? []).filter(({ kind }) => bell.kinds.includes(kind))
    if (ringing.length > 0 && bell.state === 'on' && !banned.has(bell._id)) {
      const atMs = Math.max(...ringing.map((one) => one.at_ms))
      return onNews(bell, { atMs, seq: seqs.get(bell._id) ?? 0 }, nowMs, intervalMs)
    }
    const askedMs = asked.get(bell._id)
    return askedMs === undefined ? undefined : onAsked(bell, askedMs)
  }
  const taken = takenOf(bells, decide)
  await ctx.doorbells.takeAll(taken)
  const due = taken.flatMap(({ bell, step }) =>
    step.set.due_ms === undefined ? [] : [{ ...bell, ...step.set }],
  )
  await Promise.all(due.map((bell) => enqueueRing(ctx, bell, nowMs)))
  return due.length
}

/**
 * Enqueues rings that are overdue, whose jobs may be lost, and turns off the doorbells that have failed for a
 * week.
 *
 * @param overdueMs how long a ring must have been due
 * @returns how many rings were enqueued
 */
export async function sweepDoorbells(ctx: FinderContext, overdueMs: number): Promise<number> {
  const nowMs = ctx.database.now()
  const failing = await ctx.doorbells.listFailing(nowMs - OFF_AFTER_MS, SWEPT)
  await ctx.doorbells.takeAll(takenOf(failing, (bell) => onTime(bell, nowMs)))
  const overdue = await ctx.doorbells.listDue(nowMs - overdueMs, SWEPT)
  await Promise.all(overdue.map((bell) => enqueueRing(ctx, bell, nowMs)))
  return overdue.length
}
