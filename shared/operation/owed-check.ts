import type { ClientSession, Connection } from 'mongoose'
import type { Context } from '../context.ts'
import type { EntryRecord } from '../ledger/entry.ts'
import type { SealRecord } from '../ledger/seal.ts'
import { NOTHING_OWED, closingSums, tryAddToOwed, type Owed } from '../ledger/solvency.ts'
import { COINS } from '../money/coin.ts'
import { atOneMoment, readPending } from './one-moment.ts'

/*
 * What is owed for market orders is known twice: each seal states it by the ledger's entries, and the journal has it
 * in the accounts of orders and payees. Here the two are compared, from the last seal on.
 */

/** Compares them, stores the differences for the operator, and logs a new one. */
export async function compareOwed(ctx: Context): Promise<void> {
  const differences = await findOwedDifferences(ctx)
  for (const { _id: coin, owed_gap_raw: known = '0' } of await ctx.coins.listCoins()) {
    const gapRaw = String(differences[coin])
    if (gapRaw === known) continue
    await ctx.coins.noteOwedGap(coin, gapRaw)
    if (gapRaw !== '0')
      ctx.log.error({ coin, gap_raw: gapRaw }, 'ledger and journal differ about what is owed for orders')
  }
}

/** How much more the ledger says than the journal, at one moment; by coin, in the smallest unit. */
export function findOwedDifferences(ctx: Context): Promise<Owed> {
  return atOneMoment(ctx, async (connection, session) => {
    const differences = await sumByLedger(connection, session)
    for (const coin of COINS) differences[coin] -= await ctx.journal.owedForOrders(coin, session)
    return differences
  })
}

/** What is owed by the last seal, the entries numbered since and those that wait for a number. */
async function sumByLedger(connection: Connection, session: ClientSession): Promise<Owed> {
  const entries = connection.collection<EntryRecord>('entries')
  const [last] = await connection
    .collection<SealRecord>('seals')
    .find({}, { session })
    .sort({ _id: -1 })
    .limit(1)
    .toArray()
  const closing = last && (await entries.findOne({ _id: last.to_id }, { session }))
  const stated = last && closingSums(closing ?? undefined, last._id)
  const since = stated === undefined ? 0 : (last?.to_id ?? 0)
  const numbered = new Set<string>()
  let owed = { ...(stated ?? NOTHING_OWED) }
  for await (const entry of entries.find({ _id: { $gt: since } }, { session })) {
    owed = tryAddToOwed(owed, entry).owed
    numbered.add(entry.source)
  }
  for (const entry of await readPending(connection, session))
    if (!numbered.has(entry.source)) owed = tryAddToOwed(owed, { ...entry, _id: 0, record: '' }).owed
  return { ...owed }
}
