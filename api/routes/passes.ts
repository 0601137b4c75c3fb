import { z } from 'zod'
import { currencyMenuView, readCurrencies } from '../../shared/passes/currencies.ts'
import { freeCreditView, invoiceBody, usdFromCents } from '../../shared/passes/pass.ts'
import { buyDays } from '../../shared/passes/pass-service.ts'
import { readStanding, standingView } from '../../shared/passes/standing.ts'
import { isoTime, unixSeconds } from '../../shared/time.ts'
import { madeWorkOrderView, viewWorkOrder } from '../../shared/work/work.ts'
import { created, defineRoute, ok, type Route } from '../http/route.ts'

export function passRoutes(): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/currencies',
      access: 'optional',
      summary: 'What a day costs in each currency, and what is accepted; with a token, your own price',
      view: currencyMenuView,
      async handle({ ctx, caller }) {
        return ok(await readCurrencies(ctx, caller?._id))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/invoice',
      access: 'fresh',
      summary: 'Asks for pass days: credited at once in the free period, else an invoice or a work order',
      body: invoiceBody,
      view: z.union([freeCreditView, madeWorkOrderView]),
      statuses: [200, 201],
      errors: ['currency_not_configured'],
      async handle({ ctx, caller, body }) {
        const bought = await buyDays(ctx, caller._id, body.currency, body.days)
        if ('order' in bought) {
          const order = viewWorkOrder(bought.order, unixSeconds(ctx.now()))
          return created({ ...order, order })
        }
        return ok({ free: true as const, credited_days: bought.creditedDays, pass_until: isoTime(bought.passUntilMs) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/me',
      access: 'token',
      summary: "The caller's own standing: pass, price, referrals, and what waits for it",
      view: standingView,
      async handle({ ctx, caller }) {
        const standing = await readStanding(ctx, caller._id)
        return ok({
          agent_id: caller._id,
          handle: standing.handle ?? null,
          pass_until: standing.passUntilMs === undefined ? null : isoTime(standing.passUntilMs),
          pass_active: standing.passActive,
          price_usd_per_day: usdFromCents(standing.priceCentsPerDay),
          unread_messages: standing.unreadMessages,
          referrals: standing.referrals,
        })
      },
    }),
  ]
}
