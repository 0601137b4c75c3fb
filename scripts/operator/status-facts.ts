import { formatDuration, formatTime } from '../../client/command/format.ts'
import type { Context } from '../../shared/context.ts'
import { COINS, formatAmount } from '../../shared/money/coin.ts'
import { readDisk } from '../../shared/operation/service-findings.ts'
import { readSchema } from '../../shared/platform/migrations.ts'
import { formatSigned } from './output.ts'
import { formatAge } from './status-section.ts'

/**
 * What `operator status` shows even if nothing is wrong. Amounts in the coin's smallest unit, times in Unix
 * seconds.
 */
export interface Facts {
  schema: { version: number; since: number; by: string } | null
  disk: { free_bytes: number | null; full_at: number | null }
  backup: { at: number; by: string } | null
  treasuries: {
    currency: string
    address: string | null
    held_raw: string | null
    owed_raw: string
    own_raw: string
  }[]
  rates: { currency: string; usd: string; at: number }[]
}

/** Reads the facts, once MongoDB answers. */
export async function readFacts(ctx: Context): Promise<Facts> {
  await ctx.database.whenReady()
  const [schema, disk, backup, coins, owed, rates, ...own] = await Promise.all([
    readSchema(ctx.database.connection),
    readDisk(ctx),
    ctx.operation.watch.readBackup(),
    ctx.coins.listCoins(),
    ctx.payouts.sumUnpaid(),
    ctx.coins.listRates(),
    ...COINS.map((coin) => ctx.journal.own(coin)),
  ])
  return {
    schema: schema === undefined ? null : { version: schema.version, since: schema.since, by: schema.by },
    disk: { free_bytes: disk.freeBytes ?? null, full_at: disk.fullAt ?? null },
    backup: backup === undefined ? null : { at: backup.at, by: backup.by },
    treasuries: COINS.flatMap((coin, nth) => {
      const record = coins.find(({ _id }) => _id === coin)
      if (record === undefined && owed[coin] === 0n) return []
      return [
        {
          currency: coin,
          address: record?.treasury_address ?? null,
          held_raw: record?.treasury_raw ?? null,
          owed_raw: String(owed[coin]),
          // By the books: negative if others' money is missing.
          own_raw: String(own[nth] ?? 0n),
        },
      ]
    }),
    rates: rates.map(({ _id, usd, at }) => ({ currency: _id, usd, at })),
  }
}

/**
 * The facts as lines of `operator status`.
 *
 * @param now Unix seconds
 */
export function formatFacts({ schema, disk, backup, treasuries, rates }: Facts, now: number): string[] {
  const free = disk.free_bytes === null ? 'unknown' : `${(disk.free_bytes / 1e9).toFixed(1)} GB free`
  const leftSeconds = Math.max(0, (disk.full_at ?? 0) - now)
  return [
    `disk      ${free}${disk.full_at === null ? '' : `, full in ${formatDuration(leftSeconds)} at the pace of the last day`}`,
    `backup    ${backup === null ? 'none' : `${formatTime(backup.at)}, ${formatAge(backup.at, now)} (${backup.by})`}`,
    ...treasuries.map(({ currency, address, held_raw: held, owed_raw: owed, own_raw: own }) => {
      const coin = COINS.find((known) => known === currency) ?? 'xno'
      return `treasury  ${currency}: ${held === null ? 'unknown' : formatAmount(BigInt(held), coin)} held, ${formatAmount(BigInt(owed), coin)} owed, ${formatSigned(BigInt(own), coin)} own${address === null ? '' : `, at ${address}`}`
    }),
    ...rates.map(({ currency, usd, at }) => `rate      ${currency}: ${usd} USD, ${formatAge(at, now)}`),
    ...(schema === null
      ? []
      : [`schema    ${schema.version}, since ${formatTime(schema.since)}, by ${schema.by}`]),
  ]
}
