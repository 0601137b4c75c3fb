import type { Context } from '../context.ts'
import { readCopy } from '../platform/copy.ts'
import { readSchema } from '../platform/migrations.ts'
import { DAY_MS, HOUR_MS, nowSeconds, SECOND_MS, unixSeconds } from '../platform/time.ts'
import { OPERATOR, type Finding, type FindingReader } from './finding.ts'

type ServiceFindingsContext = Pick<
  Context,
  'config' | 'database' | 'posts' | 'orders' | 'reports' | 'operation' | 'now'
>

const BACKUP_LATE_SECONDS = (26 * HOUR_MS) / SECOND_MS
const FULL_SOON_SECONDS = (7 * DAY_MS) / SECOND_MS
const REPORT_NEW_SECONDS = DAY_MS / SECOND_MS

/**
 * What waits for the operator: a copy to promote, overdue or disputed orders, reports, disk space, a backup.
 */
export const serviceFindings: FindingReader = {
  name: 'service',
  needs: 'mongodb',
  async read(ctx) {
    const findings = await Promise.all([
      findCopy(ctx),
      findWaitingOrders(ctx),
      findWaitingReports(ctx),
      findLowDisk(ctx),
      findOldBackup(ctx),
    ])
    return findings.flat()
  },
}

/** Finds that this database is a restored copy that was not promoted. */
async function findCopy(ctx: ServiceFindingsContext): Promise<Finding | undefined> {
  const copy = await readCopy(ctx.database.connection)
  if (copy === undefined) return undefined
  return {
    kind: 'copy_not_promoted',
    since: copy.restored_at,
    what: 'This database is a restored copy: nothing is signed or sent, and no address is given out',
    why: `it was restored from a backup of ${new Date(copy.backup_at * SECOND_MS).toISOString()}`,
    command: `${OPERATOR} promote`,
  }
}

async function findWaitingOrders(ctx: ServiceFindingsContext): Promise<Finding[]> {
  const now = nowSeconds(ctx)
  const { overdue, oldestSeconds, disputed } = await ctx.orders.readBacklog(now)
  const findings: Finding[] = []
  if (overdue > 0)
    findings.push({
      kind: 'orders_overdue',
      since: now - oldestSeconds,
      what: `The deadline of ${overdue} market orders passed and was not acted on`,
      command: 'npm run workers -- --queues order-deadlines',
    })
  if (disputed > 0)
    findings.push({
      kind: 'orders_disputed',
      what: `${disputed} market orders wait for your decision`,
      command: `${OPERATOR} disputes`,
    })
  return findings
}

/** Finds reports of the last day about posts that are still shown. */
async function findWaitingReports(ctx: ServiceFindingsContext): Promise<Finding | undefined> {
  const since = unixSeconds(ctx.now()) - REPORT_NEW_SECONDS
  const fresh = (await ctx.reports.listNewest(100)).filter(({ at }) => at >= since)
  const posts = await Promise.all(fresh.map(({ post_id: id }) => ctx.posts.find(id)))
  const waiting = fresh.filter((_, index) => posts[index]?.hidden_at === undefined)
  if (waiting.length === 0) return undefined
  return {
    kind: 'reports_waiting',
    since: Math.min(...waiting.map(({ at }) => at)),
    what: `${waiting.length} reports of the last day are about posts that are shown`,
    command: `${OPERATOR} reports`,
  }
}

/** Finds that the database's disk has little room left, or will have within a week. */
async function findLowDisk(ctx: ServiceFindingsContext): Promise<Finding | undefined> {
  const { freeBytes, fullAt } = await readDisk(ctx)
  if (freeBytes === undefined) return undefined
  const { minFreeDiskBytes } = ctx.config
  const gb = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`
  const command = 'make room on that disk, or move to a larger one (docs/repair.md, "Move")'
  if (freeBytes < 4 * minFreeDiskBytes)
    return {
      kind: 'disk_low',
      what: `The database's disk has ${gb(freeBytes)} left; below ${gb(minFreeDiskBytes)} the API takes no writes`,
      command,
    }
  const leftSeconds = (fullAt ?? Infinity) - unixSeconds(ctx.now())
  if (leftSeconds > FULL_SOON_SECONDS) return undefined
  return {
    kind: 'disk_filling',
    what: `The database's disk has ${gb(freeBytes)} left and is full in ${leftSeconds < 2 * 86_400 ? `${Math.round(leftSeconds / 3_600)} hours` : `${(leftSeconds / 86_400).toFixed(1)} days`} at the pace of the last day`,
    why: 'the pace is that of the whole disk: whoever else writes there counts too',
    command,
  }
}

/**
 * Reads how much of the database's disk is free, and works out when it falls to MIN_FREE_DISK_GB at the pace
 * of the last day.
 *
 * @returns `fullAt` in Unix seconds, absent if the disk isn't filling; neither if the free space is not known
 */
export async function readDisk(
  ctx: ServiceFindingsContext,
): Promise<{ freeBytes?: number; fullAt?: number }> {
  const [freeBytes, [oldest]] = await Promise.all([
    ctx.database.freeDiskBytes(),
    ctx.operation.watch.readDiskSamples(),
  ])
  if (freeBytes === undefined) return {}
  const now = unixSeconds(ctx.now())
  // Less than an hour tells nothing of a pace.
  if (oldest === undefined || now - oldest.at < HOUR_MS / SECOND_MS || oldest.free <= freeBytes)
    return { freeBytes }
  const bytesPerSecond = (oldest.free - freeBytes) / (now - oldest.at)
  const leftBytes = Math.max(0, freeBytes - ctx.config.minFreeDiskBytes)
  return { freeBytes, fullAt: Math.round(now + leftBytes / bytesPerSecond) }
}

/** Finds that the last backup, noted ones included, is more than a day old, or that there is none. */
async function findOldBackup(ctx: ServiceFindingsContext): Promise<Finding | undefined> {
  const [backup, schema] = await Promise.all([
    ctx.operation.watch.readBackup(),
    readSchema(ctx.database.connection),
  ])
  // A network that was never backed up has been without one since it began, or since it was upgraded.
  const since = backup?.at ?? schema?.since
  if (since === undefined || unixSeconds(ctx.now()) - since < BACKUP_LATE_SECONDS) return undefined
  return {
    kind: 'backup_old',
    since,
    what: backup === undefined ? 'There is no backup' : 'The last backup is more than a day old',
    why: 'a backup by other means is noted with "backup --noted"',
    command: `${OPERATOR} backup DIR`,
  }
}
