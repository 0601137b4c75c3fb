import type { Context } from '../context.ts'
import { StartError } from '../platform/process.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import { haltCoin, noteProblem } from './coin-state.ts'
import { NodeUnreachable, isNodeTrouble } from './node-errors.ts'
import type { Agreement } from './driver.ts'

/**
 * Runs a round of a coin's wallet that signs or makes addresses: it does so only as long as wallet and database
 * agree. If it ends with a difference, the coin is halted.
 */
export const runWalletRound = (ctx: Context, coin: Coin, round: () => Promise<Agreement>): Promise<void> =>
  endOnNodeTrouble(ctx, coin, async () => {
    const agreement = await round()
    if (agreement.kind === 'differs') await haltCoin(ctx, coin, agreement)
  })

/**
 * Does work with a coin's wallet or node. An error of the node ends the work early and is logged: at debug if the
 * watcher has stored that the node can't be reached. A wallet that can't be opened is stored as a problem.
 */
export async function endOnNodeTrouble(ctx: Context, coin: Coin, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (error instanceof StartError) return noteProblem(ctx, coin, 'wallet', error.message)
    if (!isNodeTrouble(error)) throw error
    const isKnown = error instanceof NodeUnreachable && (await ctx.coins.findCoin(coin))?.reachable === false
    const level = isKnown ? 'debug' : 'warn'
    ctx.log[level]({ err: error }, `a round of the ${COIN_UNITS[coin].name} wallet ended early`)
  }
}
