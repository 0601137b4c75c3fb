import type { Context } from '../context.ts'
import { commit } from '../crypto/commitment.ts'
import type { Session } from '../database.ts'
import { newId, newStepId } from '../ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { notePayoutStep } from '../market/order-payouts.ts'
import { unixSeconds } from '../time.ts'
import type { Coin } from './coin.ts'
import type { PayoutRecord, PayoutState, TransferRecord, TransferState } from './payout.ts'

/** A sum that the venue owes from now on, with its ledger entry; store it in the transaction of what it is owed for. */
export function newPayout(fields: {
  source: string
  coin: Coin
  agentId: string
  orderId: string
  amountRaw: bigint
  address: string | undefined
  at: number
}): PayoutRecord {
  const { source, coin, agentId, orderId, amountRaw, address, at } = fields
  if (amountRaw <= 0n) throw new TypeError(`"amountRaw" expected more than 0, got ${amountRaw}`)
  const payout: PayoutRecord = {
    _id: newId('payout'),
    source,
    coin,
    agent_id: agentId,
    order_id: orderId,
    amount_raw: String(amountRaw),
    ...(address === undefined ? {} : { address }),
    state: 'owed',
    at,
    changed_at: at,
    salt: newSalt(),
  }
  return { ...payout, pending: [payoutEntry(payout, 'owed', at)] }
}

/**
 * A payout's step in the ledger. The amount stands in the clear, since sums owed are public; address and transaction do
 * not. `attempt` tells apart a step that a payout takes twice, because its first transfer was replaced.
 */
function payoutEntry(payout: PayoutRecord, step: PayoutState, at: number, tx?: string, attempt?: string): PendingEntry {
  return {
    source: `${payout._id}/${step}${attempt === undefined ? '' : `/${attempt}`}`,
    at,
    kind: 'payout',
    data: {
      payout_id: payout._id,
      ...(payout.order_id === undefined ? {} : { order_id: payout.order_id }),
      coin: payout.coin,
      amount_raw: payout.amount_raw,
      step,
      ...(tx === undefined ? {} : { tx_hash: commit(Buffer.from(payout.salt, 'hex'), { tx }) }),
    },
  }
}

/**
 * Stores a signed transfer, and turns its payouts `signed` with it, in one transaction: only after it may be broadcast.
 *
 * @throws a duplicate-key error where the account's place, or the one place in flight, is taken
 * @throws Error where one of its payouts is no longer owed, or frozen: nothing is stored, and the transfer must be dropped
 */
export async function storeTransfer(ctx: Context, transfer: TransferRecord): Promise<void> {
  await storeTransfers(ctx, [transfer])
}

/** Several of them, or none. @throws what storeTransfer() throws */
export async function storeTransfers(ctx: Context, transfers: readonly TransferRecord[]): Promise<void> {
  await ctx.database.transaction(async (session) => {
    await ctx.payouts.insertTransfers(transfers, session)
    for (const transfer of transfers) await movePayouts(ctx, transfer, ['owed'], 'signed', session)
  })
}

const PAYOUT_STATE: Record<TransferState, PayoutState> = {
  signed: 'signed',
  sent: 'sent',
  confirmed: 'confirmed',
  held: 'held',
  replaced: 'owed',
}

/**
 * A transfer's next state, and its payouts' with it. `replaced` (its inputs are proven spent by another transaction) gives
 * its payouts back to be sent anew.
 *
 * @returns false where it is in none of the states `from`
 */
export async function moveTransfer(
  ctx: Context,
  transfer: TransferRecord,
  from: readonly TransferState[],
  to: TransferState,
  reason?: string,
): Promise<boolean> {
  return (await moveTransfers(ctx, [transfer], from, to, reason)) === 1
}

/** Several of them, each that is in one of the states `from`, in one transaction. @returns how many that were */
export async function moveTransfers(
  ctx: Context,
  transfers: readonly TransferRecord[],
  from: readonly TransferState[],
  to: TransferState,
  reason?: string,
): Promise<number> {
  if (transfers.length === 0) return 0
  const payoutsFrom = [...new Set(from.map((state) => PAYOUT_STATE[state]))]
  return ctx.database.transaction(async (session) => {
    const at = unixSeconds(ctx.now())
    let moved = 0
    for (const transfer of transfers) {
      if (!(await ctx.payouts.moveTransfer(transfer._id, from, to, at, reason, session))) continue
      await movePayouts(ctx, transfer, payoutsFrom, PAYOUT_STATE[to], session)
      moved++
    }
    return moved
  })
}

async function movePayouts(
  ctx: Context,
  transfer: TransferRecord,
  from: readonly PayoutState[],
  to: PayoutState,
  session: Session,
): Promise<void> {
  if (transfer.payout_ids.length === 0) return
  const at = unixSeconds(ctx.now())
  for (const payout of await ctx.payouts.findMany(transfer.payout_ids, session)) {
    // One that was paid by hand before its transfer was stored is none of the transfer's: below it throws.
    if (payout.state === 'manual' && to !== 'signed') {
      // The operator paid it by hand while its transfer was held; what the transfer did after that is the operator's to settle.
      ctx.log.error(
        { payout_id: payout._id, transfer_id: transfer._id, transfer_state: to },
        'a payout was paid by hand, and its transfer took another step',
      )
      continue
    }
    const isReturned = to === 'owed'
    const change = {
      state: to,
      changed_at: at,
      transfer_id: isReturned ? null : transfer._id,
      tx: isReturned ? null : transfer.tx,
    }
    const entry = payoutEntry(payout, to, at, isReturned ? undefined : transfer.tx, transfer._id)
    if (!(await ctx.payouts.move(payout._id, from, change, entry, session)))
      throw new Error(`payout ${payout._id} is ${payout.state}${payout.frozen ? ' and frozen' : ''}, so it cannot become ${to}`)
    await notePayoutStep(ctx, payout, to, session)
  }
}

/**
 * Puts sums that are owed aside for the operator, because a transaction that nobody has accounted for may have paid them.
 * Those that are owed no more stay as they are.
 *
 * @param because names the occasion in the ledger entry's source. A payout may be held again for the same one, after the
 *   operator found it owed: each time is a step of its own
 * @returns the ids of those that are held now
 */
export async function holdPayouts(ctx: Context, payoutIds: readonly string[], because: string): Promise<string[]> {
  const held: string[] = []
  for (const payoutId of payoutIds) {
    // Out here, so that a transaction that is run again makes the same entry.
    const attempt = `${because}/${newStepId()}`
    const isHeld = await ctx.database.transaction(async (session) => {
      const payout = await ctx.payouts.find(payoutId, session)
      if (payout === undefined) return false
      const at = unixSeconds(ctx.now())
      const entry = payoutEntry(payout, 'held', at, undefined, attempt)
      if (!(await ctx.payouts.move(payoutId, ['owed'], { state: 'held', changed_at: at }, entry, session))) return false
      await notePayoutStep(ctx, payout, 'held', session)
      return true
    })
    if (isHeld) held.push(payoutId)
  }
  return held
}

/**
 * The operator has found that a sum put aside by holdPayouts() was not paid: it is owed again.
 *
 * @returns false where it is not held, or held with a transaction of its own, which may still pay it
 */
export async function oweAgain(ctx: Context, payoutId: string): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const payout = await ctx.payouts.find(payoutId, session)
    if (payout === undefined || payout.state !== 'held' || payout.transfer_id !== undefined) return false
    const at = unixSeconds(ctx.now())
    const entry = payoutEntry(payout, 'owed', at, undefined, newStepId())
    if (!(await ctx.payouts.move(payoutId, ['held'], { state: 'owed', changed_at: at }, entry, session))) return false
    await notePayoutStep(ctx, payout, 'owed', session)
    return true
  })
}

/**
 * The operator has accounted for a transaction that a reconciliation found: payouts to its payee are held no more. The
 * ledger entry is carried by the coin's last reconciliation.
 *
 * @returns false where it is none that waits to be accounted for, or the coin was never reconciled to the end
 */
export async function explainTransfer(ctx: Context, coin: Coin, tx: string): Promise<boolean> {
  const [transfer, reconciliation] = await Promise.all([ctx.payouts.findTransferByTx(coin, tx), ctx.reconciliations.last(coin)])
  if (transfer === undefined || reconciliation === undefined) return false
  const entry: PendingEntry = {
    source: `${reconciliation._id}/explained/${transfer._id}`,
    at: unixSeconds(ctx.now()),
    kind: 'reconcile',
    data: { reconciliation_id: reconciliation._id, step: 'explained', coin, transfer_id: transfer._id },
  }
  return ctx.database.transaction(async (session) => {
    if (!(await ctx.payouts.setExplained(coin, tx, session))) return false
    await ctx.reconciliations.addEntry(reconciliation._id, entry, session)
    return true
  })
}

/**
 * The operator has paid by hand and says with which transaction.
 *
 * @returns false where the payout is in no state to be paid by hand: only one that is owed or held, has an address and is not frozen
 */
export async function markPaidByHand(ctx: Context, payoutId: string, tx: string): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const payout = await ctx.payouts.find(payoutId, session)
    if (payout?.address === undefined || payout.frozen === true) return false
    const at = unixSeconds(ctx.now())
    const change = { state: 'manual' as const, changed_at: at, tx }
    if (!(await ctx.payouts.move(payoutId, ['owed', 'held'], change, payoutEntry(payout, 'manual', at, tx), session))) return false
    await notePayoutStep(ctx, payout, 'manual', session)
    return true
  })
}

/**
 * A sum is owed no more, because the operator decided its order otherwise after the chain had taken a payment back.
 *
 * @throws Error where it is not owed any more
 */
export async function withdrawPayout(ctx: Context, payout: PayoutRecord, session: Session): Promise<void> {
  const at = unixSeconds(ctx.now())
  const change = { state: 'withdrawn' as const, changed_at: at }
  if (!(await ctx.payouts.move(payout._id, ['owed'], change, payoutEntry(payout, 'withdrawn', at), session)))
    throw new Error(`payout ${payout._id} is not owed, so it cannot be withdrawn`)
}
