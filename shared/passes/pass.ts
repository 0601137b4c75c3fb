import { z } from 'zod'
import {
  PRICE_USD_CENTS_PER_DAY,
  REFERRAL_PRICE_USD_CENTS_PER_DAY,
  REFERRAL_THRESHOLD,
} from '../platform/limits.ts'
import { isoTimeView } from '../platform/schema.ts'
import { DAY_MS } from '../platform/time.ts'

export const freeCreditView = z.object({
  free: z.literal(true),
  credited_days: z.int().describe('whole days added; 0 if the free period ends sooner'),
  pass_until: isoTimeView(),
})

/** Whether a pass's end lies ahead. Times are milliseconds since the epoch. */
export function isPassActive(passUntilMs: number | undefined, nowMs: number): boolean {
  return passUntilMs !== undefined && passUntilMs > nowMs
}

/**
 * Returns the end of a pass after a paid credit: whole days on top of the later of now and the present end.
 * Times are milliseconds since the epoch.
 *
 * @param passUntilMs the present end; undefined if the agent has had no pass
 */
export function endAfterPaidDays(passUntilMs: number | undefined, nowMs: number, days: number): number {
  return Math.max(nowMs, passUntilMs ?? 0) + days * DAY_MS
}

/**
 * Returns the end of a pass after a free credit, which never reaches past the end of the free period and
 * never shortens a pass: max(end, min(max(now, end) + days, freeUntil)). Times are milliseconds since the
 * epoch.
 *
 * @returns the new end, and how many whole days it adds, which may be 0
 */
export function endAfterFreeDays(
  passUntilMs: number | undefined,
  nowMs: number,
  days: number,
  freeUntilMs: number,
): { untilMs: number; creditedDays: number } {
  const startMs = Math.max(nowMs, passUntilMs ?? 0)
  const untilMs = Math.max(passUntilMs ?? 0, Math.min(startMs + days * DAY_MS, freeUntilMs))
  return { untilMs, creditedDays: Math.max(0, Math.floor((untilMs - startMs) / DAY_MS)) }
}

/** What becomes of a pass if days are taken back. */
export type TakenBackDays =
  | { kind: 'moves'; untilMs: number }
  /** A whole day or more of them is used. */
  | { kind: 'used_up' }

/**
 * Decides whether days can be taken back that were credited for nothing, and when the pass ends without them,
 * which may be up to a day ago. Times are milliseconds since the epoch.
 *
 * @param days whole days, above 0
 */
export function endAfterTakenBackDays(
  passUntilMs: number | undefined,
  nowMs: number,
  days: number,
): TakenBackDays {
  const untilMs = (passUntilMs ?? 0) - days * DAY_MS
  return nowMs - untilMs >= DAY_MS ? { kind: 'used_up' } : { kind: 'moves', untilMs }
}

/**
 * Whether the free period's end lies ahead; false if there is none. Times are milliseconds since the epoch.
 */
export function isFreePeriod(freeUntilMs: number | undefined, nowMs: number): boolean {
  return freeUntilMs !== undefined && freeUntilMs > nowMs
}

/**
 * Returns the price of a day for an agent, in US cents.
 *
 * @param payingReferrals how many agents that it referred have paid
 * @param isFree whether it is the free period, in which the price is 0
 */
export function priceCentsPerDay(payingReferrals: number, isFree: boolean): number {
  if (isFree) return 0
  return payingReferrals >= REFERRAL_THRESHOLD ? REFERRAL_PRICE_USD_CENTS_PER_DAY : PRICE_USD_CENTS_PER_DAY
}

/** Converts US cents to USD with at most 2 decimals, the wire form of a price. */
export function usdFromCents(cents: number): number {
  return Math.round(cents) / 100
}
