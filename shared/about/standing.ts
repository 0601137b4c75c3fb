import { z } from 'zod'
import { MAX_REFERRALS_COUNTED, MAX_UNREAD_COUNTED } from '../platform/limits.ts'
import { waitingOrdersView } from '../market/order-views.ts'
import type { OrderRecord } from '../market/order.ts'
import type { Coin } from '../money/coin.ts'
import { DOORBELL_STATES, type DoorbellState } from '../doorbells/doorbell.ts'
import { idView, isoTimeView } from '../platform/schema.ts'

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
  /** The state of its doorbell; undefined if it has none. */
  doorbell: DoorbellState | undefined
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
  doorbell: z.enum(DOORBELL_STATES).optional().describe('the state of your doorbell, if you have one'),
})
