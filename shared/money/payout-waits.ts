import type { Context } from '../context.ts'
import { nowSeconds } from '../platform/time.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { isHalted } from './coin-state.ts'
import type { CoinRecord } from './coin-store.ts'
import { readSendable } from './due-payouts.ts'
import { holdsOf } from './payout-steps.ts'
import type { PayoutRecord } from './payout.ts'
import { OPEN_TRANSFERS } from './transfer.ts'

/*
 * The reasons why a payout that is owed isn't sent now, and what ends each, as far as the database knows them. The
 * round that sends (payout-round.ts, due-payouts.ts) and the coin's driver decide; this says it to the operator. Not
 * here is what only that round sees: a node that refuses one payee (in the log), a transaction that is full, and a
 * payout that has changed while it was signed.
 */

export const WAIT_REASONS = {
  no_address: 'its payee has named no address yet',
  disputed: 'a payment behind it was taken back, or its order is disputed: decide the dispute',
  may_be_paid:
    'a send that nobody has accounted for, or you by hand, may have paid it: payout-paid or --owed',
  own_address: "its address is one of the venue's own: pay it by hand",
  decided: 'its order was just decided, and that can still be taken back',
  no_such_address: 'its address is none of its coin: pay it by hand',
  order_unshown: 'the chain has not shown a payment of its order that you recorded',
  below_minimum:
    'its payee is owed less than MIN_PAYOUT, or less than a hundredth of it at this address: pay',
  not_asked: 'PAYOUTS is manual in these settings, and you have not asked for it: pay, or payout-paid',
  no_worker: 'no worker tells of its coin; status says which queues have none',
  node_away: "the coin's node can't be reached, is behind, or is cut off",
  coin_not_ready: "the coin's wallet, node or proof of work isn't ready: status says why",
  coin_halted: 'wallet and books of its coin differ, or the database is a restored copy: reconcile',
  under_way: 'transactions of the same wallet are not in the chain yet; what is due goes out after them',
  fee_high: 'the network asks for a higher fee than MAX_FEE allows',
  treasury_short: 'the treasury lacks money that can be spent',
} as const

export type WaitReason = keyof typeof WAIT_REASONS

/** Lists why a payout isn't sent now, its own reasons first; none if nothing known keeps it back, or it isn't owed. */
export async function whyNotSent(ctx: Context, payout: PayoutRecord): Promise<WaitReason[]> {
  const { coin, state } = payout
  if (state !== 'owed' && (state !== 'held' || payout.transfer_id !== undefined)) return []
  // In Monero a held transaction stands in nobody's way.
  const standing = COIN_FACTS[coin].hasPublicAccounts ? OPEN_TRANSFERS : (['signed', 'sent'] as const)
  const [own, record, isStopped, open] = await Promise.all([
    reasonsOfPayout(ctx, payout),
    ctx.coins.findCoin(coin),
    isHalted(ctx, coin),
    ctx.payouts.transfers.list(coin, standing, 1),
  ])
  const isAsked = ctx.config.payouts === 'automatic' || payout.asked_at !== undefined
  return [
    ...own,
    ...(isAsked ? [] : (['not_asked'] as const)),
    ...(isStopped ? (['coin_halted'] as const) : []),
    ...reasonsOfCoin(record),
    ...(open.length === 0 ? [] : (['under_way'] as const)),
  ]
}

/** The payout's own reasons: its holds; if it has none, why the round leaves it out. */
async function reasonsOfPayout(ctx: Context, payout: PayoutRecord): Promise<WaitReason[]> {
  const { _id, coin, address = '' } = payout
  const holds = holdsOf(payout, nowSeconds(ctx)).map(({ why }) => why)
  if (holds.length > 0) return holds
  const { payouts, due, suspects } = await readSendable(ctx, coin)
  if (suspects.has(_id)) return ['may_be_paid']
  if (!payouts.some((one) => one._id === _id)) return ['order_unshown']
  if (!due.some((one) => one._id === _id)) return ['below_minimum']
  return COIN_FACTS[coin].parseAddress(address) === undefined ? ['no_such_address'] : []
}

/** What keeps back all payouts of a coin, by what its workers have stored. */
function reasonsOfCoin(record: CoinRecord | undefined): WaitReason[] {
  if (record === undefined || !record.configured) return ['no_worker']
  const reasons: WaitReason[] = []
  if (!record.reachable) reasons.push('node_away')
  if (Object.values(record.problems ?? {}).some((problem) => problem !== undefined))
    reasons.push('coin_not_ready')
  if (record.fee_high !== undefined) reasons.push('fee_high')
  if ((record.treasury_short_raw ?? '0') !== '0') reasons.push('treasury_short')
  return reasons
}
