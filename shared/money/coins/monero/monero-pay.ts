import { nowSeconds } from '../../../platform/time.ts'
import { parseAmount } from '../../coin.ts'
import { isHalted, noteProblem } from '../../coin-state.ts'
import { AGREES, NOT_COMPARED, type Agreement, type NextDue, type PayBounds } from '../../driver.ts'
import { NodeRefused } from '../../node-errors.ts'
import { newTransfer, storeOrDrop } from '../../transfer-service.ts'
import { sumDue, type DueGroup } from '../../payout.ts'
import type { TransferRecord } from '../../transfer.ts'
import { parseMoneroAddress } from './monero-address.ts'
import { compareOutgoing, readHeight } from './monero-chain.ts'
import { listOpen, offer, recoverTransfers, type SignedMonero } from './monero-recovery.ts'
import type { MoneroContext } from './monero-gateway.ts'
import {
  MAX_AMOUNT_PICO,
  MAX_DESTINATIONS,
  MONERO_ERROR,
  type MoneroDestination,
  type MoneroPrepared,
} from './monero-wallet.ts'

/**
 * Up to 15 payees in one transaction. A unique index keeps it to one under way at a time; a held one blocks
 * nothing. The order of writes: 1 signed, neither sent nor its inputs reserved; 2 stored, with its payouts; 3
 * relayed; 4 noted as sent; 5 confirmed. A death before 2 leaves nothing, one after 2 a transaction on
 * record, which monero-recovery.ts sees to.
 */

/** An integrated address has a payment id, encrypted for the only payee of its transaction. */
const goesAlone = ({ address }: DueGroup): boolean => parseMoneroAddress(address)?.kind === 'integrated'

export const MONERO_BOUNDS: PayBounds = {
  maxPayouts: 50,
  maxRaw: BigInt(MAX_DESTINATIONS) * MAX_AMOUNT_PICO,
  maxGroups: MAX_DESTINATIONS,
  oneTransaction: { goesAlone },
}

/**
 * Sees to what is under way, then signs at most one transaction.
 *
 * @returns what came of comparing wallet and database before that
 * @throws NodeUnreachable, NodeRefused
 */
export async function payMonero(ctx: MoneroContext, next: NextDue): Promise<Agreement> {
  const coin = await ctx.coins.findCoin('xmr')
  // The first round of the watcher says from where on wallet and database are compared.
  if (coin?.height === undefined) return NOT_COMPARED
  const height = await readHeight(ctx, coin)
  const comparison = await compareOutgoing(ctx, coin, height)
  if (comparison.kind !== 'agrees') return comparison
  await recoverTransfers(ctx, comparison.sent, height)
  if (!(await listOpen(ctx)).some(({ in_flight: isInFlight }) => isInFlight)) await payNext(ctx, next, height)
  return AGREES
}

/** Signs, stores and sends a transaction for what is due next. @param height how many blocks the wallet had */
async function payNext(ctx: MoneroContext, next: NextDue, height: number): Promise<void> {
  const { wallet } = ctx.monero
  const address = await wallet.primaryAddress()
  const { totalPico, unlockedPico, blocksToUnlock } = await wallet.balance()
  if (blocksToUnlock > 0)
    ctx.log.debug({ blocks_to_unlock: blocksToUnlock }, 'some of the money in Monero is locked')
  for (let times = 0; times < MAX_DESTINATIONS; times++) {
    const spendableRaw = unlockedPico - ctx.monero.keptForFees
    const groups = await next({ address, totalRaw: totalPico, spendableRaw })
    if (groups.length === 0) {
      // Nothing is left that could not be signed.
      if (times === 0) await noteSigning(ctx, { kind: 'none due' })
      return
    }
    const signed = await sign(ctx, groups)
    await noteSigning(ctx, signed)
    switch (signed.kind) {
      case 'refused':
        // These payees stay owed: the next ones are tried.
        continue
      case 'cannot sign':
      case 'fee too high':
        return
      case 'too little':
        // The sum of one payee is all that there is: it waits until there is more.
        ctx.monero.keptForFees = unlockedPico - sumDue(signed.groups) + 1n
        return
      case 'signed': {
        ctx.monero.keptForFees = 0n
        const transfer = await store(ctx, signed.groups, signed.prepared, { height, wallet: address })
        if (transfer !== undefined) await offer(ctx, transfer, 'unknown', height)
        return
      }
    }
  }
}

/** Splits a group's sum into amounts that a JSON number holds. */
function splitAmount({ address, sumRaw }: DueGroup): MoneroDestination[] {
  const parts: MoneroDestination[] = []
  for (let left = sumRaw; left > 0n; left -= MAX_AMOUNT_PICO)
    parts.push({ address, amountPico: left < MAX_AMOUNT_PICO ? left : MAX_AMOUNT_PICO })
  return parts
}

const { notEnoughMoney, notEnoughUnlockedMoney, watchOnly } = MONERO_ERROR

type Signed =
  | { readonly kind: 'signed'; readonly groups: readonly DueGroup[]; readonly prepared: MoneroPrepared }
  /** The money does not suffice for these: of sign(), which tries fewer first, for one payee alone. */
  | { readonly kind: 'too little'; readonly groups: readonly DueGroup[] }
  /** The wallet signs, for so much that it is not used. */
  | { readonly kind: 'fee too high'; readonly feePico: bigint; readonly sumPico: bigint }
  /** The wallet has no key to sign with. */
  | { readonly kind: 'cannot sign'; readonly reason: string }
  /** It does not sign for these payees. */
  | { readonly kind: 'refused'; readonly error?: unknown }

/** A fee up to so much of what is paid is always taken. */
const FEE_PERCENT = 2n

/** Whether a fee is more than 2 % of what is paid and more than MAX_FEE_XMR. */
export const isFeeTooHigh = (feePico: bigint, sumPico: bigint, maxPico: bigint): boolean =>
  feePico * 100n > sumPico * FEE_PERCENT && feePico > maxPico

/**
 * Makes the wallet sign a transaction that pays the groups; if the money doesn't suffice or the wallet
 * refuses, without the last ones. A group that is refused alone stays owed: a bad payee must not stop the
 * others.
 */
async function sign(ctx: MoneroContext, groups: readonly DueGroup[]): Promise<Signed> {
  for (let from = 0; from < groups.length; from++)
    for (let to = groups.length; to > from; to--) {
      const chosen = groups.slice(from, to)
      const isOne = chosen.length === 1
      const destinations = chosen.flatMap(splitAmount)
      if (destinations.length > MAX_DESTINATIONS && !isOne) continue
      const signed = await signFor(ctx, chosen, destinations)
      if (!isOne && (signed.kind === 'refused' || signed.kind === 'too little')) continue
      if (signed.kind !== 'refused') return signed
      const payout_ids = chosen.flatMap(({ payouts }) => payouts.map(({ _id }) => _id))
      ctx.log.error(
        { err: signed.error, payout_ids },
        'Monero does not sign for a payee; its payouts stay owed',
      )
    }
  return { kind: 'refused' }
}

/** Makes the wallet sign a transaction that pays all of these groups. */
async function signFor(
  ctx: MoneroContext,
  groups: readonly DueGroup[],
  destinations: readonly MoneroDestination[],
): Promise<Signed> {
  const maxPico = parseAmount(ctx.config.maxFeeXmr, 'xmr')
  try {
    const prepared = await ctx.monero.wallet.prepareTransfer(destinations)
    const [{ feePico }, sumPico] = [prepared, sumDue(groups)]
    if (isFeeTooHigh(feePico, sumPico, maxPico)) return { kind: 'fee too high', feePico, sumPico }
    return { kind: 'signed', groups, prepared }
  } catch (error) {
    if (!(error instanceof NodeRefused || error instanceof TypeError)) throw error
    const code = error instanceof NodeRefused ? error.code : undefined
    if (error instanceof NodeRefused && code === watchOnly)
      return { kind: 'cannot sign', reason: error.reason }
    ctx.log.debug({ err: error, destinations: destinations.length }, 'Monero does not sign for these')
    if (code === notEnoughMoney || code === notEnoughUnlockedMoney) return { kind: 'too little', groups }
    return { kind: 'refused', error }
  }
}

/** Stores, and logs if it is new, that the wallet can't sign or asks too much for it; or that this is over. */
async function noteSigning(
  ctx: MoneroContext,
  signed: Signed | { readonly kind: 'none due' },
): Promise<void> {
  if (signed.kind === 'cannot sign') {
    const sentence = `the wallet cannot sign, so nothing could be paid out: ${signed.reason}`
    return noteProblem(ctx, 'xmr', 'wallet', sentence)
  }
  if (signed.kind === 'fee too high') {
    const [fee_raw, sum_raw] = [String(signed.feePico), String(signed.sumPico)]
    if (await ctx.coins.noteHighFee('xmr', { at: nowSeconds(ctx), fee_raw, sum_raw }))
      ctx.log.error({ fee_raw, sum_raw }, 'payouts are not signed: the fee is above MAX_FEE_XMR')
    return
  }
  await ctx.coins.noteHighFee('xmr', undefined)
  if (signed.kind === 'signed' || signed.kind === 'none due')
    await noteProblem(ctx, 'xmr', 'wallet', undefined)
}

/** Stores a signed transaction. @returns undefined if another is under way, or a payout has changed */
async function store(
  ctx: MoneroContext,
  groups: readonly DueGroup[],
  prepared: MoneroPrepared,
  signer: Pick<SignedMonero, 'height' | 'wallet'>,
): Promise<TransferRecord | undefined> {
  if (await isHalted(ctx, 'xmr')) return undefined
  const { txHash: tx, txMetadata, keyImages, feePico } = prepared
  const listed = groups.flatMap(({ payouts }) => payouts)
  const transfer = newTransfer(ctx, {
    coin: 'xmr',
    kind: 'payout',
    in_flight: true,
    tx,
    signed: JSON.stringify({ txMetadata, keyImages, ...signer } satisfies SignedMonero),
    amount_raw: String(sumDue(groups)),
    fee_raw: String(feePico),
    payment_ids: [],
    payout_ids: listed.map(({ _id }) => _id),
    state: 'signed',
  })
  return (await storeOrDrop(ctx, [transfer], listed)) === 'stored' ? transfer : undefined
}
