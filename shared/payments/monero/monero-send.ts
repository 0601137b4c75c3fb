import { z } from 'zod'
import { isDuplicateKey, isOutage } from '../../database.ts'
import { newId } from '../../ids.ts'
import { MINUTE_MS, SECOND_MS, unixSeconds } from '../../time.ts'
import type { CoinRecord } from '../coin-store.ts'
import { isHalted, untilNodeFails } from '../coin-round.ts'
import { isPayable, listDue, noteTreasury, sumDue, type DueGroup } from '../due-payouts.ts'
import { NodeRefused } from '../node-errors.ts'
import { moveTransfer, storeTransfers } from '../payout-service.ts'
import type { TransferRecord } from '../payout.ts'
import { parseMoneroAddress } from './monero-address.ts'
import { compareOutgoing, readHeight } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'
import { MAX_DESTINATIONS, MONERO_ERROR, type MoneroPrepared } from './monero-wallet.ts'

/**
 * What the venue owes in Monero goes out from its wallet, up to 15 payees in one transaction, each once the sum it is owed
 * reaches MIN_PAYOUT_XMR. What holds:
 *
 * - One transaction is under way at a time, guarded by a unique index: what a second process signs beside it is dropped.
 * - The order of writes: 1 the transaction is signed and neither sent nor its inputs reserved; 2 it is stored, together
 *   with the payouts that it pays; 3 it is relayed; 4 that it was is stored; 5 that it is confirmed. A death before 2
 *   leaves nothing, one after 2 a transaction on record, and the same one is relayed until it is confirmed: it can be in
 *   the chain once, however often it is sent.
 * - Before anything is signed the wallet's transactions are compared with those on record (monero-chain.ts).
 * - What is refused is looked into and never signed anew here. Only `operator reconcile` gives its payouts back, where the
 *   transaction's inputs are proven spent by another one.
 */

/** Payouts that one destination pays; the others of the same payee are in the next transaction. */
const MAX_PAYOUTS_IN_DESTINATION = 50
/** The wallet takes no larger amount. */
const MAX_AMOUNT_PICO = BigInt(Number.MAX_SAFE_INTEGER)
/** A transaction that the network refuses is put aside for the operator after so long. */
const HOLD_AFTER_MS = 10 * MINUTE_MS

/** One round. With PAYOUTS=manual nothing new is signed; what is under way is seen to its end all the same. */
export async function sendMonero(ctx: MoneroContext): Promise<void> {
  if (await isHalted(ctx, 'xmr')) return
  await untilNodeFails(ctx, 'xmr', () => sendRound(ctx))
}

async function sendRound(ctx: MoneroContext): Promise<void> {
  const coin = await ctx.coins.findCoin('xmr')
  // The first round of the watcher says from where on wallet and database are compared.
  if (coin?.height === undefined) return
  const [open] = await ctx.payouts.listTransfers('xmr', ['signed', 'sent', 'held'], 1)
  if (open === undefined && ctx.config.payouts !== 'automatic') return
  if (!(await compareOutgoing(ctx, coin, await readHeight(ctx, coin)))) return
  if (open !== undefined && !(await finishTransfer(ctx, open))) return
  if (ctx.config.payouts === 'automatic') await sendDue(ctx, coin)
}

/** Relays a transaction on record until it is confirmed. @returns whether it is */
async function finishTransfer(ctx: MoneroContext, transfer: TransferRecord): Promise<boolean> {
  const { state, confirmations } = await ctx.monero.wallet.findOutgoing(transfer.tx)
  if (state === 'confirmed') {
    await noteSent(ctx, transfer)
    return confirmations >= ctx.config.monero.confirmations && moveTransfer(ctx, transfer, ['sent', 'held'], 'confirmed')
  }
  // What was put aside is looked at and not sent.
  if (transfer.state !== 'held') await relay(ctx, transfer)
  return false
}

async function relay(ctx: MoneroContext, transfer: TransferRecord): Promise<void> {
  try {
    await ctx.monero.wallet.relay({ txHash: transfer.tx, txMetadata: readSigned(transfer).txMetadata })
  } catch (error) {
    if (!(error instanceof NodeRefused)) throw error
    await weighRefusal(ctx, transfer, error.reason)
    return
  }
  await noteSent(ctx, transfer)
}

async function noteSent(ctx: MoneroContext, transfer: TransferRecord): Promise<void> {
  if (transfer.state === 'signed') await moveTransfer(ctx, transfer, ['signed'], 'sent')
}

/** It is not taken: for a while, or because its inputs are spent. Which of them, the operator has to see. */
async function weighRefusal(ctx: MoneroContext, transfer: TransferRecord, reason: string): Promise<void> {
  const { keyImages } = readSigned(transfer)
  const isSpent = (await ctx.monero.wallet.spentKeyImages(keyImages)).length > 0
  const { state } = await ctx.monero.wallet.findOutgoing(transfer.tx)
  const about = { transfer_id: transfer._id, tx: transfer.tx, reason }
  // Its inputs are spent by itself then.
  if (state === 'pool' || state === 'confirmed') return
  if (!isSpent && ctx.now() - transfer.at * SECOND_MS <= HOLD_AFTER_MS) {
    ctx.log.warn(about, 'the Monero network does not take a transaction of ours; trying again')
    return
  }
  const why = isSpent ? 'what it spends is spent by another transaction' : 'the network refuses it'
  if (await moveTransfer(ctx, transfer, ['signed', 'sent'], 'held', `${why}: ${reason}`))
    ctx.log.error(about, `a transaction of ours is put aside for the operator: ${why}`)
}

/** Signs and sends what is due and fits into one transaction; those whose sum the wallet does not hold unlocked stay owed. */
async function sendDue(ctx: MoneroContext, coin: CoinRecord): Promise<void> {
  const due = await listDue(ctx, 'xmr', { maxPayouts: MAX_PAYOUTS_IN_DESTINATION, maxRaw: MAX_AMOUNT_PICO })
  const { totalPico, unlockedPico, blocksToUnlock } = await ctx.monero.wallet.balance()
  const { signed, lacksFee } = await signDue(ctx, due, unlockedPico)
  const left = sumDue(due) - (signed === undefined ? 0n : sumDue(signed.groups))
  const available = unlockedPico - (signed === undefined ? 0n : sumDue(signed.groups) + signed.prepared.feePico)
  const isShort = left > available || lacksFee
  if (isShort && blocksToUnlock > 0) ctx.log.debug({ blocks_to_unlock: blocksToUnlock }, 'payouts in Monero wait for money that is locked')
  await noteTreasury(ctx, 'xmr', {
    treasury_address: coin.treasury_address ?? (await ctx.monero.wallet.primaryAddress()),
    treasury_raw: String(totalPico),
    // Where the fee alone is missing, its size is not known.
    treasury_short_raw: String(isShort ? (left > available ? left - available : 1n) : 0n),
  })
  if (signed === undefined) return
  const transfer = await store(ctx, signed)
  if (transfer !== undefined) await relay(ctx, transfer)
}

/**
 * Signs for the first that can be signed for. Those whom the wallet refuses are left out and stay owed: one bad payee must
 * not stop the others.
 */
async function signDue(
  ctx: MoneroContext,
  due: readonly DueGroup[],
  unlockedPico: bigint,
): Promise<{ signed: Signed | undefined; lacksFee: boolean }> {
  const refused = new Set<DueGroup>()
  // More of them than that are no payee's fault.
  while (refused.size < MAX_DESTINATIONS) {
    const before = refused.size
    const left = due.filter((group) => !refused.has(group))
    const groups = await choose(ctx, left, unlockedPico)
    const signed = groups.length === 0 ? undefined : await sign(ctx, groups, refused)
    if (signed !== undefined || groups.length === 0) return { signed, lacksFee: false }
    if (refused.size === before) return { signed, lacksFee: true }
  }
  return { signed: undefined, lacksFee: false }
}

/**
 * Those who wait longest first, as far as the money goes. A transaction carries one payment id, encrypted for its only
 * payee: an integrated address goes alone, once it is the one that waits longest.
 */
async function choose(ctx: MoneroContext, due: readonly DueGroup[], unlockedPico: bigint): Promise<DueGroup[]> {
  const chosen: DueGroup[] = []
  const payees = new Set<string>()
  let left = unlockedPico
  for (const group of due) {
    if (chosen.length === MAX_DESTINATIONS) break
    if (group.sumRaw > left || group.sumRaw > MAX_AMOUNT_PICO || payees.has(group.address)) continue
    const isAlone = parseMoneroAddress(group.address)?.kind === 'integrated'
    if (isAlone && chosen.length > 0) continue
    if (!(await isPayable(ctx, 'xmr', group, (text) => parseMoneroAddress(text) !== undefined))) continue
    chosen.push(group)
    if (isAlone) break
    payees.add(group.address)
    left -= group.sumRaw
  }
  return chosen
}

interface Signed {
  groups: DueGroup[]
  prepared: MoneroPrepared
}

const TOO_MUCH: ReadonlySet<number | undefined> = new Set([
  MONERO_ERROR.notEnoughMoney,
  MONERO_ERROR.notEnoughUnlockedMoney,
  MONERO_ERROR.txTooLarge,
])

/**
 * Without the last of them, again and again, where the money does not reach for the fee or one transaction cannot hold it
 * all; without those that the wallet refuses also alone, where it refuses for another reason.
 *
 * @param refused takes up those
 */
async function sign(ctx: MoneroContext, chosen: readonly DueGroup[], refused: Set<DueGroup>): Promise<Signed | undefined> {
  for (let count = chosen.length; count > 0; count--) {
    const groups = chosen.slice(0, count)
    try {
      return { groups, prepared: await prepare(ctx, groups) }
    } catch (error) {
      if (!(error instanceof NodeRefused)) throw error
      const about = { err: error, destinations: count }
      if (!TOO_MUCH.has(error.code)) {
        if (count === 1) {
          refuse(ctx, chosen[0] as DueGroup, refused, error)
          return undefined
        }
        const good = await leaveOutRefused(ctx, groups, refused)
        // Each is taken alone, and not all together: one at a time, then.
        return sign(ctx, good.length === count ? good.slice(0, 1) : good, refused)
      }
      ctx.log[error.code === MONERO_ERROR.txTooLarge ? 'warn' : 'debug'](
        about,
        'payouts in Monero do not fit into one transaction, or the money does not reach for its fee',
      )
    }
  }
  return undefined
}

function prepare(ctx: MoneroContext, groups: readonly DueGroup[]): Promise<MoneroPrepared> {
  return ctx.monero.wallet.prepareTransfer(groups.map(({ address, sumRaw }) => ({ address, amountPico: sumRaw })))
}

/** Tries each alone; nothing is sent or reserved by that. @returns the others, and those for which only money lacks */
async function leaveOutRefused(ctx: MoneroContext, groups: readonly DueGroup[], refused: Set<DueGroup>): Promise<DueGroup[]> {
  const good: DueGroup[] = []
  for (const group of groups) {
    try {
      await prepare(ctx, [group])
      good.push(group)
    } catch (error) {
      if (!(error instanceof NodeRefused)) throw error
      if (TOO_MUCH.has(error.code)) good.push(group)
      else refuse(ctx, group, refused, error)
    }
  }
  return good
}

function refuse(ctx: MoneroContext, group: DueGroup, refused: Set<DueGroup>, error: NodeRefused): void {
  refused.add(group)
  const about = { err: error, payout_ids: group.payouts.map(({ _id }) => _id) }
  ctx.log.error(about, 'the Monero wallet does not sign for a payee; the payouts stay owed')
}

/** @returns undefined where it is dropped, because another is under way or a payout has changed meanwhile */
async function store(ctx: MoneroContext, { groups, prepared }: Signed): Promise<TransferRecord | undefined> {
  // Signing takes a while.
  if (await isHalted(ctx, 'xmr')) return undefined
  const at = unixSeconds(ctx.now())
  const transfer: TransferRecord = {
    _id: newId('transfer'),
    coin: 'xmr',
    kind: 'payout',
    in_flight: true,
    tx: prepared.txHash,
    signed: JSON.stringify({ txMetadata: prepared.txMetadata, keyImages: [...prepared.keyImages] } satisfies SignedMonero),
    amount_raw: String(prepared.amountPico),
    fee_raw: String(prepared.feePico),
    payment_ids: [],
    payout_ids: groups.flatMap(({ payouts }) => payouts.map(({ _id }) => _id)),
    state: 'signed',
    at,
    changed_at: at,
  }
  try {
    await storeTransfers(ctx, [transfer])
    return transfer
  } catch (error) {
    if (isDuplicateKey(error)) return undefined
    if (isOutage(error)) throw error
    ctx.log.warn(
      { err: error, payout_ids: transfer.payout_ids },
      'a payout changed while its transaction was made; the transaction is dropped',
    )
    return undefined
  }
}

const signedMonero = z.object({ txMetadata: z.string(), keyImages: z.array(z.string()) })
type SignedMonero = z.output<typeof signedMonero>

/** What is stored of a transaction: what is relayed, and the key images of what it spends. */
export function readSigned({ _id, signed }: Pick<TransferRecord, '_id' | 'signed'>): SignedMonero {
  const parsed = signedMonero.safeParse(JSON.parse(signed))
  if (!parsed.success) throw new Error(`transfer ${_id} holds something else than a signed Monero transaction`)
  return parsed.data
}
