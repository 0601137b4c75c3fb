export const SECOND_MS = 1_000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** Milliseconds since the epoch → the wire form of `at` and `*_at`: whole Unix seconds. */
export function unixSeconds(timeMs: number): number {
  return Math.floor(timeMs / SECOND_MS)
}

/** Unix seconds by the database's clock. @throws Refusal `unavailable` */
export const nowSeconds = (ctx: { databaseNow(): number }): number => unixSeconds(ctx.databaseNow())

/** Milliseconds since the epoch → the wire form of `*_until`: ISO 8601 in UTC with its offset written out. */
export function isoTime(timeMs: number): string {
  return new Date(timeMs).toISOString().replace('Z', '+00:00')
}
