import type { ClientSession, Connection } from 'mongoose'
import type { Context } from '../context.ts'
import type { EntryRecord } from '../ledger/entry.ts'
import type { SealRecord } from '../ledger/seal.ts'
import {
  LIABILITY_NAMES,
  closesSeal,
  countLiabilities,
  parseLiabilities,
  type Liabilities,
  type LiabilityName,
} from '../ledger/solvency.ts'
import { COINS, type Coin } from '../money/coin.ts'
import { giveOldLinesEntries } from '../money/journal-migration.ts'
import { eachCoin } from '../money/sum-raw.ts'
import { atOneMoment, readPending } from './one-moment.ts'

/*
 * What isn't the venue's own is known twice: each seal states it by the ledger's entries, and the journal has it in
 * its accounts. Here the two are compared, from the last seal on.
 */

/** Sums that differ, and by how much that of the ledger is above that of the journal; in the smallest unit. */
export type Gaps = Partial<Record<LiabilityName, bigint>>

/**
 * Compares them, stores the differences for the operator, and logs a new one. During an upgrade a process of a version
 * before schema 3 may write lines of the journal without their entries: these get them now.
 */
export async function compareOwed(ctx: Context): Promise<void> {
  let differences = await findOwedDifferences(ctx)
  if (COINS.some((coin) => Object.keys(differences[coin]).length > 0)) {
    await giveOldLinesEntries(ctx.database.connection)
    differences = await findOwedDifferences(ctx)
  }
  for (const { _id: coin, ledger_gaps: known } of await ctx.coins.listCoins()) {
    const found = Object.entries(differences[coin]).map(([name, gap]) => [name, String(gap)] as const)
    const gaps = found.length === 0 ? undefined : Object.fromEntries(found)
    if (LIABILITY_NAMES.every((name) => known?.[name] === gaps?.[name])) continue
    await ctx.coins.noteLedgerGaps(coin, gaps)
    if (gaps !== undefined) ctx.log.error({ coin, gaps }, 'ledger and journal differ about what is owed')
  }
}

/** Which sums of ledger and journal differ at one moment, by coin. */
export function findOwedDifferences(ctx: Context): Promise<Record<Coin, Gaps>> {
  return atOneMoment(ctx, async (connection, session) => {
    const byLedger = await sumByLedger(connection, session)
    const differences = eachCoin((): Gaps => ({}))
    for (const coin of COINS)
      differences[coin] = gapsBetween(byLedger[coin], await ctx.journal.liabilities(coin, session))
    return differences
  })
}

export const gapsBetween = (byLedger: Liabilities[Coin], byJournal: Liabilities[Coin]): Gaps =>
  Object.fromEntries(
    LIABILITY_NAMES.map((name) => [name, byLedger[name] - byJournal[name]] as const).filter(
      ([, gap]) => gap !== 0n,
    ),
  )

/** What isn't the venue's own by the last seal, the entries numbered since and those that wait for a number. */
async function sumByLedger(connection: Connection, session: ClientSession): Promise<Liabilities> {
  const entries = connection.collection<EntryRecord>('entries')
  const [last] = await connection
    .collection<SealRecord>('seals')
    .find({}, { session })
    .sort({ _id: -1 })
    .limit(1)
    .toArray()
  const closing = last && (await entries.findOne({ _id: last.to_id }, { session }))
  const stated = closing && closesSeal(closing, last._id) ? parseLiabilities(closing) : undefined
  const since = stated === undefined ? 0 : (last?.to_id ?? 0)
  const numbered = new Set<string>()
  const count = countLiabilities(stated)
  for await (const entry of entries.find({ _id: { $gt: since } }, { session, sort: { _id: 1 } })) {
    count.add(entry)
    numbered.add(entry.source)
  }
  for (const entry of await readPending(connection, session))
    if (!numbered.has(entry.source)) count.add({ ...entry, _id: 0, record: '' })
  return count.sums()
}
