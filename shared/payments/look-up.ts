import type { Context } from '../context.ts'
import type { CoinDriver } from './driver.ts'
import { isNodeTrouble } from './node-errors.ts'

/** Without news of the chain it stays unanswered. */
export async function answerLookUp(
  ctx: Context,
  driver: Pick<CoinDriver, 'coin' | 'findTransaction'>,
  tx: string,
): Promise<void> {
  try {
    const found = await driver.findTransaction(tx)
    const pays = found?.map(({ to, amountRaw, isConfirmed }) => ({
      to,
      amount_raw: String(amountRaw),
      is_confirmed: isConfirmed,
    }))
    await ctx.coins.answerLookUp(driver.coin, tx, pays)
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
    ctx.log.warn({ err: error, tx }, 'a transaction could not be looked up for the operator')
  }
}
