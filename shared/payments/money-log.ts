import type { Log } from '../foundation/log.ts'
import type { InvoiceRecord } from './invoice.ts'
import type { TransferRecord, TransferState } from './payout.ts'

/*
 * What the ledger doesn't say of money, a line each at info, with ids alone; ledger entries are logged with
 * their numbers.
 */

export function logInvoice(log: Log, { _id, agent_id, order_id, coin }: InvoiceRecord): void {
  log.info({ money: 'invoice', invoice_id: _id, agent_id, order_id, coin }, 'an invoice was made')
}

/** Of sweeps as of payouts. */
export function logTransfer(log: Log, transfer: TransferRecord, state: TransferState): void {
  const { _id, coin, kind, payout_ids, payment_ids } = transfer
  log.info(
    { money: 'transfer', transfer_id: _id, coin, kind, state, payout_ids, payment_ids },
    `a transaction of ours is ${state}`,
  )
}
