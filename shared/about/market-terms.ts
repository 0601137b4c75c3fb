/** What the contract fixes about the market (contract, rule 7 of the endpoints and the table of limits). */

/** Of an order's amount, whole percent, paid by the seller. */
export const MARKET_FEE_PERCENT = 20
export const MIN_ORDER_USD_CENTS = 100
export const MAX_ORDER_USD_CENTS = 500_000
/** Orders of one agent that wait for their payment. */
export const MAX_UNPAID_ORDERS = 20
