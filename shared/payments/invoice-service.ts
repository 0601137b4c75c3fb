import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { Refusal } from '../errors.ts'
import { newId } from '../ids.ts'
import { ADDRESS_WAIT_MS, CHECK_EVERY_MS } from '../limits.ts'
import { SECOND_MS, unixSeconds } from '../time.ts'
import type { Coin } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import type { AddressRecord, CoinRecord, RateRecord } from './coin-store.ts'
import type { CheckedInvoice, InvoiceRecord, PaymentRecord } from './invoice.ts'
import { findFreshRate, priceAt } from './rate.ts'

/** A coin whose worker has not written for so many polls is not ready, and never for less than this. */
const SILENT_POLLS = 3
const LEAST_SILENCE_MS = 60 * SECOND_MS

function isLately(ctx: Context, atSeconds: number): boolean {
  return ctx.now() - atSeconds * SECOND_MS <= Math.max(LEAST_SILENCE_MS, SILENT_POLLS * ctx.config.paymentPollMs)
}

/** The last look at the chain succeeded, and its worker has not fallen silent since. */
export function isChainReachable(ctx: Context, coin: CoinRecord | undefined): boolean {
  return coin !== undefined && coin.configured && coin.reachable && isLately(ctx, coin.alive_at)
}

/**
 * Ready: set up, its chain in reach, its wallet neither halted nor with a problem, its worker alive, and its address pool lately found to be the
 * one of the index file, so that no address of a restored database is given out.
 */
export function isCoinReady(ctx: Context, coin: CoinRecord | undefined): boolean {
  const isWell = coin?.halted === undefined && Object.keys(coin?.problems ?? {}).length === 0
  return coin !== undefined && isChainReachable(ctx, coin) && isWell && isLately(ctx, coin.pool_at ?? 0)
}

/** @throws Refusal `currency_not_configured` */
export async function requireReady(ctx: Context, coin: Coin): Promise<void> {
  const record = await ctx.coins.findCoin(coin)
  if (isCoinReady(ctx, record)) return
  throw new Refusal(
    'currency_not_configured',
    record?.configured === true
      ? `${coin} cannot be taken now, because its node or wallet is out of reach or halted; GET /api/v1/currencies says what is ready.`
      : `The operator has not set ${coin} up; GET /api/v1/currencies says what is ready.`,
    { field: 'currency' },
  )
}

/**
 * An invoice, not stored yet: take it before the transaction of what it is for, and insert it within. `expiresAt` is the
 * pay-by time in Unix seconds.
 *
 * @throws Refusal `currency_not_configured`; `rate_unavailable`; `unavailable` where no address could be had
 */
export async function prepareInvoice(
  ctx: Context,
  asked: { agentId: string; coin: Coin; priceUsdCents: number; expiresAt: number },
): Promise<InvoiceRecord> {
  await requireReady(ctx, asked.coin)
  const rate = await findFreshRate(ctx, asked.coin)
  const address = await takeAddress(ctx, asked.coin)
  const { agentId, priceUsdCents, expiresAt } = asked
  return newInvoice({ agentId, at: unixSeconds(ctx.now()), cents: priceUsdCents, rate, address, expiresAt })
}

/** An invoice at which nothing has arrived yet. */
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
    watch: 'round',
    look_after: 0,
    received_raw: '0',
    carried_raw: '0',
    moved_raw: '0',
    unspent: '0',
    credited_days: 0,
    version: 0,
  }
}

const POOL_RETRY_MS = 50

/** An address that nobody was given before. An empty pool is asked to be filled, and waited for. */
async function takeAddress(ctx: Context, coin: Coin): Promise<AddressRecord> {
  const deadlineMs = performance.now() + ADDRESS_WAIT_MS
  for (let asked = false; ;) {
    const address = await ctx.coins.takeAddress(coin)
    if (address !== undefined) return address
    if (performance.now() >= deadlineMs) {
      throw new Refusal('unavailable', `No address for ${coin} could be had in time; nothing was stored, try again.`)
    }
    if (!asked) asked = await ctx.queues.enqueue(COIN_FACTS[coin].queues.fill, {}, { debounceId: coin })
    await sleep(POOL_RETRY_MS)
  }
}

/**
 * Where an invoice of the caller stands, as it is stored; a worker is asked for a fresh look, at most once in 2 s.
 *
 * @returns `isAsked` false where the fresh look could not be asked for
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
  const nowMs = ctx.now()
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

/**
 * Asks a worker for a look, unless somebody did in the last 2 s. Callers at once in this process ask once. One look at an
 * invoice waits at a time: a coin whose worker is away gathers no heap of them.
 *
 * @returns false where it could not be asked for
 */
function askForLook(ctx: Context, invoice: InvoiceRecord, nowMs: number): Promise<boolean> {
  const { _id, coin, check_asked_ms: askedMs } = invoice
  if (askedMs !== undefined && Math.abs(nowMs - askedMs) < CHECK_EVERY_MS) return Promise.resolve(true)
  const ask = async (): Promise<boolean> => {
    if (!(await ctx.invoices.askForLook(_id, nowMs, CHECK_EVERY_MS))) return true
    if (await ctx.queues.enqueue(COIN_FACTS[coin].queues.check, { invoice_id: _id }, { debounceId: _id })) return true
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

/**
 * An invoice and its payments as of one moment: while the settled ones do not add up to what it has received, a payment was
 * settled between the two reads, and they are read again.
 */
async function readMoney(ctx: Context, known: InvoiceRecord): Promise<{ invoice: InvoiceRecord; payments: PaymentRecord[] }> {
  let invoice = known
  for (let reads = 1; ; reads++) {
    const payments = invoice.has_payments === true ? await ctx.invoices.listPayments(known._id) : []
    const settled = payments.reduce((sum, { state, amount_raw }) => (state === 'settled' ? sum + BigInt(amount_raw) : sum), 0n)
    if (String(settled) === invoice.received_raw || reads === MONEY_READS) return { invoice, payments }
    invoice = (await ctx.invoices.find(known._id)) ?? invoice
  }
}

/** Whether one of its payments is seen and not yet confirmed. */
export async function isUnderWay(ctx: Context, invoice: InvoiceRecord): Promise<boolean> {
  return invoice.has_payments === true && (await ctx.invoices.listPayments(invoice._id)).some(({ state }) => state === 'seen')
}

/** @param base what the coin asks for, by itself or by its setting */
export function requiredConfirmations(invoice: Pick<InvoiceRecord, 'coin' | 'order_id'>, base: number): number {
  return COIN_FACTS[invoice.coin].requiredConfirmations(invoice, base)
}
