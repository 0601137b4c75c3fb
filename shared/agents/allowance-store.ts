import { Schema, type Connection } from 'mongoose'
import { createBoundedCounts } from '../servers/bounded-counts.ts'
import { ALLOWANCE_AHEAD_BYTES, DAILY_BYTES } from '../foundation/limits.ts'
import { DAY_MS } from '../foundation/time.ts'

/** What an agent's writes of a day are counted as. */
export type AllowanceKind = keyof typeof DAILY_BYTES

/** Bytes that an agent has added in a day; `_id` is `<agent id>/<day since the epoch>`. */
type AllowanceRecord = { _id: string; forget_at: Date } & { [Kind in AllowanceKind]?: number }

const allowanceSchema = new Schema<AllowanceRecord>(
  {
    _id: { type: String, required: true },
    forget_at: { type: Date, required: true },
    ...(Object.fromEntries(Object.keys(DAILY_BYTES).map((kind) => [kind, Number])) as Record<
      AllowanceKind,
      NumberConstructor
    >),
  },
  { collection: 'allowances', strict: 'throw', versionKey: false },
)
allowanceSchema.index({ forget_at: 1 }, { expireAfterSeconds: 0 })

/** @param patienceMs how long a count may wait for its turn */
export function createAllowanceStore(connection: Connection, patienceMs: number) {
  const allowances = connection.model<AllowanceRecord>('Allowance', allowanceSchema)
  const add = createBoundedCounts(allowances, patienceMs)
  /** Bytes taken ahead, by document and kind: what is left of them is this process's to give. */
  const ahead = new Map<string, number>()
  return {
    models: { allowances },
    /** @returns false if so many bytes are more than the agent's day has left; then nothing is counted */
    async spend(agentId: string, kind: AllowanceKind, bytes: number, nowMs: number): Promise<boolean> {
      const day = Math.floor(nowMs / DAY_MS)
      const _id = `${agentId}/${day}`
      const held = `${_id} ${kind}`
      const left = (ahead.get(held) ?? 0) - bytes
      if (left >= 0) {
        ahead.set(held, left)
        return true
      }
      // A clock that is set back finds the day again.
      const set = { forget_at: new Date((day + 3) * DAY_MS) }
      const take = (taken: number) => add({ _id, add: { [kind]: taken }, atMost: DAILY_BYTES, set })
      if (!(await take(bytes + ALLOWANCE_AHEAD_BYTES))) return take(bytes)
      if (ahead.size >= MAX_AHEAD) ahead.clear()
      ahead.set(held, (ahead.get(held) ?? 0) + ALLOWANCE_AHEAD_BYTES)
      return true
    },
  }
}

export type AllowanceStore = ReturnType<typeof createAllowanceStore>

/** Agents' days for which something is held; one that is forgotten counts as spent. */
const MAX_AHEAD = 20_000
