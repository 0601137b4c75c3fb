import type { Context } from '../context.ts'
import { isDuplicateKey, requireChanged, type Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { priceInCoin, type Coin } from '../payments/coin.ts'
import { remainderRaw, type InvoiceRecord, type PaymentRecord } from '../payments/invoice.ts'
import { isUnderWay, logInvoice, prepareInvoice } from '../payments/invoice-service.ts'
import { move } from '../payments/journal.ts'
import type { Purpose } from '../payments/purpose.ts'
import { readFreshRate } from '../payments/rate.ts'
import { unixSeconds } from '../foundation/time.ts'
import { orderWork } from '../work/work-order.ts'
import type { WorkOrderRecord } from '../work/work.ts'
import type { Currency } from './currencies.ts'
import { toMoneySpent, settleMoney, spend, type Cause, type PassInvoice } from './pass-invoice.ts'
import { isFreePeriod, priceCentsPerDay } from '../passes/pass.ts'
import {
  creditFreeDays,
  creditPaidDays,
  serializeByReferrer,
  takeBackDays,
  type Credit,
} from '../passes/pass-service.ts'

export type Purchase =
  | { kind: 'free'; creditedDays: number; passUntilMs: number }
  | { kind: 'work'; order: WorkOrderRecord }
  | ({ kind: 'coin' } & RequestedInvoice)

interface RequestedInvoice {
  invoice: InvoiceRecord
  /** False if the invoice existed already. */
  isNew: boolean
  /** Whether a payment of it has been seen that isn't confirmed yet. */
  isUnderWay: boolean
}

/**
 * Buys days with a currency. In the free period the days are credited at once, with any valid currency,
 * configured or not; otherwise the result is a work order or an invoice.
 *
 * @param days whole days
 * @throws Refusal as creditFreeDays(), orderWork() and requestPassInvoice()
 */
export async function buyDays(
  ctx: Context,
  agentId: string,
  currency: Currency,
  days: number,
): Promise<Purchase> {
  const { freeUntilMs } = ctx.config
  if (freeUntilMs !== undefined && isFreePeriod(freeUntilMs, ctx.databaseNow()))
    return { kind: 'free', ...(await creditFreeDays(ctx, agentId, days, freeUntilMs)) }
  if (currency === 'pow') return { kind: 'work', order: await orderWork(ctx, agentId, days) }
  return { kind: 'coin', ...(await requestPassInvoice(ctx, agentId, currency, days)) }
}

/**
 * The agent's invoice for pass days in a coin: its open one, or a new one, into which the remainders of
 * earlier invoices are moved. One agent's requests are serialized within this process; across processes the
 * unique index decides.
 *
 * @throws Refusal as prepareInvoice(); `wrong_state` if an invoice for another number of days is open
 */
export function requestPassInvoice(
  ctx: Context,
  agentId: string,
  coin: Coin,
  days: number,
): Promise<RequestedInvoice> {
  return ctx.serialize(`invoice ${agentId} ${coin}`, async () => {
    const open = await findStillOpen(ctx, agentId, coin)
    if (open !== undefined) return showAgain(ctx, open, days)
    const agent = await ctx.agents.find(agentId)
    if (agent === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
    const priceUsdCents = priceCentsPerDay(agent.referrals.paying, false) * days
    const expiresAt = unixSeconds(ctx.databaseNow() + ctx.config.invoiceTtlMs)
    const invoice = await prepareInvoice(ctx, { agentId, coin, priceUsdCents, expiresAt })
    try {
      return {
        invoice: await insertWithRemainders(ctx, { ...invoice, days, open: true }),
        isNew: true,
        isUnderWay: false,
      }
    } catch (error) {
      if (!isDuplicateKey(error, 'agent_id')) throw error
      // Another process was faster; the address that this one took stays unused.
      const existing = await ctx.invoices.findOpen(agentId, coin)
      if (existing === undefined) throw error
      return showAgain(ctx, existing, days)
    }
  })
}

/**
 * The agent's open invoice. One that has expired, or whose address belongs to a former wallet, is closed
 * first, even if the chain can't be read now, so that it doesn't prevent a new one.
 */
async function findStillOpen(ctx: Context, agentId: string, coin: Coin): Promise<InvoiceRecord | undefined> {
  const open = await ctx.invoices.findOpen(agentId, coin)
  if (open === undefined || (open.foreign !== true && open.expires_at > unixSeconds(ctx.databaseNow())))
    return open
  await ctx.invoices.close(open._id)
  return undefined
}

async function showAgain(ctx: Context, invoice: InvoiceRecord, days: number): Promise<RequestedInvoice> {
  if (invoice.days === days) return { invoice, isNew: false, isUnderWay: await isUnderWay(ctx, invoice) }
  throw new Refusal(
    'wrong_state',
    `Your invoice ${invoice._id} for ${invoice.days} days is open until it is paid or expires; ask for the same days to see it, or pay it.`,
    { field: 'days' },
  )
}

/**
 * Stores a pass invoice and moves the remainders of earlier invoices into it; if they pay for it, its days
 * are credited at once.
 */
async function insertWithRemainders(ctx: Context, fresh: PassInvoice): Promise<InvoiceRecord> {
  const { _id, agent_id: agentId, coin, at } = fresh
  const made = await ctx.database.transaction(async (session) => {
    let carried = 0n
    for (const earlier of await ctx.invoices.listRemainders(agentId, coin, session)) {
      const left = remainderRaw(earlier)
      const moved = String(BigInt(earlier.moved_raw) + left)
      const unspent = String(BigInt(earlier.unspent) - left * BigInt(earlier.days ?? 0))
      const change = { moved_raw: moved, unspent, has_remainder: false }
      await requireChanged(ctx.invoices.changeMoney(earlier, change, [], session), earlier._id)
      carried += left
    }
    const about = { coin, at, ids: { agent_id: agentId, invoice_id: _id } }
    const carriedLine = move(`${_id}/carried`, `remainder:${agentId}`, `invoice:${_id}`, carried, about)
    const invoice = { ...fresh, carried_raw: String(carried), unspent: String(carried * BigInt(fresh.days)) }
    const credit = { source: `${_id}/credit`, record: { invoice_id: _id } }
    const { fields, entries, lines, priceRaw } = await buy(ctx, invoice, { source: _id, at }, credit, session)
    const { has_remainder: hasRemainder, open, ...money } = fields
    const { open: _open, ...closed } = invoice
    const stored: InvoiceRecord = {
      ...(open === false ? { ...closed, amount_raw: String(priceRaw) } : invoice),
      ...money,
      ...(hasRemainder === true ? { has_remainder: true as const } : {}),
      ...(entries.length === 0 ? {} : { pending: entries }),
    }
    await ctx.invoices.insert(stored, session)
    await ctx.journal.write([...carriedLine, ...lines], session)
    return stored
  })
  logInvoice(ctx.log, made)
  return made
}

/** Spends an invoice's money on days, and credits them. */
async function buy(
  ctx: Context,
  invoice: PassInvoice,
  cause: Cause,
  of: Pick<Credit, 'source' | 'record'>,
  session: Session,
) {
  const { addedDays: days, ...spent } = spend(invoice, cause)
  const entries: PendingEntry[] =
    days === 0 ? [] : [await creditPaidDays(ctx, invoice.agent_id, days, { ...of, means: 'coin' }, session)]
  return { ...spent, entries, days }
}

/**
 * The purpose of invoices for pass days: money buys days of the agent's pass, at once or when the invoice
 * expires. A payment that the chain reverses later changes no pass.
 */
export const passPurpose: Purpose = {
  inTurn: serializeByReferrer,
  async received(ctx, invoice, payment, session) {
    const price = await priceOf(ctx, invoice, payment)
    if (price === undefined) return undefined
    const cause = {
      source: payment._id,
      at: unixSeconds(ctx.databaseNow()),
      amountRaw: BigInt(payment.amount_raw),
      priceRaw: price.raw,
    }
    const credit = {
      source: `${payment._id}/credit`,
      record: { payment_id: payment._id, invoice_id: invoice._id },
    }
    const { days, priceRaw, ...outcome } = await buy(ctx, requireDays(invoice), cause, credit, session)
    const rate = price.rate === undefined ? {} : { arrival_rate: price.rate }
    return { ...outcome, settled: { credited_days: days, price_raw: String(priceRaw), ...rate } }
  },
  undone: takeBack,
  async expired(ctx, invoice, session) {
    const source = `${invoice._id}/lapse`
    const lapsed = { ...requireDays(invoice), lapsed: true }
    const cause = { source, at: unixSeconds(ctx.databaseNow()) }
    return buy(ctx, lapsed, cause, { source, record: { invoice_id: invoice._id } }, session)
  },
}

/** Takes back the days that a payment bought; the other payments' money buys what it can without it. */
async function takeBack(ctx: Context, found: InvoiceRecord, payment: PaymentRecord, session: Session) {
  const invoice = requireDays(found)
  const { credited_days: bought = 0, price_raw: price = invoice.amount_raw } = payment
  const amountRaw = BigInt(payment.amount_raw)
  const spent = BigInt(bought) * BigInt(price)
  const before = {
    ...invoice,
    received_raw: String(BigInt(invoice.received_raw) - amountRaw),
    unspent: String(BigInt(invoice.unspent) + spent - amountRaw * BigInt(invoice.days)),
    credited_days: invoice.credited_days - bought,
  }
  if (BigInt(before.unspent) < 0n)
    throw new Refusal(
      'wrong_state',
      "What it left over has gone into another of the agent's invoices, so it cannot be taken back.",
    )
  const source = `${payment._id}/undone`
  const cause = { source, at: unixSeconds(ctx.databaseNow()), amountRaw: -amountRaw }
  const { fields, lines } = toMoneySpent(invoice, settleMoney(before, 0n), cause)
  const lost = invoice.credited_days - (fields.credited_days ?? 0)
  if (lost === 0) return { fields, lines }
  const record = { payment_id: payment._id, invoice_id: invoice._id }
  const credit = { source: `${source}/days`, means: 'coin', record } as const
  const entry = await takeBackDays(ctx, invoice.agent_id, lost, credit, session)
  return { fields, lines, entries: [entry] }
}

function requireDays(invoice: InvoiceRecord): PassInvoice {
  if (invoice.days === undefined) throw new Error(`invoice ${invoice._id} is for no days`)
  return { ...invoice, days: invoice.days }
}

/**
 * The price of all the invoice's days at which a payment buys. Late money buys at the invoice's rate or at
 * the rate at its arrival, whichever gives fewer days.
 *
 * @returns the price, and for late money the rate; undefined for late money if there was no fresh rate at its
 *   arrival and there is none now
 */
async function priceOf(
  ctx: Context,
  invoice: InvoiceRecord,
  payment: PaymentRecord,
): Promise<{ raw: bigint; rate?: string } | undefined> {
  const amount = BigInt(invoice.amount_raw)
  if (!payment.late) return { raw: amount }
  const rate = payment.arrival_rate ?? (await readFreshRate(ctx, invoice.coin))?.usd
  if (rate === undefined) return undefined
  const priceAtArrival = priceInCoin(invoice.price_usd_cents, rate, invoice.coin)
  return { raw: priceAtArrival > amount ? priceAtArrival : amount, rate }
}
