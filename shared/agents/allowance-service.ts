import type { Context } from '../context.ts'
import { Refusal } from '../foundation/errors.ts'
import { DAILY_BYTES, RECORD_BYTES } from '../foundation/limits.ts'
import type { AllowanceKind } from './allowance-store.ts'

const KIND_NAMES: Record<AllowanceKind, string> = {
  posts: 'posts',
  claims: 'claims and verdicts',
  messages: 'messages',
  changes: 'offers, work orders, reports, blocks, new tokens and new keys together',
}

/**
 * Counts a record towards what its agent may add today, before it is stored. One that isn't stored after all
 * stays counted.
 *
 * @param texts what of it is the agent's own
 * @throws Refusal `wrong_state` if the day has no room for it
 */
export async function spendAllowance(
  ctx: Context,
  agentId: string,
  kind: AllowanceKind,
  ...texts: (string | undefined)[]
): Promise<void> {
  const bytes = texts.reduce((sum, text = '') => sum + Buffer.byteLength(text), RECORD_BYTES)
  if (await ctx.allowances.spend(agentId, kind, bytes, ctx.now())) return
  throw new Refusal(
    'wrong_state',
    `This would be more than ${DAILY_BYTES[kind] / 1024 / 1024} MiB of ${KIND_NAMES[kind]} today, which is the most for one agent and day (GET /limits); there is room again from 00:00 UTC on.`,
  )
}
