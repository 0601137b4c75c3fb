import type { AgentRecord } from '../../../../shared/agents/agent.ts'
import type { PendingEntry } from '../../../../shared/ledger/pending.ts'
import { DAY_MS } from '../../../../shared/platform/time.ts'
import { requireThat } from '../stubs.ts'
import type { World } from '../world.ts'

/** Stores an agent that has registered and done nothing yet. */
export function beginAgent({ set, schedule }: World, _id: string, more: { ref?: string } = {}): void {
  const secret = { challenge: _id, token_key: _id, token_salt: 's', token_hash: 'h', salt: 's' }
  const counts = { referrals: { paying: 0 }, record: { claims: {}, verdicts: {} } }
  set.begin('agents', { _id, at: Math.floor(schedule.nowMs / 1_000), ...secret, ...counts, ...more })
}

/** Reads the ledger entries that wait in records of these collections. @throws Error if two have one source */
export function readEntries({ set }: World, collections: readonly string[]): PendingEntry[] {
  const entries = collections.flatMap((name) =>
    (set.lasting(name) as { pending?: PendingEntry[] }[]).flatMap(({ pending = [] }) => pending),
  )
  const sources = new Set(entries.map(({ source }) => source))
  requireThat(sources.size === entries.length, 'two entries have one source')
  return entries
}

/**
 * Checks that an agent's pass lasts as long as its credits say.
 *
 * @param beganMs when the schedule began, and no agent had a pass
 * @returns the credits among these entries
 */
export function checkPass(
  agent: AgentRecord,
  entries: readonly PendingEntry[],
  beganMs: number,
): PendingEntry[] {
  const { _id, pass_until_ms: untilMs } = agent
  const credits = entries.filter(({ kind, data }) => kind === 'pass_credit' && data['agent_id'] === _id)
  const days = credits.reduce((sum, { data }) => sum + Number(data['days']), 0)
  if (days === 0) requireThat(untilMs === undefined, `the pass of ${_id} has an end without a credit`)
  else {
    const startMs = (untilMs ?? 0) - days * DAY_MS
    const isRight = startMs >= beganMs - DAY_MS && startMs <= Date.now()
    requireThat(isRight, `the pass of ${_id} lasts to ${untilMs} by ${days} days`)
  }
  return credits
}
