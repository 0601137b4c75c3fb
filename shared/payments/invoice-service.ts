import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { Refusal } from '../foundation/errors.ts'
import { newId } from '../foundation/ids.ts'
import { ADDRESS_WAIT_MS, CHECK_EVERY_MS } from '../foundation/limits.ts'
import { isCopy } from '../servers/copy.ts'
import { SECOND_MS, nowSeconds } from '../foundation/time.ts'
import type { Coin } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import type { AddressRecord, CoinRecord, RateRecord } from './coin-store.ts'
import { MAX_PAYMENTS_SHOWN, type CheckedInvoice, type InvoiceRecord } from './invoice.ts'
import { findFreshRate, priceAt } from './rate.ts'

/** A coin whose worker has not written for so many polls is not ready, and never for less than this. */
const SILENT_POLLS = 3
const LEAST_SILENCE_MS = 60 * SECOND_MS

/** No longer ago than a living worker takes to write again. @param atSeconds Unix seconds */
export function isLately(ctx: Context, atSeconds: number): boolean {
  return (
    ctx.databaseNow() - atSeconds * SECOND_MS <=
    Math.max(LEAST_SILENCE_MS, SILENT_POLLS * ctx.config.paymentPollMs)
  )
}

export const isChainReachable = (ctx: Context, coin: CoinRecord | undefined): boolean =>
  coin !== undefined && coin.configured && coin.reachable && isLately(ctx, coin.alive_at)

/** Set up, in reach, neither stopped nor with a problem, its worker alive, its pool lately seen to. */
export function isCoinReady(ctx: Context, coin: CoinRecord | undefined): boolean {
  const isWell = coin?.halted === undefined && Object.keys(coin?.problems ?? {}).length === 0
  return coin !== undefined && isChainReachable(ctx, coin) && isWell && isLately(ctx, coin.pool_at ?? 0)
}

/** @throws Refusal `currency_not_configured` */
export async function requireReady(ctx: Context, coin: Coin): Promise<void> {
  const record = await ctx.coins.findCoin(coin)
  if (isCoinReady(ctx, record) && !(await isCopy(ctx.database.connection))) return
  throw new Refusal(
    'currency_not_configured',
    record?.configured === true
      ? `${coin} cannot be taken now, because its node or wallet is out of reach or halted; GET /api/v1/currencies says what is ready.`
      : `The operator has not set ${coin} up; GET /api/v1/currencies says what is ready.`,
    { field: 'currency' },
  )
}

/**
 * Not stored: take it before the transaction of what it is for, insert it within. `expiresAt` in Unix
 * seconds.
 *
 * @throws Refusal `currency_not_configured`; `rate_unavailable`; `unavailable` if no address could be had
 */
export async function prepareInvoice(
  ctx: Context,
  asked: { agentId: string; coin: Coin; priceUsdCents: number; expiresAt: number },
): Promise<InvoiceRecord> {
  await requireReady(ctx, asked.coin)
  const rate = await findFreshRate(ctx, asked.coin)
  const address = await takeAddress(ctx, asked.coin)
  const { agentId, priceUsdCents: cents, expiresAt } = asked
  return newInvoice({ agentId, at: nowSeconds(ctx), cents, rate, address, expiresAt })
}

/** Not stored. `cents` of USD; `at` and `expiresAt` in Unix seconds. */
export function newInvoice(fields: {
  agentId: string
  at: number
  cents: number
  rate: RateRecord
  address: AddressRecord
  expiresAt: number
}): InvoiceRecord {
  const { agentId, at, cents, rate, address, expiresAt } = fields
  return {
    _id: newId('invoice'),
    agent_id: agentId,
    at,
    coin: rate._id,
    price_usd_cents: cents,
    amount_raw: String(priceAt(cents, rate)),
    rate: rate.usd,
    rate_source: rate.source,
    rate_at: rate.at,
    address: address.address,
    address_index: address.index,
    expires_at: expiresAt,
    lapsed: false,
    received_raw: '0',
    carried_raw: '0',
    moved_raw: '0',
    unspent: '0',
    credited_days: 0,
    version: 0,
  }
}

const POOL_RETRY_MS = 50

/** @returns false if Redis is away */
function askForAddresses(ctx: Context, coin: Coin): Promise<boolean> {
  const stock = ctx.coins.stock(coin)
  return ctx.queues.enqueue(COIN_FACTS[coin].queues.fill, stock, { debounceId: stock.holder })
}

/** Asks the workers for a first stock of addresses for this process. */
export async function prepareAddresses(ctx: Context): Promise<void> {
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  for (const { _id, configured } of await ctx.coins.listCoins())
    if (configured) await askForAddresses(ctx, _id)
}

/** A worker is asked for more if there is none, and waited for. */
async function takeAddress(ctx: Context, coin: Coin): Promise<AddressRecord> {
  const deadlineMs = performance.now() + ADDRESS_WAIT_MS
  for (let asked = false; ;) {
    const address = await ctx.coins.takeAddress(coin)
    if (address !== undefined) return address
    if (performance.now() >= deadlineMs)
      throw new Refusal('unavailable', `No address for ${coin} came in time; nothing was stored, try again.`)
    if (!asked) asked = await askForAddresses(ctx, coin)
    await sleep(POOL_RETRY_MS)
  }
}

/**
 * As stored; a worker is asked for a fresh look, at most once in 2 s (`isAsked` false if it couldn't be).
 *
 * @throws Refusal `no_such_invoice`, for a stranger's too
 */
export async function checkInvoice(
  ctx: Context,
  agentId: string,
  invoiceId: string,
): Promise<{ checked: CheckedInvoice; isAsked: boolean }> {
  const invoice = await ctx.invoices.find(invoiceId)
  if (invoice === undefined || invoice.agent_id !== agentId)
    throw new Refusal('no_such_invoice', 'You have no invoice with this id.', { field: 'invoice_id' })
  const nowMs = ctx.databaseNow()
  const coin = await ctx.coins.findCoin(invoice.coin)
  const isAsked = coin?.configured !== true || (await askForLook(ctx, invoice, nowMs))
  const money = await readMoney(ctx, invoice)
  const agent = await ctx.agents.find(agentId)
  const { required_confirmations: base = 1, checked_at: checkedAt } = coin ?? {}
  const checked: CheckedInvoice = {
    ...money,
    requiredConfirmations: requiredConfirmations(invoice, base),
    isReachable: isChainReachable(ctx, coin),
    checkedAt,
    passUntilMs: agent?.pass_until_ms,
  }
  return { checked, isAsked }
}

const asking = new Map<string, Promise<boolean>>()

/** Callers at once ask once, and one look at an invoice waits. @returns false if it could not be asked for */
function askForLook(ctx: Context, invoice: InvoiceRecord, nowMs: number): Promise<boolean> {
  const { _id, coin, check_asked_ms: askedMs } = invoice
  if (askedMs !== undefined && Math.abs(nowMs - askedMs) < CHECK_EVERY_MS) return Promise.resolve(true)
  const ask = async (): Promise<boolean> => {
    if (!(await ctx.invoices.askForLook(_id, nowMs, CHECK_EVERY_MS))) return true
    if (await ctx.queues.enqueue(COIN_FACTS[coin].queues.check, { invoice_id: _id }, { debounceId: _id }))
      return true
    await ctx.invoices.forgetLook(_id, nowMs)
    return false
  }
  let asked = asking.get(_id)
  if (asked === undefined) {
    asked = ask().finally(() => asking.delete(_id))
    asking.set(_id, asked)
  }
  return asked
}

const MONEY_READS = 5

/** As of one moment: the version counts with each payment that is noted or settled. */
async function readMoney(ctx: Context, known: InvoiceRecord) {
  let invoice = known
  for (let reads = 1; ; reads++) {
    const newest =
      invoice.has_payments === true ? await ctx.invoices.listPayments(known._id, MAX_PAYMENTS_SHOWN + 1) : []
    const [isUnderWayNow, after = invoice] = await Promise.all([
      isUnderWay(ctx, invoice),
      ctx.invoices.find(known._id),
    ])
    if (after.version === invoice.version || reads === MONEY_READS)
      return {
        invoice,
        payments: newest.slice(-MAX_PAYMENTS_SHOWN),
        isTruncated: newest.length > MAX_PAYMENTS_SHOWN,
        isUnderWay: isUnderWayNow,
      }
    invoice = after
  }
}

export const isUnderWay = async (ctx: Context, invoice: InvoiceRecord): Promise<boolean> =>
  invoice.has_payments === true && ctx.invoices.isUnderWay(invoice._id)

/** @param base as the coin's worker tells them */
export function requiredConfirmations(
  invoice: Pick<InvoiceRecord, 'coin' | 'order_id'>,
  base: number,
): number {
  return COIN_FACTS[invoice.coin].requiredConfirmations(invoice, base)
}
