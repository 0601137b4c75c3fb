import { z } from 'zod'
import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { NOTHING_OWED } from '../ledger/solvency.ts'
import { MAX_REFERRALS_COUNTED, MAX_UNREAD_COUNTED, REFERRAL_THRESHOLD } from '../platform/limits.ts'
import { MAX_ORDERS_SHOWN } from '../market/market-terms.ts'
import { waitingOrdersView } from '../market/order-views.ts'
import type { OrderRecord } from '../market/order.ts'
import type { Coin } from '../money/coin.ts'
import { idView, isoTimeView } from '../platform/schema.ts'
import { isFreePeriod, isPassActive, priceCentsPerDay } from '../passes/pass.ts'
import { createStandingStore } from './standing-store.ts'

type StandingContext = Pick<Context, 'config' | 'database' | 'payouts' | 'orders'>

/** What `GET /me` tells an agent about itself. */
export interface Standing {
  handle: string | undefined
  passUntilMs: number | undefined
  passActive: boolean
  /** US cents for a day of pass; 0 in the free period. */
  priceCentsPerDay: number
  /** Counted up to MAX_UNREAD_COUNTED. */
  unreadMessages: number
  /** `registered` is counted up to MAX_REFERRALS_COUNTED. */
  referrals: { registered: number; paying: number; threshold: number }
  /** Orders that wait for it as the seller, and as the buyer; each at most MAX_ORDERS_SHOWN. */
  toDeliver: OrderRecord[]
  toAccept: OrderRecord[]
  /** What it is owed, in the coin's smallest unit; `withoutAddress`: the part that waits for an address. */
  owed: { all: Record<Coin, bigint>; withoutAddress: Record<Coin, bigint> }
}

export const standingView = z.object({
  agent_id: idView('agent'),
  handle: z.string().nullable(),
  pass_until: isoTimeView().nullable(),
  pass_active: z.boolean(),
  price_usd_per_day: z.number(),
  unread_messages: z.int().describe(`counted up to ${MAX_UNREAD_COUNTED}`),
  referrals: z.object({
    registered: z.int().describe(`counted up to ${MAX_REFERRALS_COUNTED}`),
    paying: z.int(),
    threshold: z.int(),
  }),
  ...waitingOrdersView,
})

/**
 * Returns a function that reads what `GET /me` tells an agent about itself: its pass, price, messages,
 * referrals, orders that wait for it, and money that it is owed. It throws Refusal `no_such_agent`, and
 * `unavailable` if the database's time is unknown.
 */
export function createStandingReader(ctx: StandingContext): (agentId: string) => Promise<Standing> {
  const standings = createStandingStore(ctx.database.connection)
  return async (agentId) => {
    const found = await standings.read(agentId)
    if (found === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
    const { agent, belongings } = found
    const { referred, unread, selling, buying, unpaid } = belongings
    // Most agents have none of these, and then there is no query.
    const [toDeliver, toAccept, owed] = await Promise.all([
      selling === 0 ? [] : ctx.orders.listWaiting('seller', agentId, MAX_ORDERS_SHOWN),
      buying === 0 ? [] : ctx.orders.listWaiting('buyer', agentId, MAX_ORDERS_SHOWN),
      unpaid === 0 ? { all: NOTHING_OWED, withoutAddress: NOTHING_OWED } : ctx.payouts.sumOwed(agentId),
    ])
    const nowMs = ctx.database.now()
    return {
      handle: agent.handle,
      passUntilMs: agent.pass_until_ms,
      passActive: isPassActive(agent.pass_until_ms, nowMs),
      priceCentsPerDay: priceCentsPerDay(agent.referrals.paying, isFreePeriod(ctx.config.freeUntilMs, nowMs)),
      unreadMessages: unread,
      referrals: { registered: referred, ...agent.referrals, threshold: REFERRAL_THRESHOLD },
      toDeliver,
      toAccept,
      owed,
    }
  }
}
