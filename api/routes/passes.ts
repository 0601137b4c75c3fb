import { waitQuery } from '../../shared/events/event.ts'
import { numberEvents } from '../../shared/events/event-service.ts'
import { z } from 'zod'
import type { Context } from '../../shared/context.ts'
import { ADDRESS_WAIT_MS } from '../../shared/platform/limits.ts'
import { currencyMenuView, invoiceBody, readCurrencies } from '../../shared/passes/currencies.ts'
import { freeCreditView, usdFromCents } from '../../shared/passes/pass.ts'
import { buyDays, type Purchase } from '../../shared/passes/pass-purchase.ts'
import { standingView } from '../../shared/about/standing.ts'
import { createStandingReader } from '../../shared/about/standing-service.ts'
import { createCoinMenu } from '../../shared/money/coin-menu.ts'
import { checkInvoice } from '../../shared/money/invoice-service.ts'
import {
  checkInvoiceBody,
  checkedInvoiceView,
  madeInvoiceView,
  viewCheckedInvoice,
  viewMadeInvoice,
} from '../../shared/money/invoice-views.ts'
import { viewWaiting } from '../../shared/market/order-views.ts'
import { isoTime, unixSeconds } from '../../shared/platform/time.ts'
import { madeWorkOrderView, viewWorkOrder } from '../../shared/passes/work.ts'
import { accepted, created, defineRoute, ok, type Route } from '../http/route.ts'

/** The routes of a pass: currencies, invoices, and the caller's standing. */
export function passRoutes(ctx: Context): Route[] {
  const readCoins = createCoinMenu(ctx)
  const readStanding = createStandingReader(ctx)
  return [
    defineRoute({
      method: 'GET',
      path: '/currencies',
      operation: 'listCurrencies',
      access: 'optional',
      summary: 'What a day costs in each currency, and what is accepted; with a token, your own price',
      view: currencyMenuView,
      async handle({ ctx, caller }) {
        return ok(await readCurrencies(ctx, caller?._id, await readCoins()))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/invoice',
      operation: 'createInvoice',
      access: 'fresh',
      summary: 'Asks for pass days: credited at once in the free period, else an invoice or a work order',
      body: invoiceBody,
      view: z.union([freeCreditView, madeWorkOrderView, madeInvoiceView]),
      statuses: [200, 201],
      errors: ['currency_not_configured', 'rate_unavailable', 'wrong_state'],
      patienceMs: ADDRESS_WAIT_MS,
      async handle({ ctx, caller, body }) {
        const bought = await buyDays(ctx, caller._id, body.currency, body.days)
        const isNew = bought.kind === 'work' || (bought.kind === 'coin' && bought.isNew)
        return (isNew ? created : ok)(viewPurchase(bought, unixSeconds(ctx.database.now())))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/invoice/check',
      operation: 'checkInvoice',
      access: 'fresh',
      summary:
        'Where an invoice stands and what its money bought; asks the workers for a fresh look at the chain',
      body: checkInvoiceBody,
      view: checkedInvoiceView,
      statuses: [200, 202],
      errors: ['no_such_invoice'],
      async handle({ ctx, caller, body }) {
        const { checked, isAsked } = await checkInvoice(ctx, caller._id, body.invoice_id)
        return (isAsked ? ok : accepted)(viewCheckedInvoice(checked))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/me',
      operation: 'getStanding',
      access: 'token',
      summary:
        "The caller's own standing: pass, price, referrals, and what waits for it; with `wait`, once any of it may have changed",
      query: z.object({ wait: waitQuery() }),
      view: standingView,
      async wait({ ctx, caller, query }) {
        if (query.wait === 0) return undefined
        const { seq: seqBefore } = await numberEvents(ctx, caller)
        return {
          seconds: query.wait,
          async look() {
            const { seq } = await numberEvents(ctx, caller)
            return { found: seq !== seqBefore, seq }
          },
        }
      },
      async handle({ caller }) {
        const standing = await readStanding(caller._id)
        return ok({
          agent_id: caller._id,
          handle: standing.handle ?? null,
          pass_until: standing.passUntilMs === undefined ? null : isoTime(standing.passUntilMs),
          pass_active: standing.passActive,
          price_usd_per_day: usdFromCents(standing.priceCentsPerDay),
          unread_messages: standing.unreadMessages,
          referrals: standing.referrals,
          ...viewWaiting(standing),
          ...(standing.doorbell === undefined ? {} : { doorbell: standing.doorbell }),
        })
      },
    }),
  ]
}

/** Returns a purchase of days as answers show it: credited days, a work order, or an invoice. */
function viewPurchase(
  bought: Purchase,
  nowSeconds: number,
): z.input<typeof freeCreditView> | z.input<typeof madeWorkOrderView> | z.input<typeof madeInvoiceView> {
  if (bought.kind === 'free')
    return { free: true, credited_days: bought.creditedDays, pass_until: isoTime(bought.passUntilMs) }
  if (bought.kind === 'work') {
    const order = viewWorkOrder(bought.order, nowSeconds)
    return { ...order, order }
  }
  return viewMadeInvoice(bought.invoice, bought.isUnderWay)
}
