import type { Context } from '../context.ts'
import { isCopy } from '../platform/copy.ts'
import { nowSeconds } from '../platform/time.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import type { CoinProblem } from './coin-store.ts'
import type { Agreement, Difference } from './driver.ts'
import { StartError } from '../platform/process.ts'
import { NodeUnreachable, isNodeTrouble } from './node-errors.ts'

/* What keeps a coin from being worked with: it is halted, it has a problem, or its node or wallet gives no answer. */

/** Whether the coin is halted; in a restored copy of the database all coins are. */
export async function isHalted(ctx: Context, coin: Coin): Promise<boolean> {
  if (await isCopy(ctx.database.connection)) return true
  return (await ctx.coins.findCoin(coin))?.halted !== undefined
}

/** Halts payouts, sweeps and new addresses of a coin, because its chain and the database do not agree. */
export async function haltCoin(ctx: Context, coin: Coin, { why, onceHalted }: Difference): Promise<void> {
  if (!(await isHalted(ctx, coin))) await storeHalt(ctx, coin, why)
  await onceHalted?.()
}

async function storeHalt(ctx: Context, coin: Coin, reason: string): Promise<void> {
  // Logged before it is stored: if the write succeeds but its answer is lost, nobody would log it afterwards.
  ctx.log.error(
    { reason },
    `${COIN_UNITS[coin].name} is halted: no payouts, no sweeps, no new addresses before "operator reconcile ${coin}"`,
  )
  const at = nowSeconds(ctx)
  await ctx.database.transaction((session) => ctx.coins.halt(coin, at, reason, session))
}

/**
 * Halts a coin for a reconciliation, unless that is done already: then the coin isn't halted again.
 *
 * @param id of the reconciliation
 * @returns the coin as it is then, and why it was halted first; undefined if it is done already
 */
export async function haltToReconcile(ctx: Context, coin: Coin, id: string) {
  const at = nowSeconds(ctx)
  const isHalted = await ctx.database.transaction(async (session) => {
    if ((await ctx.journal.reconciliations.find(id, session)) !== undefined) return false
    await ctx.coins.halt(coin, at, 'the operator reconciles it', session)
    return true
  })
  if (!isHalted) return undefined
  ctx.log.warn(`${COIN_UNITS[coin].name} is being reconciled, and halted until that is done`)
  const record = await ctx.coins.findCoin(coin)
  return { record, reason: record?.halted?.reason ?? 'it was not halted' }
}

/**
 * Stores a problem that keeps a coin from being ready, and logs it if it is new.
 *
 * @param about the kind of problem; a coin can have one of each
 * @param sentence undefined: there is no such problem, or it is over
 */
export async function noteProblem(ctx: Context, coin: Coin, about: CoinProblem, sentence?: string) {
  if (!(await ctx.coins.noteProblem(coin, about, sentence))) return
  if (sentence === undefined) ctx.log.info({ coin, about }, 'a problem of a coin is over')
  else ctx.log.error({ coin, about, problem: sentence }, 'a coin is not ready: nobody can pay with it')
}

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
