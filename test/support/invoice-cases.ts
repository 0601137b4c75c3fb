import type { InvoiceRecord } from '../../shared/money/invoice.ts'

/** An invoice as far as its end, and what money buys that comes to it, depend on it. */
export type Ending = Pick<InvoiceRecord, 'lapsed' | 'foreign' | 'order_id' | 'expires_at'>

const open: Ending = { lapsed: false, expires_at: 1_000 }

/** Every such invoice; `foreign`: its address is of another wallet. */
export const ENDINGS = {
  open,
  'of an order': { ...open, order_id: 'mkt_1' },
  lapsed: { ...open, lapsed: true },
  foreign: { ...open, foreign: true },
  'foreign, of an order': { ...open, foreign: true, order_id: 'mkt_1' },
  'foreign, lapsed': { ...open, foreign: true, lapsed: true },
} as const satisfies Record<string, Ending>
export type EndingName = keyof typeof ENDINGS
