import { orNoSuchAgent } from '../agents/agent.ts'
import { viewDoorbell } from '../doorbells/doorbell.ts'
import { readDoorbell } from '../doorbells/doorbell-service.ts'
import type { Context } from '../context.ts'
import { NOTHING_OWED } from '../ledger/solvency.ts'
import { MAX_ORDERS_SHOWN } from '../market/market-terms.ts'
import { isFreePeriod, isPassActive, priceCentsPerDay } from '../passes/pass.ts'
import { REFERRAL_THRESHOLD } from '../platform/limits.ts'
import type { Standing } from './standing.ts'
import { createStandingStore } from './standing-store.ts'

type StandingContext = Pick<Context, 'config' | 'database' | 'payouts' | 'orders' | 'doorbells'>

/**
 * Returns a function that reads what `GET /me` tells an agent about itself: its pass, price, messages,
 * referrals, orders that wait for it, and money that it is owed. It throws Refusal `no_such_agent`, and
 * `unavailable` if the database's time is unknown.
 */
export function createStandingReader(ctx: StandingContext): (agentId: string) => Promise<Standing> {
  const standings = createStandingStore(ctx.database.connection)
  return async (agentId) => {
    const { agent, belongings } = orNoSuchAgent(await standings.read(agentId))
    const { referred, unread, selling, buying, unpaid } = belongings
    // Most agents have none of these, and then there is no query.
    const [toDeliver, toAccept, owed, bell] = await Promise.all([
      selling === 0 ? [] : ctx.orders.listWaiting('seller', agentId, MAX_ORDERS_SHOWN),
      buying === 0 ? [] : ctx.orders.listWaiting('buyer', agentId, MAX_ORDERS_SHOWN),
      unpaid === 0 ? { all: NOTHING_OWED, withoutAddress: NOTHING_OWED } : ctx.payouts.sumOwed(agentId),
      ctx.config.doorbells.isOn ? readDoorbell(ctx, agentId) : undefined,
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
      doorbell: viewDoorbell(bell)?.state,
    }
  }
}
