import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import { ADDRESS_WAIT_MS, CHECK_EVERY_MS } from '../platform/limits.ts'
import type { Log } from '../platform/log.ts'
import { isCopy } from '../platform/copy.ts'
import { SECOND_MS, nowSeconds } from '../platform/time.ts'
import type { Coin } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import type { CoinRecord, RateRecord } from './coin-store.ts'
import type { AddressRecord } from './address-store.ts'
import { MAX_PAYMENTS_SHOWN, type InvoiceRecord } from './invoice.ts'
import type { CheckedInvoice } from './invoice-views.ts'
import { priceAt, requireFreshRate } from './rate.ts'

/** A coin's worker counts as dead after 3 polls without a report, but not within a minute. */
const SILENT_POLLS = 3
const LEAST_SILENCE_MS = 60 * SECOND_MS

/** Whether a worker that last reported at `reportedAt` (Unix seconds) counts as alive. */
export function isAlive(ctx: Context, reportedAt: number): boolean {
  const silenceMs = ctx.database.now() - reportedAt * SECOND_MS
  return silenceMs <= Math.max(LEAST_SILENCE_MS, SILENT_POLLS * ctx.config.paymentPollMs)
}

/** Whether a living worker of the coin says that it reaches the chain. */
export const isChainReachable = (ctx: Context, coin: CoinRecord | undefined): boolean =>
  coin !== undefined && coin.configured && coin.reachable && isAlive(ctx, coin.alive_at)

/** Whether a coin can be paid with: chain reachable, not halted, no problem, address pool lately filled. */
export function isCoinReady(ctx: Context, coin: CoinRecord | undefined): boolean {
  if (coin === undefined || !isChainReachable(ctx, coin)) return false
  const hasProblem = coin.halted !== undefined || Object.keys(coin.problems ?? {}).length > 0
  return !hasProblem && isAlive(ctx, coin.pool_at ?? 0)
}

/** @throws Refusal `currency_not_configured` unless the coin is ready and the database is not a copy */
export async function requireReady(ctx: Context, coin: Coin): Promise<void> {
  const record = await ctx.coins.findCoin(coin)
  if (isCoinReady(ctx, record) && !(await isCopy(ctx.database.connection))) return
  const why =
    record?.configured === true
      ? `${coin} cannot be taken now, because its node or wallet is out of reach or halted`
      : `The operator has not set ${coin} up`
  const message = `${why}; GET /api/v1/currencies says what is ready.`
  throw new Refusal('currency_not_configured', message, { field: 'currency' })
}

/**
 * Makes an invoice without storing it: the caller does so in the transaction of what it pays for, after this.
 *
 * @param asked `expiresAt` in Unix seconds
 * @throws Refusal `currency_not_configured`; `rate_unavailable`; `unavailable` if no address could be had
 */
export async function prepareInvoice(
  ctx: Context,
  asked: { agentId: string; coin: Coin; priceUsdCents: number; expiresAt: number },
): Promise<InvoiceRecord> {
  await requireReady(ctx, asked.coin)
  const rate = await requireFreshRate(ctx, asked.coin)
  const address = await takeAddress(ctx, asked.coin)
  return newInvoice({ ...asked, at: nowSeconds(ctx), rate, address })
}

/** Makes an invoice's record; `at` and `expiresAt` in Unix seconds. */
export function newInvoice(fields: {
  agentId: string
  at: number
  priceUsdCents: number
  rate: RateRecord
  address: AddressRecord
  expiresAt: number
}): InvoiceRecord {
  const { agentId, at, priceUsdCents, rate, address, expiresAt } = fields
  return {
    _id: newId('invoice'),
    agent_id: agentId,
    at,
    coin: rate._id,
    price_usd_cents: priceUsdCents,
    amount_raw: String(priceAt(priceUsdCents, rate)),
    rate: rate.usd,
    rate_source: rate.source,
    rate_at: rate.at,
    address: address.address,
    address_index: address.index,
    expires_at: expiresAt,
    lapsed: false,
    ...NO_MONEY,
    credited_days: 0,
    version: 0,
  }
}

const NO_MONEY = { received_raw: '0', carried_raw: '0', moved_raw: '0', unspent: '0' } as const

/** Asks the workers to fill this process's stock of addresses. @returns false if Redis is away */
function askForAddresses(ctx: Context, coin: Coin): Promise<boolean> {
  const stock = ctx.coins.addresses.stock(coin)
  return ctx.queues.enqueue(COIN_FACTS[coin].queues.fill, stock, { debounceId: stock.holder })
}

/** Asks for a first stock of addresses, of every coin that is set up. */
export async function prepareAddresses(ctx: Context): Promise<void> {
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  for (const { _id, configured } of await ctx.coins.listCoins())
    if (configured) await askForAddresses(ctx, _id)
}

const POOL_RETRY_MS = 50

/**
 * Takes an address of this process's stock; if that is empty, asks a worker for more and waits.
 *
 * @throws Refusal `unavailable` if none came within ADDRESS_WAIT_MS
 */
async function takeAddress(ctx: Context, coin: Coin): Promise<AddressRecord> {
  const deadlineMs = performance.now() + ADDRESS_WAIT_MS
  for (let asked = false; ;) {
    const address = await ctx.coins.addresses.take(coin)
    if (address !== undefined) return address
    if (performance.now() >= deadlineMs)
      throw new Refusal('unavailable', `No address for ${coin} came in time; nothing was stored, try again.`)
    if (!asked) asked = await askForAddresses(ctx, coin)
    await sleep(POOL_RETRY_MS)
  }
}

/**
 * Reads an agent's invoice with its payments as stored, and asks a worker to scan its address, at most
 * once in 2 s.
 *
 * @returns `isAsked`: false if no worker could be asked
 * @throws Refusal `no_such_invoice`, also for another agent's invoice
 */
export async function checkInvoice(ctx: Context, agentId: string, invoiceId: string) {
  const invoice = await ctx.invoices.find(invoiceId)
  if (invoice === undefined || invoice.agent_id !== agentId)
    throw new Refusal('no_such_invoice', 'You have no invoice with this id.', { field: 'invoice_id' })
  const nowMs = ctx.database.now()
  const coin = await ctx.coins.findCoin(invoice.coin)
  const isAsked = coin?.configured !== true || (await askForScan(ctx, invoice, nowMs))
  const money = await readMoney(ctx, invoice)
  const agent = await ctx.agents.find(agentId)
  const checked: CheckedInvoice = {
    ...money,
    requiredConfirmations: requiredConfirmations(invoice, coin?.required_confirmations ?? 1),
    isReachable: isChainReachable(ctx, coin),
    checkedAt: coin?.checked_at,
    passUntilMs: agent?.pass_until_ms,
  }
  return { checked, isAsked }
}

/** Asks a worker to scan an invoice's address, at most every 2 s. @returns false if Redis is away */
async function askForScan(ctx: Context, invoice: InvoiceRecord, nowMs: number): Promise<boolean> {
  const { _id, check_asked_ms: askedMs } = invoice
  if (askedMs !== undefined && Math.abs(nowMs - askedMs) < CHECK_EVERY_MS) return true
  const { scansBeingAsked } = ctx.invoices
  const asked =
    scansBeingAsked.get(_id) ?? enqueueScan(ctx, invoice, nowMs).finally(() => scansBeingAsked.delete(_id))
  scansBeingAsked.set(_id, asked)
  return asked
}

/**
 * Stores that a scan is asked for, and asks a worker.
 *
 * @returns false, with nothing stored, if Redis is away
 */
async function enqueueScan(ctx: Context, { _id, coin }: InvoiceRecord, nowMs: number): Promise<boolean> {
  if (!(await ctx.invoices.askForScan(_id, nowMs, CHECK_EVERY_MS))) return true
  const { check } = COIN_FACTS[coin].queues
  if (await ctx.queues.enqueue(check, { invoice_id: _id }, { debounceId: _id })) return true
  await ctx.invoices.forgetScan(_id, nowMs)
  return false
}

const MAX_MONEY_READS = 5

/** Reads invoice and payments as of one moment: `version` changes with each payment noted or settled. */
async function readMoney(ctx: Context, known: InvoiceRecord) {
  const { _id } = known
  let invoice = known
  for (let reads = 1; ; reads++) {
    const newest =
      invoice.has_payments === true
        ? await ctx.invoices.arrivals.listPayments(_id, MAX_PAYMENTS_SHOWN + 1)
        : []
    const [isSeen, after = invoice] = await Promise.all([isUnderWay(ctx, invoice), ctx.invoices.find(_id)])
    const payments = newest.slice(-MAX_PAYMENTS_SHOWN)
    const isTruncated = newest.length > MAX_PAYMENTS_SHOWN
    if (after.version === invoice.version || reads === MAX_MONEY_READS)
      return { invoice, payments, isTruncated, isUnderWay: isSeen }
    invoice = after
  }
}

/** Whether a payment of the invoice is `seen`, and not settled yet. */
export const isUnderWay = async (ctx: Context, invoice: InvoiceRecord): Promise<boolean> =>
  invoice.has_payments === true && ctx.invoices.arrivals.isUnderWay(invoice._id)

/** The confirmations that an invoice's payment needs. @param base the coin's, as its worker reports them */
export const requiredConfirmations = (invoice: InvoiceRecord, base: number): number =>
  COIN_FACTS[invoice.coin].requiredConfirmations(invoice, base)

export function logInvoice(log: Log, { _id, agent_id, order_id, coin }: InvoiceRecord): void {
  log.info({ money: 'invoice', invoice_id: _id, agent_id, order_id, coin }, 'an invoice was made')
}
