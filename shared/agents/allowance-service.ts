import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { DAILY_BYTES, RECORD_BYTES } from '../platform/limits.ts'
import type { AllowanceKind } from './allowance-store.ts'

type AllowanceContext = Pick<Context, 'agents' | 'now'>

const KIND_NAMES: Record<AllowanceKind, string> = {
  posts: 'posts',
  claims: 'claims and verdicts',
  messages: 'messages',
  changes: 'offers, work orders, reports, blocks, new tokens and new keys together',
}

/**
 * Counts a record towards its agent's daily allowance, before it is stored. It stays counted even if storing
 * it fails.
 *
 * @param texts the record's texts that the agent wrote
 * @throws Refusal `wrong_state` if the record exceeds what is left of today's allowance
 */
export async function spendAllowance(
  ctx: AllowanceContext,
  agentId: string,
  kind: AllowanceKind,
  ...texts: (string | undefined)[]
): Promise<void> {
  const bytes = texts.reduce((sum, text = '') => sum + Buffer.byteLength(text), RECORD_BYTES)
  if (await ctx.agents.allowances.spend(agentId, kind, bytes, ctx.now())) return
  throw new Refusal(
    'wrong_state',
    `This would exceed ${DAILY_BYTES[kind] / 1024 / 1024} MiB of ${KIND_NAMES[kind]} today, the limit for one agent and day (GET /limits); it starts anew at 00:00 UTC.`,
  )
}
