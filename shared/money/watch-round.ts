import type { Context } from '../context.ts'
import { DAY_MS, SECOND_MS, nowSeconds } from '../platform/time.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import { isNodeTrouble } from './node-errors.ts'
import type { CoinDriver } from './driver.ts'
import { isAlive } from './invoice-service.ts'
import { expireInvoices } from './invoice-expiry.ts'
import { keepAnnounced } from './own-money.ts'
import { recordLoss } from './record-arrival.ts'
import { settleWaiting } from './settlement.ts'
import { scanAll, scanOne } from './record-scan.ts'

const REACHED = { configured: true, reachable: true }

/**
 * One round of a coin's watcher: scans all its open addresses, stores how its node is, settles what waited
 * and expires what is overdue. A node that can't be reached is stored as such, and is no error.
 *
 * @returns how many payments were seen, those that had been seen before included, and how many troubles were met
 */
export async function watchCoin(
  ctx: Context,
  driver: CoinDriver,
): Promise<{ payments_seen: number; troubles: number }> {
  const { coin, confirmations } = driver
  const startedAt = nowSeconds(ctx)
  let sureAt = startedAt
  let result = { payments_seen: 0, troubles: 0 }
  try {
    const before = await ctx.coins.findCoin(coin)
    const { end, troubles, seen: payments } = await scanAll(ctx, driver, startedAt)
    result = { payments_seen: payments, troubles: troubles.length }
    const { seen, agreedHeight, sureUntil = startedAt, doubt } = end
    const now = nowSeconds(ctx)
    if (doubt !== undefined) {
      await ctx.coins.report(coin, seen, now)
      throw doubt
    }
    sureAt = Math.min(startedAt, sureUntil)
    const isComplete = troubles.length === 0
    const agreed = agreedHeight === undefined ? {} : { height: agreedHeight, height_at: startedAt }
    const whole = isComplete ? { ...agreed, ...(sureAt > 0 ? { round_at: sureAt } : {}) } : {}
    const reached = { ...REACHED, checked_at: now, required_confirmations: confirmations }
    await ctx.coins.report(coin, { ...reached, ...seen, ...whole }, now)
    if (before?.reachable === false) ctx.log.info(`the ${COIN_UNITS[coin].name} node is reached`)
    await settleWaiting(ctx, coin)
    await keepAnnounced(ctx, coin, before?.announced ?? [])
    logTroubles(ctx, coin, troubles)
    // Nothing expires unless each address was scanned and all that was found was recorded.
    if (!isComplete) return result
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
    await noteUnreachable(ctx, coin, confirmations, error)
    return { ...result, troubles: result.troubles + 1 }
  }
  await expireInvoices(ctx, coin, sureAt)
  return result
}

/** Scans one invoice's address. A node that can't be reached is no error: the watcher stores that. */
export async function checkInvoiceAddress(ctx: Context, driver: CoinDriver, invoiceId: string) {
  const invoice = await ctx.invoices.find(invoiceId)
  if (invoice?.coin !== driver.coin) return
  try {
    const { end } = await scanOne(ctx, driver, invoice)
    if (end.doubt !== undefined) throw end.doubt
    const at = nowSeconds(ctx)
    await ctx.coins.report(driver.coin, { ...REACHED, checked_at: at }, at)
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
    ctx.log.debug({ err: error, invoice_id: invoiceId }, 'an invoice could not be scanned')
  }
}

/** Remembers the last sentence about a subject. @returns whether it is a new one */
function rememberIfNew(ctx: Context, about: string, sentence: string | undefined): boolean {
  const { lastLogged } = ctx.coins
  const before = lastLogged.get(about)
  lastLogged.set(about, sentence)
  return sentence !== undefined && sentence !== before
}

/** Logs what kept a round from being complete, once until it changes: every round meets it again. */
function logTroubles(ctx: Context, coin: Coin, troubles: readonly string[]): void {
  const [first] = troubles
  if (!rememberIfNew(ctx, `troubles of ${coin}`, first)) return
  const about = { coin, trouble: first, troubles: troubles.length }
  ctx.log.warn(about, 'a scan of the chain was not whole: nothing expires by it')
}

/** Stores that the node can't be reached, and logs it when that is new to the database or to this process. */
async function noteUnreachable(ctx: Context, coin: Coin, required_confirmations: number, error: Error) {
  const before = await ctx.coins.findCoin(coin)
  const fields = { configured: true, reachable: false, unreachable: error.message, required_confirmations }
  await ctx.coins.report(coin, fields, nowSeconds(ctx))
  const isFirst = rememberIfNew(ctx, `reach of ${coin}`, 'gives no news')
  if (before?.reachable !== false || isFirst)
    ctx.log.warn({ err: error }, `the ${COIN_UNITS[coin].name} node gives no news; nothing expires meanwhile`)
}

/** Looks up whom a transaction pays and stores that for the operator; nothing if the node can't be asked. */
export async function answerLookUp(ctx: Context, driver: CoinDriver, tx: string) {
  try {
    const found = (await driver.findTransaction(tx))?.map(({ to, amountRaw, isConfirmed }) => {
      return { to, amount_raw: String(amountRaw), is_confirmed: isConfirmed }
    })
    await ctx.coins.answerLookUp(driver.coin, tx, found)
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
    ctx.log.warn({ err: error, tx }, 'a transaction could not be looked up for the operator')
  }
}

/** A payment that was seen before its coin was switched off keeps its invoice from expiring for a day. */
const HELD_SECONDS = DAY_MS / SECOND_MS

/**
 * If no worker reports on a coin any more, stores that it is switched off, gives up unconfirmed payments that
 * were first seen more than HELD_SECONDS ago, and expires what isn't paid in time, although nobody looks at
 * the chain. Money that comes meanwhile is found when the coin is back.
 */
export async function switchOffIfSilent(ctx: Context, coin: Coin): Promise<void> {
  const record = await ctx.coins.findCoin(coin)
  if (record === undefined || isAlive(ctx, record.alive_at)) return
  if (await ctx.coins.switchOff(record))
    ctx.log.warn(`${COIN_UNITS[coin].name} is switched off: what is not paid in time expires`)
  const now = nowSeconds(ctx)
  for (const payment of await ctx.invoices.arrivals.listUnderWay(coin))
    if (payment.waits_for_rate !== true && payment.first_seen_at < now - HELD_SECONDS)
      await recordLoss(ctx, payment)
  await expireInvoices(ctx, coin, now)
}
