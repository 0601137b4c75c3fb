import type { Context } from '../context.ts'
import { MINUTE_MS, SECOND_MS } from '../platform/time.ts'

/*
 * A ban, or its end, is one write on the agent, which says at the same time that it is yet to be applied to the
 * agent's records (`ban_applied: false`). It is applied in batches: by whoever changed it, for as long as an
 * operator may wait, and by the sweep, which finds what is left.
 *
 * Before each batch the agent is read again, and the last batch finds nothing to change. So whoever applied a ban
 * that was changed meanwhile applies the change too.
 *
 * Two things may come after the last batch: a record of a request that was let in before the ban, and a batch of a
 * process that died. So the sweep looks again, at each turn, until none of either can be under way.
 */

/** Far longer than a request that was let in, or a batch, can be under way. */
const STRAGGLERS_MS = 10 * MINUTE_MS
/** Records of one kind in one batch. */
const BATCH = 5_000
/** How long the operator's command applies a ban; the sweep goes on. */
const COMMAND_MS = 5 * SECOND_MS
/** How long one sweep applies bans; the next one goes on. */
const SWEEP_MS = 10 * SECOND_MS
const AGENTS_PER_SWEEP = 1_000

type Applying = Pick<Context, 'database' | 'agents' | 'posts' | 'claims' | 'offers'>

/**
 * Makes the records of an agent say that it is banned, or that it isn't any more, as it stands.
 *
 * @param limitMs after about this time it leaves the rest to the sweep
 */
export async function applyBan(ctx: Applying, agentId: string, limitMs = COMMAND_MS): Promise<void> {
  const endMs = performance.now() + limitMs
  while (performance.now() < endMs) {
    const begunMs = ctx.database.now()
    const ban = await ctx.agents.findBan(agentId)
    if (ban === undefined) return
    const isBanned = ban.banned_at !== undefined
    const counts = await Promise.all(
      [ctx.posts, ctx.claims, ctx.offers].map((store) => store.setAuthorBanned(agentId, isBanned, BATCH)),
    )
    if (counts.some((count) => count > 0)) continue
    const changedMs = ban.ban_changed?.getTime()
    if (changedMs !== undefined && changedMs + STRAGGLERS_MS < begunMs) await ctx.agents.setBanApplied(ban)
    return
  }
}

/**
 * Does applyBan() for every agent whose ban was changed and may not have been applied to all records.
 *
 * @returns how many agents these are
 */
export async function applyBans(ctx: Applying): Promise<number> {
  const endMs = performance.now() + SWEEP_MS
  const unapplied = await ctx.agents.listUnappliedBans(AGENTS_PER_SWEEP)
  for (const agentId of unapplied) await applyBan(ctx, agentId, endMs - performance.now())
  return unapplied.length
}
