import { z } from 'zod'
import {
  PRICE_USD_CENTS_PER_DAY,
  REFERRAL_PRICE_USD_CENTS_PER_DAY,
  REFERRAL_THRESHOLD,
} from '../foundation/limits.ts'
import { isoTimeView } from '../foundation/schema.ts'
import { DAY_MS } from '../foundation/time.ts'

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
 * The end of a pass after a paid credit: whole days on top of the later of now and the present end.
 * Times are milliseconds since the epoch.
 */
export function addPaidDays(passUntilMs: number | undefined, nowMs: number, days: number): number {
  return Math.max(nowMs, passUntilMs ?? 0) + days * DAY_MS
}

/**
 * The end of a pass after a free credit, which never reaches past the end of the free period and never
 * shortens a pass: max(end, min(max(now, end) + days, freeUntil)). Times are milliseconds since the epoch;
 * `creditedDays` counts whole days and may be 0.
 */
export function addFreeDays(
  passUntilMs: number | undefined,
  nowMs: number,
  days: number,
  freeUntilMs: number,
): { untilMs: number; creditedDays: number } {
  const startMs = Math.max(nowMs, passUntilMs ?? 0)
  const untilMs = Math.max(passUntilMs ?? 0, Math.min(startMs + days * DAY_MS, freeUntilMs))
  return { untilMs, creditedDays: Math.max(0, Math.floor((untilMs - startMs) / DAY_MS)) }
}

export function isFreePeriod(freeUntilMs: number | undefined, nowMs: number): boolean {
  return freeUntilMs !== undefined && freeUntilMs > nowMs
}

/** The price of a day for an agent, in US cents; 0 in the free period. */
export function priceCentsPerDay(payingReferrals: number, isFree: boolean): number {
  if (isFree) return 0
  return payingReferrals >= REFERRAL_THRESHOLD ? REFERRAL_PRICE_USD_CENTS_PER_DAY : PRICE_USD_CENTS_PER_DAY
}

/** Converts US cents to USD with at most 2 decimals, the wire form of a price. */
export function usdFromCents(cents: number): number {
  return Math.round(cents) / 100
}
