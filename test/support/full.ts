/** Whether counts are full, and what takes minutes runs too, as by `npm run test:long`. */
export const FULL = process.env['FAULTS'] === '1'

/** Of cases that one rule decides: all if counts are full, else the first `count`. */
export const sampled = <const Case>(cases: readonly Case[], count = 1): readonly Case[] =>
  FULL ? cases : cases.slice(0, count)
