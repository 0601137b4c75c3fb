import type { Context } from '../context.ts'
import { readCopy } from '../servers/copy.ts'
import { readSchema } from '../servers/migrations.ts'
import { DAY_MS, HOUR_MS, SECOND_MS, unixSeconds } from '../foundation/time.ts'
import { OPERATOR, type Finding, type FindingReader } from './finding.ts'

const BACKUP_LATE_SECONDS = (26 * HOUR_MS) / SECOND_MS
const FULL_SOON_SECONDS = (7 * DAY_MS) / SECOND_MS
const REPORT_NEW_SECONDS = DAY_MS / SECOND_MS

export const serviceFindings: FindingReader = {
  name: 'service',
  needs: 'mongodb',
  async read(ctx) {
    const found = await Promise.all([
      findCopy(ctx),
      findOrders(ctx),
      findReports(ctx),
      findDisk(ctx),
      findBackup(ctx),
    ])
    return found.flat()
  },
}

async function findCopy(ctx: Context): Promise<Finding[]> {
  const copy = await readCopy(ctx.database.connection)
  if (copy === undefined) return []
  return [
    {
      kind: 'copy_not_promoted',
      since: copy.restored_at,
      what: 'This database is a restored copy: nothing is signed or sent, and no address is given out',
      why: `it was restored from a backup of ${new Date(copy.backup_at * SECOND_MS).toISOString()}`,
      command: `${OPERATOR} promote`,
    },
  ]
}

async function findOrders(ctx: Context): Promise<Finding[]> {
  const now = unixSeconds(ctx.databaseNow())
  const { overdue, oldestSeconds, disputed } = await ctx.orders.readBacklog(now)
  return [
    ...(overdue === 0
      ? []
      : [
          {
            kind: 'orders_overdue' as const,
            since: now - oldestSeconds,
            what: `The deadline of ${overdue} market orders passed and was not acted on`,
            command: 'npm run workers -- --queues order-deadlines',
          },
        ]),
    ...(disputed === 0
      ? []
      : [
          {
            kind: 'orders_disputed' as const,
            what: `${disputed} market orders wait for your decision`,
            command: `${OPERATOR} disputes`,
          },
        ]),
  ]
}

/** Of posts that are still shown. */
async function findReports(ctx: Context): Promise<Finding[]> {
  const since = unixSeconds(ctx.now()) - REPORT_NEW_SECONDS
  const fresh = (await ctx.reports.listNewest(100)).filter(({ at }) => at >= since)
  const shown = await Promise.all(
    fresh.map(async (report) =>
      (await ctx.posts.find(report.post_id))?.hidden_at === undefined ? report : undefined,
    ),
  )
  const waiting = shown.filter((report) => report !== undefined)
  if (waiting.length === 0) return []
  return [
    {
      kind: 'reports_waiting',
      since: Math.min(...waiting.map(({ at }) => at)),
      what: `${waiting.length} reports of the last day are about posts that are shown`,
      command: `${OPERATOR} reports`,
    },
  ]
}

async function findDisk(ctx: Context): Promise<Finding[]> {
  const { freeBytes, fullAt } = await readDisk(ctx)
  if (freeBytes === undefined) return []
  const mark = ctx.config.minFreeDiskBytes
  const gb = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`
  if (freeBytes < 4 * mark)
    return [
      {
        kind: 'disk_low',
        what: `The database's disk has ${gb(freeBytes)} left; below ${gb(mark)} the API takes no writes`,
        command: 'make room on that disk, or move to a larger one (docs/operators.md, "Move")',
      },
    ]
  if (fullAt === undefined || fullAt - unixSeconds(ctx.now()) > FULL_SOON_SECONDS) return []
  return [
    {
      kind: 'disk_filling',
      what: `The database's disk has ${gb(freeBytes)} left and is full in ${((fullAt - unixSeconds(ctx.now())) / 86_400).toFixed(1)} days at the pace of the last day`,
      command: 'make room on that disk, or move to a larger one (docs/operators.md, "Move")',
    },
  ]
}

/** What is free, and when it reaches the mark at the pace that was noted: Unix seconds. */
export async function readDisk(ctx: Context): Promise<{ freeBytes?: number; fullAt?: number }> {
  const [freeBytes, samples] = await Promise.all([ctx.database.freeDiskBytes(), ctx.watch.readDiskSamples()])
  const [first] = samples
  if (freeBytes === undefined) return {}
  const now = unixSeconds(ctx.now())
  // Less than an hour tells nothing of a pace.
  if (first === undefined || now - first.at < HOUR_MS / SECOND_MS || first.free <= freeBytes)
    return { freeBytes }
  const pace = (first.free - freeBytes) / (now - first.at)
  return { freeBytes, fullAt: Math.round(now + Math.max(0, freeBytes - ctx.config.minFreeDiskBytes) / pace) }
}

async function findBackup(ctx: Context): Promise<Finding[]> {
  const [backup, schema] = await Promise.all([ctx.watch.readBackup(), readSchema(ctx.database.connection)])
  // A network that was never backed up has been without one since it began, or since it was upgraded.
  const since = backup?.at ?? schema?.since
  if (since === undefined || unixSeconds(ctx.now()) - since < BACKUP_LATE_SECONDS) return []
  return [
    {
      kind: 'backup_old',
      since,
      what: backup === undefined ? 'There is no backup' : 'The last backup is more than a day old',
      why: 'a backup by other means is noted with "backup --noted"',
      command: `${OPERATOR} backup DIR`,
    },
  ]
}
