import type { Context } from '../context.ts'
import { DAY_MS, SECOND_MS, nowSeconds } from '../foundation/time.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import { isLately } from './invoice-service.ts'
import { expireInvoices, recordLoss } from './settlement.ts'

/** A payment that was on its way when its coin was switched off holds its invoice for so long. */
const HELD_SECONDS = DAY_MS / SECOND_MS

/**
 * If no process has a node or wallet for the coin, it is switched off: what isn't paid in time expires
 * although nobody looks at the chain. Money that comes meanwhile is found when the coin is back.
 */
export async function endSwitchedOff(ctx: Context, coin: Coin): Promise<void> {
  const record = await ctx.coins.findCoin(coin)
  if (record === undefined || isLately(ctx, record.alive_at)) return
  if (await ctx.coins.switchOff(record))
    ctx.log.warn(
      `${COIN_UNITS[coin].name} is switched off: what is not paid in time expires, and what is owed stays owed`,
    )
  const now = nowSeconds(ctx)
  for (const payment of await ctx.invoices.listUnderWay(coin))
    if (payment.waits_for_rate !== true && payment.first_seen_at < now - HELD_SECONDS)
      await recordLoss(ctx, payment)
  await expireInvoices(ctx, coin, now)
}
