/* What the service answers, as far as it is about money. */

export interface PayoutView {
  payout_id: string
  amount_raw: string
  state: 'owed' | 'signed' | 'sent' | 'confirmed' | 'held' | 'manual' | 'withdrawn'
  frozen: boolean
  address: string | null
  tx_hash: string | null
}

export interface OrderView {
  order_id: string
  status: 'awaiting_payment' | 'paid' | 'delivered' | 'disputed' | 'released' | 'paid_out' | 'refunded' | 'expired'
  amount_raw: string
  fee_raw: string
  pay_by: number
  deliver_by: number | null
  accept_by: number | null
  payment_seen_at: number | null
  disputed_by: 'buyer' | 'chain' | null
  payouts: PayoutView[]
}

export interface PaymentView {
  payment_id: string
  tx_hash: string
  amount_raw: string
  state: string
  credited_days: number
  price_raw?: string
}

export interface InvoiceView {
  invoice_id: string
  status: 'awaiting_payment' | 'confirming' | 'underpaid' | 'settled' | 'expired'
  amount_raw: string
  days?: number
  expires_at: number
  paid_raw: string
  carried_raw: string
  remaining: string
  remainder_raw: string
  moved_raw: string
  credited_days: number
  payments: PaymentView[]
}

export interface Entry {
  id: number
  kind: string
  data: Record<string, unknown>
}

export const sum = (items: readonly { amount_raw: string }[]): bigint =>
  items.reduce((total, { amount_raw: raw }) => total + BigInt(raw), 0n)

/** A payout that is neither with its payee nor given up. */
export const isOpen = ({ state }: PayoutView): boolean => !['confirmed', 'manual', 'withdrawn'].includes(state)
