import { orNoSuchAgent } from '../agents/agent.ts'
import type { Context } from '../context.ts'
import { isDuplicateKey, unavailable, type Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { priceInCoin, type Coin } from '../money/coin.ts'
import type { InvoiceRecord } from '../money/invoice.ts'
import type { PaymentRecord } from '../money/arrival.ts'
import { isUnderWay, logInvoice, prepareInvoice } from '../money/invoice-service.ts'
import { decideInvoice } from '../money/invoice-steps.ts'
import { move } from '../money/journal.ts'
import type { Outcome, Purpose } from '../money/purpose.ts'
import { readFreshRate } from '../money/rate.ts'
import { unixSeconds } from '../platform/time.ts'
import { orderWork } from './work-order.ts'
import type { WorkOrderRecord } from './work.ts'
import type { Currency } from './currencies.ts'
import {
  carryRemainder,
  computeMoneySpent,
  computeMoneyTakenBack,
  type Cause,
  type PassInvoice,
} from './pass-invoice.ts'
import { isFreePeriod, priceCentsPerDay } from './pass.ts'
import {
  creditFreeDays,
  creditPaidDays,
  serializeByReferrer,
  takeBackDays,
  type Credit,
} from './pass-service.ts'

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
 * configured or not. Otherwise nothing is credited yet: the result is a work order or an invoice, which may
 * have existed before.
 *
 * @param days whole days
 * @throws Refusal `no_such_agent`; `wrong_state` if there are too many open work orders, today's allowance is
 *   used up, or an invoice for another number of days is open; `currency_not_configured`; `rate_unavailable`;
 *   `unavailable`
 */
export async function buyDays(
  ctx: Context,
  agentId: string,
  currency: Currency,
  days: number,
): Promise<Purchase> {
  const { freeUntilMs } = ctx.config
  if (freeUntilMs !== undefined && isFreePeriod(freeUntilMs, ctx.database.now()))
    return { kind: 'free', ...(await creditFreeDays(ctx, agentId, days, freeUntilMs)) }
  if (currency === 'pow') return { kind: 'work', order: await orderWork(ctx, agentId, days) }
  return { kind: 'coin', ...(await requestPassInvoice(ctx, agentId, currency, days)) }
}

/**
 * Returns the agent's invoice for pass days in a coin: its open one, or else a new one that it stores, into
 * which the remainders of earlier invoices are moved. One agent's requests are serialized within this
 * process; across processes the unique index decides.
 *
 * @throws Refusal `no_such_agent`; `wrong_state` if an invoice for another number of days is open;
 *   `currency_not_configured`; `rate_unavailable`; `unavailable` if no address could be had
 */
export function requestPassInvoice(
  ctx: Context,
  agentId: string,
  coin: Coin,
  days: number,
): Promise<RequestedInvoice> {
  return ctx.database.serialize(`invoice ${agentId} ${coin}`, async () => {
    const open = await keepOpenOrClose(ctx, agentId, coin)
    if (open !== undefined) return showOpenInvoice(ctx, open, days)
    const agent = orNoSuchAgent(await ctx.agents.find(agentId))
    const priceUsdCents = priceCentsPerDay(agent.referrals.paying, false) * days
    const expiresAt = unixSeconds(ctx.database.now() + ctx.config.invoiceTtlMs)
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
      // It is closed again, or an election has taken it back.
      if (existing === undefined) throw unavailable(error)
      return showOpenInvoice(ctx, existing, days)
    }
  })
}

/**
 * Returns the agent's open invoice if it can still be paid. One whose time is over, or whose address belongs
 * to a former wallet, is closed instead, even if the chain can't be read now, so that it doesn't prevent a
 * new one.
 *
 * @returns undefined if there was none, or it has been closed
 */
async function keepOpenOrClose(
  ctx: Context,
  agentId: string,
  coin: Coin,
): Promise<InvoiceRecord | undefined> {
  const open = await ctx.invoices.findOpen(agentId, coin)
  if (open === undefined) return undefined
  if (decideInvoice(open, 'closed', unixSeconds(ctx.database.now())).kind === 'stays') return open
  await ctx.invoices.close(open._id)
  return undefined
}

/**
 * Returns an open invoice as the result of a request. @throws Refusal `wrong_state` if it is for other days
 */
async function showOpenInvoice(
  ctx: Context,
  invoice: InvoiceRecord,
  days: number,
): Promise<RequestedInvoice> {
  if (invoice.days === days) return { invoice, isNew: false, isUnderWay: await isUnderWay(ctx, invoice) }
  throw new Refusal(
    'wrong_state',
    `Your invoice ${invoice._id} for ${invoice.days} days is open until it is paid or expires; ask for the same days to see it, or pay it.`,
    { field: 'days' },
  )
}

/**
 * Stores a new pass invoice and moves the remainders of earlier invoices into it; if they pay for it, its
 * days are credited at once.
 *
 * @returns the invoice as stored
 */
async function insertWithRemainders(ctx: Context, newInvoice: PassInvoice): Promise<InvoiceRecord> {
  const { _id, agent_id: agentId, coin, at } = newInvoice
  const storedInvoice = await ctx.database.transaction(async (session) => {
    let carried = 0n
    for (const earlier of await ctx.invoices.listRemainders(agentId, coin, session)) {
      const { fields, remainder } = carryRemainder(earlier)
      await ctx.invoices.changeMoney(earlier, fields, [], session)
      carried += remainder
    }
    const details = { coin, at, ids: { agent_id: agentId, invoice_id: _id } }
    const carriedLines = move(`${_id}/carried`, `remainder:${agentId}`, `invoice:${_id}`, carried, details)
    const invoice = {
      ...newInvoice,
      carried_raw: String(carried),
      unspent: String(carried * BigInt(newInvoice.days)),
    }
    const credit = { source: `${_id}/credit`, record: { invoice_id: _id } }
    const cause = { source: _id, at }
    const { fields, entries, lines, priceRaw } = await spendAndCredit(ctx, invoice, cause, credit, session)
    const { has_remainder: hasRemainder, open, ...money } = fields
    const stored: InvoiceRecord = { ...invoice, ...money }
    if (open === false) {
      delete stored.open
      stored.amount_raw = String(priceRaw)
    }
    if (hasRemainder === true) stored.has_remainder = true
    if (entries.length > 0) stored.pending = entries
    await ctx.invoices.insert(stored, session)
    await ctx.journal.write([...carriedLines, ...lines], session)
    return stored
  })
  logInvoice(ctx.log, storedInvoice)
  return storedInvoice
}

/**
 * Spends an invoice's money on days and credits them to the agent's pass. The caller stores the invoice's
 * fields, the ledger entries and the journal lines that it returns, in the same transaction.
 *
 * @param credit what the ledger entry says of the credit
 */
async function spendAndCredit(
  ctx: Context,
  invoice: PassInvoice,
  cause: Cause,
  credit: Pick<Credit, 'source' | 'record'>,
  session: Session,
) {
  const { addedDays: days, ...spent } = computeMoneySpent(invoice, cause)
  const entries: PendingEntry[] = []
  if (days > 0)
    entries.push(await creditPaidDays(ctx, invoice.agent_id, days, { ...credit, means: 'coin' }, session))
  return { ...spent, entries, days }
}

/**
 * The purpose of invoices for pass days: money buys days of the agent's pass, at once or when the invoice
 * expires. A payment that the chain reverses later changes no pass.
 */
export const passPurpose: Purpose = {
  inTurn: serializeByReferrer,
  async received(ctx, invoice, payment, session) {
    const price = await findPurchasePrice(ctx, invoice, payment)
    if (price === undefined) return { kind: 'waits', for: 'rate' }
    const cause = {
      source: payment._id,
      at: unixSeconds(ctx.database.now()),
      amountRaw: BigInt(payment.amount_raw),
      priceRaw: price.raw,
    }
    const credit = {
      source: `${payment._id}/credit`,
      record: { payment_id: payment._id, invoice_id: invoice._id },
    }
    const { days, priceRaw, ...outcome } = await spendAndCredit(
      ctx,
      requirePassInvoice(invoice),
      cause,
      credit,
      session,
    )
    const rate = price.rate === undefined ? {} : { arrival_rate: price.rate }
    const settled = { credited_days: days, price_raw: String(priceRaw), ...rate }
    return { kind: 'buys', outcome: { ...outcome, settled } }
  },
  undone: takeBackPayment,
  async expired(ctx, invoice, session) {
    const source = `${invoice._id}/lapse`
    const lapsed = { ...requirePassInvoice(invoice), lapsed: true }
    const cause = { source, at: unixSeconds(ctx.database.now()) }
    return spendAndCredit(ctx, lapsed, cause, { source, record: { invoice_id: invoice._id } }, session)
  },
}

/**
 * Takes back the days that a payment bought, as far as the money of the invoice's other payments doesn't buy
 * them.
 *
 * @returns what the caller stores: the invoice's fields, the journal lines, and an entry if the pass got
 *   shorter
 * @throws Refusal `wrong_state` if a part of the payment has gone into another invoice as a remainder
 */
async function takeBackPayment(
  ctx: Context,
  storedInvoice: InvoiceRecord,
  payment: PaymentRecord,
  session: Session,
): Promise<Outcome> {
  const invoice = requirePassInvoice(storedInvoice)
  const source = `${payment._id}/undone`
  const { lostDays, fields, lines } = computeMoneyTakenBack(invoice, payment, {
    source,
    at: unixSeconds(ctx.database.now()),
  })
  if (lostDays === 0) return { fields, lines }
  const record = { payment_id: payment._id, invoice_id: invoice._id }
  const credit = { source: `${source}/days`, means: 'coin', record } as const
  const entry = await takeBackDays(ctx, invoice.agent_id, lostDays, credit, session)
  return { fields, lines, entries: [entry] }
}

/** Returns the invoice as one for pass days. @throws Error if it is for an order */
function requirePassInvoice(invoice: InvoiceRecord): PassInvoice {
  if (invoice.days === undefined) throw new Error(`invoice ${invoice._id} is for no days`)
  return { ...invoice, days: invoice.days }
}

/**
 * Finds the price of all the invoice's days at which a payment buys. Late money buys at the invoice's rate or
 * at the rate at its arrival, whichever gives fewer days; without a rate of its arrival, the present rate is
 * read.
 *
 * @returns the price in the coin's smallest unit, and for late money the rate in USD; undefined for late
 *   money if there is no rate of its arrival and no fresh one now
 */
async function findPurchasePrice(
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
