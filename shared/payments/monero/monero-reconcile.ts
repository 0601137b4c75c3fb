import { isDuplicateKey } from '../../database.ts'
import { newId } from '../../ids.ts'
import { unixSeconds } from '../../time.ts'
import { readIndexFile } from '../address-pool.ts'
import { haltToReconcile } from '../coin-round.ts'
import { dustThreshold } from '../coin.ts'
import { ANYWHERE, holdSuspects } from '../due-payouts.ts'
import { NodeUnreachable } from '../node-errors.ts'
import { adoptTransfers, moveTransfer } from '../payout-service.ts'
import type { TransferRecord } from '../payout.ts'
import type { FoundSend, StrayMoney } from '../reconciliation-store.ts'
import { firstCompared, listUnknownOutgoing } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'
import { readSigned } from './monero-send.ts'
import { takeInPayments } from './monero-watch.ts'
import type { MoneroOutgoing } from './monero-wallet.ts'

/*
 * The way on after a database was restored, or the wallet was used elsewhere. The coin is halted all the while, and goes
 * on at the end.
 *
 *   - The wallet that is open is the venue's from now on, and makes again the addresses that it lacks.
 *   - Payments that were not counted are.
 *   - Transactions of the wallet that the database did not know are stored as confirmed; one that is not confirmed yet has
 *     to be waited for. Whatever is owed to where they went is held for the operator, now and whenever it becomes owed
 *     later, until the operator has accounted for them; where the wallet does not know where one went, everything is.
 *   - A transaction of ours under way, which the wallet does not have while what it spends is spent: every other one of the
 *     wallet's is confirmed, so one of those has spent it for good, and what it was to pay is owed again.
 *   - Addresses that were made ahead are retired.
 */

/** @throws NodeUnreachable: the coin stays halted, and what was put on record stays; it may be run again */
export async function reconcileMonero(ctx: MoneroContext): Promise<void> {
  const { wallet } = ctx.monero
  const { record, reason } = await haltToReconcile(ctx, 'xmr')
  const address = await wallet.primaryAddress()
  const height = await wallet.getHeight()
  await makeLackingAddresses(ctx)
  const sinceHeight = firstCompared(record, height)
  const unknown = await listUnknownOutgoing(ctx, sinceHeight)
  const unconfirmed = unknown.find(({ confirmations }) => confirmations < ctx.config.monero.confirmations)
  if (unconfirmed !== undefined)
    throw new NodeUnreachable(`transaction ${unconfirmed.txHash} is not confirmed yet; reconcile again once it is`)
  const { payments, strays } = await takeInPayments(ctx, sinceHeight, height)
  const sends: FoundSend[] = []
  for (const transaction of unknown) await adopt(ctx, transaction, sends)
  await giveBackReplaced(ctx)
  const _id = newId('reconciliation')
  const held = await holdSuspects(ctx, 'xmr', _id)
  await ctx.coins.retireFree('xmr')
  const at = unixSeconds(ctx.now())
  const stray = await nameStrays(ctx, strays)
  await ctx.reconciliations.insert({
    _id,
    coin: 'xmr',
    at,
    reason,
    transactions: unknown.length,
    payments,
    sends,
    stray,
    held_payout_ids: held,
  })
  await ctx.coins.report('xmr', { height }, at)
  await ctx.coins.noteTreasury('xmr', { treasury_address: address })
  await ctx.coins.resume('xmr')
  ctx.log.warn(
    { reconciliation_id: _id, transactions: unknown.length, payments, sends: sends.length, held: held.length, stray: stray.length },
    'Monero is reconciled and goes on',
  )
}

async function makeLackingAddresses(ctx: MoneroContext): Promise<void> {
  const { wallet, indexFile } = ctx.monero
  const wanted = Math.max(await ctx.coins.highestIndex('xmr'), readIndexFile(indexFile).highest) + 1
  const lacking = wanted - (await wallet.subaddressCount())
  if (lacking > 0) await wallet.createSubaddresses(lacking)
}

/** Puts one transaction on record. */
async function adopt(ctx: MoneroContext, found: MoneroOutgoing, sends: FoundSend[]): Promise<void> {
  const at = unixSeconds(ctx.now())
  const addresses = found.destinations.map(({ address }) => address)
  // What pays the wallet itself alone has no amount.
  const isSend = found.amountPico > 0n && !(await ctx.payouts.isPaidByHand('xmr', found.txHash))
  const to = addresses.length === 0 ? [ANYWHERE] : addresses
  const transfer: TransferRecord = {
    _id: newId('transfer'),
    coin: 'xmr',
    kind: found.amountPico > 0n ? 'payout' : 'other',
    tx: found.txHash,
    signed: JSON.stringify({ height: found.height }),
    amount_raw: String(found.amountPico),
    fee_raw: String(found.feePico),
    payment_ids: [],
    payout_ids: [],
    state: 'confirmed',
    at,
    changed_at: at,
    reason: 'found by a reconciliation',
    ...(isSend ? { unexplained_to: to } : {}),
  }
  try {
    await adoptTransfers(ctx, [transfer])
  } catch (error) {
    // A reconciliation that runs beside this one was faster.
    if (!isDuplicateKey(error)) throw error
    return
  }
  if (isSend) sends.push({ tx: found.txHash, to, amount_raw: transfer.amount_raw })
}

async function giveBackReplaced(ctx: MoneroContext): Promise<void> {
  for (const transfer of await ctx.payouts.listTransfers('xmr', ['signed', 'sent', 'held'], 1)) {
    const spent = await ctx.monero.wallet.spentKeyImages(readSigned(transfer).keyImages)
    const { state } = await ctx.monero.wallet.findOutgoing(transfer.tx)
    if (spent.length === 0 || state === 'pool' || state === 'confirmed') continue
    if (await moveTransfer(ctx, transfer, ['signed', 'sent', 'held'], 'replaced', 'what it spends is spent by another transaction'))
      ctx.log.warn(
        { transfer_id: transfer._id, tx: transfer.tx },
        'a transaction of ours can never be confirmed any more; what it was to pay is owed again',
      )
  }
}

/** Money at addresses that no invoice has, by minor index. */
async function nameStrays(ctx: MoneroContext, strays: ReadonlyMap<number, bigint>): Promise<StrayMoney[]> {
  const addresses = new Map((await ctx.coins.listAddresses('xmr', [...strays.keys()])).map(({ index, address }) => [index, address]))
  return [...strays]
    .filter(([index, amountRaw]) => index > 0 && amountRaw >= dustThreshold('xmr'))
    .map(([index, amountRaw]) => ({
      address: addresses.get(index) ?? `subaddress 0/${index}`,
      address_index: index,
      amount_raw: String(amountRaw),
    }))
}
