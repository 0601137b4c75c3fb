import type { Connection } from 'mongoose'
import { createBoundedCounts } from '../platform/bounded-counts.ts'
import { ALLOWANCE_AHEAD_BYTES, DAILY_BYTES } from '../platform/limits.ts'
import { date, maybe, schemaOf, text, type RecordOf } from '../platform/fields.ts'
import { DAY_MS } from '../platform/time.ts'

/** The kinds of writes whose daily bytes are counted separately. */
export type AllowanceKind = keyof typeof DAILY_BYTES

/** Bytes that an agent has added on a day; `_id` is `<agent id>/<days since the epoch>`. */
const allowanceFields = { _id: text, forget_at: date }
type AllowanceRecord = RecordOf<typeof allowanceFields> & { [Kind in AllowanceKind]?: number }

const allowanceSchema = schemaOf<AllowanceRecord>('allowances', {
  ...allowanceFields,
  ...Object.fromEntries(Object.keys(DAILY_BYTES).map((kind) => [kind, maybe.number])),
})
allowanceSchema.index({ forget_at: 1 }, { expireAfterSeconds: 0 })

/**
 * Creates the store of what each agent has added on a day.
 *
 * @param patienceMs how long a count may wait before its update begins
 */
export function createAllowanceStore(connection: Connection, patienceMs: number) {
  const allowances = connection.model<AllowanceRecord>('Allowance', allowanceSchema)
  const add = createBoundedCounts(allowances, patienceMs)
  /** Bytes that this process has reserved and not used yet, by document and kind. */
  const reserved = new Map<string, number>()
  return {
    models: { allowances },
    /**
     * Counts bytes of a kind towards the agent's day (UTC), usually out of a reserve that this process has
     * counted earlier.
     *
     * @returns false if fewer are left today; then nothing is counted
     */
    async spend(agentId: string, kind: AllowanceKind, bytes: number, nowMs: number): Promise<boolean> {
      const day = Math.floor(nowMs / DAY_MS)
      const _id = `${agentId}/${day}`
      const key = `${_id} ${kind}`
      const reservedAfter = (reserved.get(key) ?? 0) - bytes
      if (reservedAfter >= 0) {
        reserved.set(key, reservedAfter)
        return true
      }
      // Kept for two days more, so that a clock that is set back still finds the count.
      const set = { forget_at: new Date((day + 3) * DAY_MS) }
      const addBytes = (added: number) => add({ _id, add: { [kind]: added }, atMost: DAILY_BYTES, set })
      if (!(await addBytes(bytes + ALLOWANCE_AHEAD_BYTES))) return addBytes(bytes)
      if (reserved.size >= MAX_RESERVES) reserved.clear()
      reserved.set(key, (reserved.get(key) ?? 0) + ALLOWANCE_AHEAD_BYTES)
      return true
    },
  }
}

/** Reserves held at once; one that is dropped counts as used. */
const MAX_RESERVES = 20_000
