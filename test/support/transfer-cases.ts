import type { TransferRecord, TransferState } from '../../shared/money/transfer.ts'

/*
 * What becomes of a transfer by each step, from each state that it can be in. The pure rule and the stored
 * records are compared with the same table.
 */

/** A transfer in a state, with all that steps take away: it is under way, refused, and in its place. */
export const transferIn = (state: TransferState, more: Partial<TransferRecord> = {}): TransferRecord => ({
  ...{ _id: 'trf_1', coin: 'xno', kind: 'payout', tx: 'ab', signed: '{}', amount_raw: '5' },
  ...{ payment_ids: [], payout_ids: [], state, at: 1, changed_at: 1, in_flight: true, previous: 'cd' },
  ...(state === 'replaced' ? {} : { account_index: 7 }),
  refused: { at: 1, count: 1, next_at: 2, reason: 'for a test' },
  ...more,
})

/** Says in which state a transfer is, and which of those fields it has. */
export function describeTransfer({ state, in_flight, refused, account_index }: TransferRecord): string {
  const said = [
    state,
    ...(in_flight === true ? ['in flight'] : []),
    ...(refused === undefined ? [] : ['refused']),
    ...(account_index === undefined ? [] : ['in its place']),
  ]
  return said.join(', ')
}

/** Where each step leads to, by the state before; a transfer stays in all other states. */
export const TRANSFER_CASES = {
  taken: { signed: 'sent, in flight, in its place', held: 'sent, in flight, in its place' },
  held: { signed: 'held, refused, in its place', sent: 'held, refused, in its place' },
  confirmed: {
    signed: 'confirmed, in its place',
    sent: 'confirmed, in its place',
    held: 'confirmed, in its place',
  },
  replaced: { signed: 'replaced', sent: 'replaced', held: 'replaced', confirmed: 'replaced' },
  given_up: { signed: 'replaced', sent: 'replaced', held: 'replaced' },
  reinstated: { replaced: 'confirmed, in its place' },
} as const satisfies Record<string, Partial<Record<TransferState, string>>>
