import type { Context } from '../context.ts'
import type { InvoiceRecord } from '../payments/invoice.ts'
import { orderWork } from '../work/work-order.ts'
import type { WorkOrderRecord } from '../work/work.ts'
import { requestPassInvoice } from './pass-purchase.ts'
import { creditFreeDays } from './pass-service.ts'
import { isFreePeriod, type Currency } from './pass.ts'

export type Purchase =
  | { kind: 'free'; creditedDays: number; passUntilMs: number }
  | { kind: 'work'; order: WorkOrderRecord }
  | { kind: 'coin'; invoice: InvoiceRecord; isNew: boolean; isUnderWay: boolean }

/**
 * Buys days with a currency: credited directly in the free period with any valid currency, configured or not; else what
 * has to be paid.
 *
 * @throws Refusal for a coin, as requestPassInvoice()
 */
export async function buyDays(ctx: Context, agentId: string, currency: Currency, days: number): Promise<Purchase> {
  const { freeUntilMs } = ctx.config
  if (freeUntilMs !== undefined && isFreePeriod(freeUntilMs, ctx.now()))
    return { kind: 'free', ...(await creditFreeDays(ctx, agentId, days, freeUntilMs)) }
  if (currency === 'pow') return { kind: 'work', order: await orderWork(ctx, agentId, days) }
  return { kind: 'coin', ...(await requestPassInvoice(ctx, agentId, currency, days)) }
}
