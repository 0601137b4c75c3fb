import type { Context } from '../context.ts'
import { isDuplicateKey, requireOwn, type Session } from '../servers/database.ts'
import { Refusal } from '../foundation/errors.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { createTurns } from '../foundation/one-at-a-time.ts'
import { priceInCoin, type Coin } from '../payments/coin.ts'
import { logInvoice } from '../payments/money-log.ts'
import { remainderRaw, type InvoiceRecord, type PaymentRecord } from '../payments/invoice.ts'
import { isUnderWay, prepareInvoice } from '../payments/invoice-service.ts'
import { move } from '../payments/journal.ts'
import { NOTHING_TO_DO, type Outcome, type Purpose } from '../payments/purpose.ts'
import { readFreshRate } from '../payments/rate.ts'
import { unixSeconds } from '../foundation/time.ts'
import { orderWork } from '../work/work-order.ts'
import type { WorkOrderRecord } from '../work/work.ts'
import type { Currency } from './currencies.ts'
import { noteSpent, settleMoney, spend, type Cause, type PassInvoice } from './pass-invoice.ts'
import { isFreePeriod, priceCentsPerDay } from '../passes/pass.ts'
import {
  creditFreeDays,
  creditPaidDays,
  inReferrersTurn,
  takeBackDays,
  type Credit,
} from '../passes/pass-service.ts'

/**
 * An agent's requests for the same invoice take turns within this process; across processes the unique index
 * decides.
 */
const takeTurns = createTurns()

export type Purchase =
  | { kind: 'free'; creditedDays: number; passUntilMs: number }
  | { kind: 'work'; order: WorkOrderRecord }
  | ({ kind: 'coin' } & RequestedInvoice)

interface RequestedInvoice {
  invoice: InvoiceRecord
  /** False if it was open already. */
  isNew: boolean
  /** A payment of it is seen and not yet confirmed. */
  isUnderWay: boolean
}

/**
 * Buys days with a currency: credited directly in the free period with any valid currency, configured or not;
 * else what has to be paid.
 *
 * @throws Refusal as requestPassInvoice()
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
 * The agent's invoice for pass days in a coin: the one that is open, or a new one. What earlier invoices left
 * over counts towards it.
 *
 * @throws Refusal as prepareInvoice(); `wrong_state` if one is open for other days
 */
export function requestPassInvoice(
  ctx: Context,
  agentId: string,
  coin: Coin,
  days: number,
): Promise<RequestedInvoice> {
  return takeTurns(`${agentId} ${coin}`, async () => {
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
      const other = await ctx.invoices.findOpen(agentId, coin)
      if (other === undefined) throw error
      return showAgain(ctx, other, days)
    }
  })
}

/**
 * The open one; one whose time is over, or whose address is of a wallet before, no longer stands in the way
 * of another, whether or not its chain could be looked at.
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
 * Stores a pass invoice, with what earlier ones left over moved into it; if that is enough, its days are
 * credited at once.
 */
async function insertWithRemainders(ctx: Context, fresh: PassInvoice): Promise<InvoiceRecord> {
  const { _id, agent_id: agentId, coin, at } = fresh
  const made = await ctx.database.transaction(async (session) => {
    let carried = 0n
    for (const earlier of await ctx.invoices.listRemainders(agentId, coin, session)) {
      const left = remainderRaw(earlier)
      const moved = String(BigInt(earlier.moved_raw) + left)
      const unspent = String(BigInt(earlier.unspent) - left * BigInt(earlier.days ?? 0))
      await requireOwn(
        ctx.invoices.changeMoney(earlier, { moved_raw: moved, unspent, has_remainder: false }, [], session),
        earlier._id,
      )
      carried += left
    }
    const about = { coin, at, ids: { agent_id: agentId, invoice_id: _id } }
    const carriedLine = move(`${_id}/carried`, `remainder:${agentId}`, `invoice:${_id}`, carried, about)
    const invoice = { ...fresh, carried_raw: String(carried), unspent: String(carried * BigInt(fresh.days)) }
    const { fields, entries, lines, priceRaw } = await buy(
      ctx,
      invoice,
      { source: _id, at },
      { source: `${_id}/credit`, record: { invoice_id: _id } },
      session,
    )
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

/** Spends what an invoice has on days, and credits them. */
async function buy(
  ctx: Context,
  invoice: PassInvoice,
  cause: Cause,
  of: Pick<Credit, 'source' | 'record'>,
  session: Session,
): Promise<
  Required<Pick<Outcome, 'fields' | 'lines'>> & { entries: PendingEntry[]; days: number; priceRaw: bigint }
> {
  const { addedDays: days, ...spent } = spend(invoice, cause)
  const entries =
    days === 0 ? [] : [await creditPaidDays(ctx, invoice.agent_id, days, { ...of, means: 'coin' }, session)]
  return { ...spent, entries, days }
}

/**
 * Money buys days of its agent's pass, at once or when the time is over. What the chain takes back later
 * changes no pass.
 */
export const passPurpose: Purpose = {
  ...NOTHING_TO_DO,
  inTurn: inReferrersTurn,
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
    return buy(
      ctx,
      lapsed,
      { source, at: unixSeconds(ctx.databaseNow()) },
      { source, record: { invoice_id: invoice._id } },
      session,
    )
  },
}

/** The days that a payment bought are taken back; what other payments paid buys by itself what it can. */
async function takeBack(
  ctx: Context,
  found: InvoiceRecord,
  payment: PaymentRecord,
  session: Session,
): Promise<Outcome> {
  const invoice = requireDays(found)
  const { credited_days: bought = 0, price_raw: price = invoice.amount_raw } = payment
  const amountRaw = BigInt(payment.amount_raw)
  const before = {
    ...invoice,
    received_raw: String(BigInt(invoice.received_raw) - amountRaw),
    unspent: String(
      BigInt(invoice.unspent) + BigInt(bought) * BigInt(price) - amountRaw * BigInt(invoice.days),
    ),
    credited_days: invoice.credited_days - bought,
  }
  if (BigInt(before.unspent) < 0n)
    throw new Refusal(
      'wrong_state',
      "What it left over has gone into another of the agent's invoices, so it cannot be taken back.",
    )
  const source = `${payment._id}/undone`
  const at = unixSeconds(ctx.databaseNow())
  const { fields, lines } = noteSpent(invoice, settleMoney(before, 0n), { source, at, amountRaw: -amountRaw })
  const lost = invoice.credited_days - (fields.credited_days ?? 0)
  const record = { payment_id: payment._id, invoice_id: invoice._id }
  const entries =
    lost === 0
      ? []
      : [
          await takeBackDays(
            ctx,
            invoice.agent_id,
            lost,
            { source: `${source}/days`, means: 'coin', record },
            session,
          ),
        ]
  return { fields, lines, entries }
}

function requireDays(invoice: InvoiceRecord): PassInvoice {
  if (invoice.days === undefined) throw new Error(`invoice ${invoice._id} is for no days`)
  return { ...invoice, days: invoice.days }
}

/**
 * The price of all the invoice's days at which a payment buys: late money at whichever of the invoice's rate
 * and the rate at its arrival gives fewer days.
 *
 * @returns undefined for late money that had no fresh rate at its arrival if there is none now either; `rate`
 *   for late money
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
  const then = priceInCoin(invoice.price_usd_cents, rate, invoice.coin)
  return { raw: then > amount ? then : amount, rate }
}
