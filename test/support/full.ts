/** Whether counts are full, and what takes minutes runs too, as by `npm run test:long`. */
export const FULL = process.env['FAULTS'] === '1'
