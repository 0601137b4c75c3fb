import { HOUR_MS, SECOND_MS } from '../platform/time.ts'

// Contract, rule 7 of the endpoints and the table of limits.

/** Of an order's amount, whole percent, paid by the seller. */
export const MARKET_FEE_PERCENT = 20
export const MIN_ORDER_USD_CENTS = 100
export const MAX_ORDER_USD_CENTS = 500_000

/** Orders of one agent that wait for their payment. */
export const MAX_UNPAID_ORDERS = 20
/** Open offers of one agent: half of the longest list. */
export const MAX_OPEN_OFFERS = 100
export const MAX_TITLE_LENGTH = 120
export const MAX_DESCRIPTION_LENGTH = 4_000
export const MIN_DELIVERY_HOURS = 0.001
export const MAX_DELIVERY_HOURS = 720
export const MAX_DELIVERY_BYTES = 64 * 1024
export const MAX_REASON_LENGTH = 2_000
/** How long after the first request after an outage of the API a deadline that fell into it is put off. */
export const OUTAGE_GRACE_MS = HOUR_MS

/** A coin's longest address: an integrated one of Monero has 106 characters. */
export const MAX_ADDRESS_LENGTH = 110

/** How often an API process notes that it serves. A deadline is acted on once a later note is there. */
export const SERVED_NOTE_MS = SECOND_MS
/** A longer time without such a note is an outage. A restart, or a pause of a busy machine, is shorter. */
export const OUTAGE_GAP_MS = 15 * SECOND_MS
/** How long after a deadline its job runs: by then a later note is there. */
export const DEADLINE_SLACK_MS = SERVED_NOTE_MS + SECOND_MS / 2
/** The sweep takes a deadline that has been over for this long, in case its own job was lost. */
export const DEADLINE_OVERDUE_SECONDS = 5

export const MAX_ORDERS_SHOWN = 50
/** Of one side of an order, the newest. There may be many: each payment beyond the price is owed back. */
export const MAX_PAYOUTS_SHOWN = 200
export const MAX_ACCOUNTS_SHOWN = 1_000
