import { formatTime } from '../../client/command/format.ts'
import type { Context } from '../../shared/context.ts'
import {
  FULL_CORES,
  measureCapacity,
  type Capacity,
  type RoleCapacity,
} from '../../shared/operation/capacity.ts'
import { nowSeconds } from '../../shared/platform/time.ts'
import { defineOperatorVerb, type OperatorVerb, type VerbOutput } from './verb.ts'

export const capacityVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'capacity',
    words: [],
    options: {},
    help: 'How much more the network can take, by what it did in the last day (docs/scaling.md)',
    changes: false,
    run: ({ ctx }) => showCapacity(ctx),
  }),
]

/** Reads the samples of the last day, and shows what they say of the network's room. */
async function showCapacity(ctx: Context): Promise<VerbOutput> {
  const capacity = measureCapacity(await ctx.operation.samples.list('day', nowSeconds(ctx)))
  if (capacity === undefined)
    return {
      answer: { ok: true, capacity: null },
      text: "There are no samples of an hour yet: the process with the operator's port takes them.",
    }
  const { from, to, requests, roles, disk, entriesPerDay, redis } = capacity
  return {
    answer: {
      ok: true,
      capacity: {
        from,
        to,
        requests: {
          per_second: requests.perSecond,
          most_per_second: requests.most,
          p99_ms_then: requests.p99Ms,
        },
        roles: roles.map(({ role, processes, mostCores, room, isShared }) => ({
          role,
          processes,
          most_cores: mostCores,
          room,
          a_second_process_helps: isShared,
        })),
        disk:
          disk === undefined
            ? null
            : {
                database_bytes: disk.databaseBytes,
                free_bytes: disk.freeBytes ?? null,
                bytes_per_day: disk.bytesPerDay,
                days_left: disk.daysLeft ?? null,
              },
        entries_per_day: entriesPerDay ?? null,
        redis: redis === undefined ? null : { used_bytes: redis.usedBytes, max_bytes: redis.maxBytes },
      },
    },
    text: formatCapacity(capacity).join('\n'),
  }
}

/** The capacity as sentences. */
export function formatCapacity({
  from,
  to,
  requests,
  roles,
  disk,
  entriesPerDay,
  redis,
}: Capacity): string[] {
  const { perSecond, most, p99Ms } = requests
  const lines = [
    `from ${formatTime(from)} to ${formatTime(to)}, ${((to - from) / 3_600).toFixed(1)} hours`,
    `requests  ${formatFew(perSecond)} a second, ${formatFew(most)} in the busiest five minutes${p99Ms === null ? '' : `, with a p99 of ${Math.round(p99Ms)} ms`}`,
    ...roles.map(formatRole),
  ]
  if (disk !== undefined) {
    const growth = `${disk.bytesPerDay < 0 ? '-' : '+'}${formatBytes(Math.abs(disk.bytesPerDay))} a day`
    const lasts =
      disk.freeBytes === undefined
        ? 'how much is free is not known'
        : disk.daysLeft === undefined
          ? `${formatBytes(disk.freeBytes)} free, and it does not grow`
          : `at this growth the ${formatBytes(disk.freeBytes)} that are free last ${formatDays(disk.daysLeft)}`
    lines.push(`disk      the database has ${formatBytes(disk.databaseBytes)}, ${growth}: ${lasts}`)
  }
  if (entriesPerDay !== undefined) lines.push(`ledger    ${Math.round(entriesPerDay)} entries a day`)
  if (redis !== undefined)
    lines.push(
      `redis     ${formatBytes(redis.usedBytes)} of ${redis.maxBytes === 0 ? 'no limit' : formatBytes(redis.maxBytes)}`,
    )
  lines.push("MongoDB's own processor and memory are not seen from here: look at its host.")
  return lines
}

/** One sentence about the processes of one role. */
function formatRole({ role, processes, mostCores, room, isShared }: RoleCapacity): string {
  const used = `${role.padEnd(8)}  ${processes} ${processes === 1 ? 'process' : 'processes'}, each ${mostCores.toFixed(2)} of a core at most`
  const times = room > 100 ? 'more than 100' : room.toFixed(1)
  if (isShared) return `${used}: one more at ${times} × that work`
  return `${used}: full at ${times} × that work, where another process does not help (${FULL_CORES} of a core)`
}

const formatFew = (value: number): string => value.toFixed(value < 10 ? 1 : 0)
const formatBytes = (bytes: number): string =>
  bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`
const formatDays = (days: number): string =>
  days > 3_650
    ? 'more than 10 years'
    : days < 2
      ? `${Math.round(days * 24)} hours`
      : `${Math.round(days)} days`
