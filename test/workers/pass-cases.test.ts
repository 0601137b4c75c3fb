import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Context } from '../../shared/context.ts'
import { parseAmount } from '../../shared/money/coin.ts'
import { expireInvoices } from '../../shared/money/invoice-expiry.ts'
import { recordPayment } from '../../shared/money/record-arrival.ts'
import { undoPayment } from '../../shared/money/payment-undo.ts'
import { creditFreeDays, creditPaidDays, takeBackDays } from '../../shared/passes/pass-service.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { newId } from '../../shared/platform/ids.ts'
import { DAY_MS, nowSeconds } from '../../shared/platform/time.ts'
import { foundAt, makeCoinReady } from '../support/coins.ts'
import {
  END_NAMES,
  PASS_CASES,
  PASS_EVENTS,
  PASS_EVENT_NAMES,
  TAKEN_BACK_CASES,
  describeEnd,
  endAt,
  type EndName,
  type PassEventName,
} from '../support/pass-cases.ts'
import { startService, type TestService } from '../support/service.ts'

let service: TestService
let ctx: Context
beforeAll(async () => {
  service = await startService({ queues: [] })
  ctx = service.ctx
})
// A coin whose worker is silent for a minute is not ready, and a busy machine takes longer than that for all of it.
beforeEach(() => makeCoinReady(ctx, 'xno', { addresses: 5 }))
afterAll(() => service.stop())

const untilOf = async (agentId: string) => (await ctx.agents.find(agentId))?.pass_until_ms

/** Brings an event about. @returns the days that it has credited */
async function bringAbout(name: PassEventName, agentId: string, nowMs: number): Promise<number> {
  const event = PASS_EVENTS[name]
  if (event.kind === 'free')
    return (await creditFreeDays(ctx, agentId, event.days, nowMs + event.freeMs)).creditedDays
  const credit = { source: newId('payment'), means: 'coin', record: {} } as const
  const store = event.kind === 'paid' ? creditPaidDays : takeBackDays
  const entry = await ctx.database.transaction((session) => store(ctx, agentId, event.days, credit, session))
  return Number(entry.data['days'])
}

describe('a stored pass', () => {
  it.each(PASS_EVENT_NAMES)('ends when the table says once %s', async (event) => {
    const found: Partial<Record<EndName, string>> = {}
    for (const name of END_NAMES) {
      const { id } = await service.register()
      const nowMs = ctx.database.now()
      const before = endAt(name, nowMs)
      if (before !== undefined) await ctx.agents.movePassEnd(id, undefined, before, [])
      try {
        const days = await bringAbout(event, id, nowMs)
        found[name] = describeEnd((await untilOf(id)) ?? 0, nowMs, days)
      } catch (error) {
        if (!(error instanceof Refusal && error.code === 'wrong_state')) throw error
        expect(await untilOf(id)).toBe(before)
        found[name] = 'used up'
      }
    }
    expect(found).toEqual(PASS_CASES[event])
  })
})

describe('of a payment that the operator takes back', () => {
  const buy = async (token: string) => {
    const { json } = await service.call('POST', '/invoice', { token, body: { currency: 'xno', days: 3 } })
    return String(json['invoice_id'])
  }
  const inCoins = (raw: string) => Number((BigInt(raw) * 10n) / parseAmount('1', 'xno')) / 10

  it.each(Object.entries(TAKEN_BACK_CASES))('%s, there stands what the table says', async (_name, one) => {
    const { id: agentId, token } = await service.register()
    const id = await buy(token)
    const read = async () => {
      const invoice = await ctx.invoices.find(id)
      if (invoice === undefined) throw new Error('the invoice is gone')
      return invoice
    }
    for (const amount of one.payments) await recordPayment(ctx, foundAt(await read(), { amount }), 'operator')
    if (one.after === 'lapse') {
      const past = nowSeconds(ctx) - 1
      await ctx.invoices.models.invoices.updateOne({ _id: id }, { $set: { expires_at: past } })
      await expireInvoices(ctx, 'xno', nowSeconds(ctx))
      expect((await read()).lapsed).toBe(true)
    }
    if (one.after === 'next invoice') await buy(token)
    const until = await untilOf(agentId)
    if (one.after === 'use')
      await ctx.agents.movePassEnd(agentId, until, ctx.database.now() + 1.9 * DAY_MS, [])
    const before = await untilOf(agentId)
    const payment = (await ctx.invoices.arrivals.listPayments(id))
      .toSorted((a, b) => (a._id < b._id ? -1 : 1))
      .at(one.taken)
    const why = await undoPayment(ctx, payment?._id ?? '').then(
      () => undefined,
      (error: unknown) => {
        if (error instanceof Refusal && error.code === 'wrong_state') return error.message
        throw error
      },
    )
    const lost = Math.round(((before ?? 0) - ((await untilOf(agentId)) ?? 0)) / DAY_MS)
    const { credited_days: days, received_raw: received } = await read()
    const stands = `${lost} days less: ${days} days for ${inCoins(received)}`
    if (why !== undefined) expect(lost).toBe(0)
    expect(why ?? stands).toBe(one.comes)
  })
})
