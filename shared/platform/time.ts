export const SECOND_MS = 1_000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** Converts milliseconds since the epoch to whole Unix seconds, the wire form of `at` and `*_at`. */
export function unixSeconds(timeMs: number): number {
  return Math.floor(timeMs / SECOND_MS)
}

/** Now by the database's clock, in Unix seconds. @throws Refusal `unavailable` if that isn't known */
export const nowSeconds = (ctx: { readonly database: { now(): number } }): number =>
  unixSeconds(ctx.database.now())

/**
 * Writes milliseconds since the epoch as ISO 8601 in UTC with its offset, `+00:00`: the wire form of
 * `*_until`.
 */
export function isoTime(timeMs: number): string {
  return new Date(timeMs).toISOString().replace('Z', '+00:00')
}
