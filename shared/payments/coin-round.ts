import type { Context } from '../context.ts'
import { StartError } from '../process.ts'
import { unixSeconds } from '../time.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import type { CoinProblem, CoinRecord, CoinStore } from './coin-store.ts'
import type { SeenPayment } from './invoice.ts'
import { isNodeTrouble, NodeUnreachable } from './node-errors.ts'
import type { CoinDriver } from './driver.ts'
import { findClockAheadMs, lapseInvoices, recordPayment, settleWaiting } from './settlement.ts'

/** What the rounds of both coins' workers have in common. */

export async function isHalted(ctx: Context, coin: Coin): Promise<boolean> {
  return (await ctx.coins.findCoin(coin))?.halted !== undefined
}

/** Stops payouts, sweeps and new addresses of a coin, because its chain and the database do not agree. */
export async function haltCoin(ctx: Context, coin: Coin, reason: string): Promise<'halted'> {
  if (await isHalted(ctx, coin)) return 'halted'
  // Said before it is stored: where the answer to the write is lost, it may be stored all the same, and nobody would say why.
  ctx.log.error(
    { reason },
    `${COIN_UNITS[coin].name} is halted: no payouts, no sweeps, no new addresses before "operator reconcile ${coin}"`,
  )
  await ctx.coins.halt(coin, unixSeconds(ctx.now()), reason)
  return 'halted'
}

/** One round of the watcher: a look at every open address, and what has lapsed. A node that is away is written down, and is no error. */
export async function watchCoin(ctx: Context, driver: CoinDriver): Promise<void> {
  const { coin, confirmations } = driver
  const startedAt = unixSeconds(ctx.now())
  try {
    const before = await ctx.coins.findCoin(coin)
    const isAhead = (await findClockAheadMs(ctx)) !== undefined
    const { troubles, seen } = await driver.look({ startedAt, isAhead })
    const isWhole = troubles.length === 0
    const now = unixSeconds(ctx.now())
    const reached = { configured: true, reachable: true, checked_at: now, required_confirmations: confirmations }
    await ctx.coins.report(coin, { ...reached, ...seen, ...(isWhole ? { round_at: startedAt } : {}) }, now)
    if (before?.reachable === false) ctx.log.info(`the ${COIN_UNITS[coin].name} node is reached`)
    await settleWaiting(ctx, coin)
    // Nothing lapses unless each address was looked at and all that was found was taken in.
    if (!isWhole) return
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
    await noteUnreachable(ctx, coin, confirmations, error)
    return
  }
  await lapseInvoices(ctx, coin, startedAt, () => driver.watchLapsed())
}

/** A look at one invoice's address, because its owner asked. A node that is away is no error: the round says so. */
export async function checkCoin(ctx: Context, driver: CoinDriver, invoiceId: string): Promise<void> {
  const invoice = await ctx.invoices.find(invoiceId)
  if (invoice?.coin !== driver.coin) return
  try {
    await driver.lookAt(invoice)
    const at = unixSeconds(ctx.now())
    await ctx.coins.report(driver.coin, { configured: true, reachable: true, checked_at: at }, at)
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
    ctx.log.debug({ err: error, invoice_id: invoiceId }, 'an invoice could not be looked at')
  }
}

/** What keeps a coin from being ready, or keeps it no more (undefined). It is said once. */
export async function noteProblem(ctx: Context, coin: Coin, about: CoinProblem, sentence: string | undefined): Promise<void> {
  if (!(await ctx.coins.noteProblem(coin, about, sentence))) return
  if (sentence === undefined) ctx.log.info({ coin, about }, 'a problem of a coin is over')
  else ctx.log.error({ coin, about, problem: sentence }, 'a coin is not ready: nobody can pay with it')
}

/** What this process has said of coins out of reach; a new one says it again. */
const told = new WeakMap<CoinStore, Set<Coin>>()

/** The chain could not be looked at. One that stays away is said once, and shown for as long as it is. */
export async function noteUnreachable(ctx: Context, coin: Coin, requiredConfirmations: number, error: Error): Promise<void> {
  const before = await ctx.coins.findCoin(coin)
  const said = told.get(ctx.coins) ?? new Set()
  told.set(ctx.coins, said)
  const fields = { configured: true, reachable: false, required_confirmations: requiredConfirmations, unreachable: error.message }
  await ctx.coins.report(coin, fields, unixSeconds(ctx.now()))
  if (before?.reachable !== false || !said.has(coin))
    ctx.log.warn({ err: error }, `the ${COIN_UNITS[coin].name} node gives no news; nothing expires until it does`)
  said.add(coin)
}

/**
 * Runs a round until the node fails. Of a node that gives no news the watcher tells; what it refuses, and what it keeps from
 * this round alone while the watcher has its news, shows nowhere else.
 */
export async function untilNodeFails(ctx: Context, coin: Coin, round: () => Promise<void>): Promise<void> {
  try {
    await round()
  } catch (error) {
    // A wallet that cannot be opened stops nothing but its coin, which goes on once it can.
    if (error instanceof StartError) return noteProblem(ctx, coin, 'wallet', error.message)
    if (!isNodeTrouble(error)) throw error
    const isTold = error instanceof NodeUnreachable && (await ctx.coins.findCoin(coin))?.reachable === false
    ctx.log[isTold ? 'debug' : 'warn']({ err: error }, `a round of the ${COIN_UNITS[coin].name} wallet ended early`)
  }
}

/** The operator's reconciliation of a coin begins: it is halted until that is done. @returns the coin as it is then, and why it was halted */
export async function haltToReconcile(ctx: Context, coin: Coin): Promise<{ record: CoinRecord | undefined; reason: string }> {
  ctx.log.warn(`${COIN_UNITS[coin].name} is being reconciled, and halted until that is done`)
  await ctx.coins.halt(coin, unixSeconds(ctx.now()), 'the operator reconciles it')
  const record = await ctx.coins.findCoin(coin)
  return { record, reason: record?.halted?.reason ?? 'it was not halted' }
}

/** Payments taken in at once. */
const AT_ONCE = 8

/**
 * Takes in what a look found. What cannot be taken in is logged and told, and holds nothing else up.
 *
 * @returns a sentence about each of those
 */
export async function recordPayments(ctx: Context, found: readonly SeenPayment[]): Promise<string[]> {
  const troubles: string[] = []
  for (let start = 0; start < found.length; start += AT_ONCE) {
    const batch = found.slice(start, start + AT_ONCE)
    const ended = await Promise.allSettled(batch.map((payment) => recordPayment(ctx, payment)))
    for (const [index, outcome] of ended.entries()) {
      if (outcome.status === 'fulfilled') continue
      const { coin, tx } = batch[index] as SeenPayment
      troubles.push(`${tx}: ${String(outcome.reason)}`)
      ctx.log.error({ err: outcome.reason, coin, tx }, 'a payment was found and could not be taken in; the next look tries again')
    }
  }
  return troubles
}
