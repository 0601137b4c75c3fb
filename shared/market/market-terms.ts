import { HOUR_MS, SECOND_MS } from '../foundation/time.ts'

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
/** What a deadline that fell into an outage of the API gets, from the first request that was served. */
export const OUTAGE_GRACE_MS = HOUR_MS

/** A coin's longest address: an integrated one of Monero has 106 characters. */
export const MAX_ADDRESS_LENGTH = 110

/** How often an API process notes that it serves. A deadline is acted on once a later note is there. */
export const SERVING_BEAT_MS = SECOND_MS
/** No API process wrote for longer than this: an outage. A restart, or a pause of a busy machine, is none. */
export const OUTAGE_GAP_MS = 15 * SECOND_MS
export const DEADLINE_SLACK_MS = SERVING_BEAT_MS + SECOND_MS / 2
/** The sweep takes a deadline whose own job has not come by then. */
export const DEADLINE_OVERDUE_SECONDS = 5

export const MAX_ORDERS_SHOWN = 50
/** Of one side of an order, the newest: whoever pays a paid order on in crumbs is owed each of them. */
export const MAX_PAYOUTS_SHOWN = 200
export const MAX_ACCOUNTS_SHOWN = 1_000
