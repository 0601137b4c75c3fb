import type { Context } from '../context.ts'
import { given } from '../foundation/given.ts'
import { isCopy } from '../servers/copy.ts'
import { StartError } from '../foundation/process.ts'
import { nowSeconds } from '../foundation/time.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import type { CoinProblem, CoinRecord, CoinStore } from './coin-store.ts'
import type { SeenPayment } from './invoice.ts'
import { isNodeTrouble, NodeUnreachable } from './node-errors.ts'
import type { CoinDriver } from './driver.ts'
import { expireInvoices, recordPayment, settleWaiting } from './settlement.ts'

/** A restored copy of the database is stopped as a whole. */
export async function isStopped(ctx: Context, coin: Coin): Promise<boolean> {
  if (await isCopy(ctx.database.connection)) return true
  return (await ctx.coins.findCoin(coin))?.halted !== undefined
}

/** Stops payouts, sweeps and new addresses of a coin, because its chain and the database do not agree. */
export async function stopCoin(ctx: Context, coin: Coin, reason: string): Promise<'stopped'> {
  if (await isStopped(ctx, coin)) return 'stopped'
  // Said before it is stored: if the answer to the write is lost, it may be stored all the same, and
  // nobody would say why.
  ctx.log.error(
    { reason },
    `${COIN_UNITS[coin].name} is halted: no payouts, no sweeps, no new addresses before "operator reconcile ${coin}"`,
  )
  const at = nowSeconds(ctx)
  await ctx.database.transaction((session) => ctx.coins.halt(coin, at, reason, session))
  return 'stopped'
}

const REACHED = { configured: true, reachable: true }

/** A node that is away is written down, and is no error. */
export async function watchCoin(ctx: Context, driver: CoinDriver): Promise<void> {
  const { coin, confirmations } = driver
  const startedAt = nowSeconds(ctx)
  try {
    const before = await ctx.coins.findCoin(coin)
    const { troubles, seen } = await driver.look(startedAt)
    const isWhole = troubles.length === 0
    const now = nowSeconds(ctx)
    const round_at = isWhole ? startedAt : undefined
    const reached = { ...REACHED, checked_at: now, required_confirmations: confirmations }
    await ctx.coins.report(coin, { ...reached, ...seen, ...given({ round_at }) }, now)
    if (before?.reachable === false) ctx.log.info(`the ${COIN_UNITS[coin].name} node is reached`)
    await settleWaiting(ctx, coin)
    // Nothing expires unless each address was looked at and all that was found was taken in.
    tellTroubles(ctx, coin, troubles)
    if (!isWhole) return
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
    await noteUnreachable(ctx, coin, confirmations, error)
    return
  }
  await expireInvoices(ctx, coin, startedAt)
}

/** A node that is away is no error: the round says so. */
export async function checkCoin(ctx: Context, driver: CoinDriver, invoiceId: string): Promise<void> {
  const invoice = await ctx.invoices.find(invoiceId)
  if (invoice?.coin !== driver.coin) return
  try {
    await driver.lookAt(invoice)
    const at = nowSeconds(ctx)
    await ctx.coins.report(driver.coin, { ...REACHED, checked_at: at }, at)
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
    ctx.log.debug({ err: error, invoice_id: invoiceId }, 'an invoice could not be looked at')
  }
}

/** undefined: nothing any more. It is said once. */
export async function noteProblem(
  ctx: Context,
  coin: Coin,
  about: CoinProblem,
  sentence: string | undefined,
): Promise<void> {
  if (!(await ctx.coins.noteProblem(coin, about, sentence))) return
  if (sentence === undefined) ctx.log.info({ coin, about }, 'a problem of a coin is over')
  else ctx.log.error({ coin, about, problem: sentence }, 'a coin is not ready: nobody can pay with it')
}

/** What this process said last of something. */
const said = new WeakMap<CoinStore, Map<string, string>>()

/** undefined: nothing. @returns whether that is another sentence than the last */
function isNews({ coins }: Context, about: string, sentence: string | undefined): boolean {
  const last = said.get(coins) ?? new Map<string, string>()
  said.set(coins, last)
  const before = last.get(about)
  if (sentence === undefined) last.delete(about)
  else last.set(about, sentence)
  return sentence !== undefined && sentence !== before
}

/** Says what keeps a look from being whole, once until it is another: every round meets it again. */
function tellTroubles(ctx: Context, coin: Coin, troubles: readonly string[]): void {
  const [first] = troubles
  if (!isNews(ctx, `troubles of ${coin}`, first)) return
  const about = { coin, trouble: first, troubles: troubles.length }
  ctx.log.warn(about, 'a look at the chain was not whole: nothing expires by it')
}

async function noteUnreachable(ctx: Context, coin: Coin, required_confirmations: number, error: Error) {
  const before = await ctx.coins.findCoin(coin)
  const fields = { configured: true, reachable: false, unreachable: error.message, required_confirmations }
  await ctx.coins.report(coin, fields, nowSeconds(ctx))
  const isFirst = isNews(ctx, `reach of ${coin}`, 'gives no news')
  if (before?.reachable !== false || isFirst)
    ctx.log.warn({ err: error }, `the ${COIN_UNITS[coin].name} node gives no news; nothing expires meanwhile`)
}

/** Of a node that gives no news the watcher tells; what it refuses shows nowhere else. */
export async function untilNodeFails(ctx: Context, coin: Coin, round: () => Promise<void>): Promise<void> {
  try {
    await round()
  } catch (error) {
    if (error instanceof StartError) return noteProblem(ctx, coin, 'wallet', error.message)
    if (!isNodeTrouble(error)) throw error
    const isTold = error instanceof NodeUnreachable && (await ctx.coins.findCoin(coin))?.reachable === false
    ctx.log[isTold ? 'debug' : 'warn'](
      { err: error },
      `a round of the ${COIN_UNITS[coin].name} wallet ended early`,
    )
  }
}

/** @returns the coin as it is then, and why it was stopped */
export async function stopToReconcile(
  ctx: Context,
  coin: Coin,
): Promise<{ record: CoinRecord | undefined; reason: string }> {
  ctx.log.warn(`${COIN_UNITS[coin].name} is being reconciled, and halted until that is done`)
  const at = nowSeconds(ctx)
  await ctx.database.transaction((session) => ctx.coins.halt(coin, at, 'the operator reconciles it', session))
  const record = await ctx.coins.findCoin(coin)
  return { record, reason: record?.halted?.reason ?? 'it was not halted' }
}

const AT_ONCE = 8

/** What can't be taken in is logged and holds nothing else up. @returns a sentence about each of those */
export async function recordPayments(ctx: Context, found: readonly SeenPayment[]): Promise<string[]> {
  const troubles: string[] = []
  for (let start = 0; start < found.length; start += AT_ONCE) {
    const batch = found.slice(start, start + AT_ONCE)
    const ended = await Promise.allSettled(batch.map((payment) => recordPayment(ctx, payment)))
    for (const [index, outcome] of ended.entries()) {
      if (outcome.status === 'fulfilled') continue
      const { coin, tx } = batch[index] as SeenPayment
      troubles.push(`${tx}: ${String(outcome.reason)}`)
      ctx.log.error(
        { err: outcome.reason, coin, tx },
        'a payment was found and could not be taken in; the next look tries again',
      )
    }
  }
  return troubles
}
