import type { Context } from '../context.ts'
import type { Coin } from './coin.ts'
import type { Sending } from './driver.ts'
import { ANYWHERE, type UnexplainedSend } from './transfer.ts'
import type { StoredPayout } from './payout.ts'

/*
 * A send that the database did not know, as after a restore, may have paid what is owed now or will be. What is
 * owed to its recipients isn't sent before the operator has accounted for it, and of each such payout he has to
 * say first whether it was paid (payout-paid, or reconcile --owed). What it paid stays on record: a payout that
 * he could not know of then is held when it is due.
 */

type Owed = Pick<StoredPayout, '_id' | 'address' | 'order_id' | 'cleared_of'>

/** Whether a send went to this address, as far as anybody knows. */
export const wentTo = ({ unexplained_to: to }: UnexplainedSend, address: string | undefined): boolean =>
  to.includes(ANYWHERE) || (address !== undefined && to.includes(address))

/**
 * Whether a send may have paid a payout.
 *
 * @param placedAt when the payout's order was placed: a send that was found before cannot have paid it. Without
 *   an order, only a send that is not accounted for may have
 */
function mayHavePaid(send: UnexplainedSend, payout: Owed, placedAt: number | undefined): boolean {
  if (!wentTo(send, payout.address)) return false
  return placedAt === undefined ? send.explained !== true : placedAt <= send.at
}

/** Whether the operator has said that the send did not pay the payout. */
const isCleared = ({ _id }: UnexplainedSend, { cleared_of: ids = [] }: Owed): boolean => ids.includes(_id)

/** Finds, for each of the payouts that a send may have paid, such a send; by the payouts' ids. */
export async function findSuspects(
  ctx: Context,
  coin: Coin,
  payouts: readonly Owed[],
): Promise<Map<string, UnexplainedSend>> {
  const suspects = new Map<string, UnexplainedSend>()
  if (payouts.length === 0) return suspects
  const sends: UnexplainedSend[] = []
  for (const send of await ctx.payouts.transfers.listUnknownSends(coin))
    if (send.explained !== true || !(await isPaidUp(ctx, send))) sends.push(send)
  const matched = payouts.filter(({ address }) => sends.some((send) => wentTo(send, address)))
  const orderIds = matched.flatMap(({ order_id: id }) => id ?? [])
  const placed = await ctx.purposes.order.placedAt(ctx, orderIds)
  for (const payout of matched) {
    const placedAt = placed.get(payout.order_id ?? '')
    const send = sends.find(
      (one) => mayHavePaid(one, payout, placedAt) && !(one.explained === true && isCleared(one, payout)),
    )
    if (send !== undefined) suspects.set(payout._id, send)
  }
  return suspects
}

/** Whether payouts that are recorded as paid by a send account for all that it sent. */
export async function isPaidUp(ctx: Context, { coin, tx, amount_raw, unexplained_to: to }: UnexplainedSend) {
  const amountRaw = BigInt(amount_raw)
  const [address = ANYWHERE] = to
  const sent = to.length === 1 && address !== ANYWHERE ? { sent: [{ address, amountRaw }] } : {}
  return (await unexplainedRecipients(ctx, coin, { tx, amountRaw, to, ...sent })).length === 0
}

/**
 * The recipients who got another sum than the payouts that the operator recorded as paid to them with this
 * transaction. If the wallet doesn't know who got what, as after it was restored from its seed, the sum of all
 * decides: all recipients or none.
 */
export async function unexplainedRecipients(ctx: Context, coin: Coin, { tx, amountRaw, to, sent }: Sending) {
  const paid = await ctx.payouts.listPaidByHand(coin, tx)
  const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n)
  const paidRaw = (payouts: typeof paid) => sum(payouts.map(({ amount_raw: raw }) => BigInt(raw)))
  if (sent === undefined) return paidRaw(paid) === amountRaw ? [] : [...to]
  return to.filter((recipient) => {
    const sentRaw = sum(sent.filter(({ address }) => address === recipient).map((one) => one.amountRaw))
    return sentRaw !== paidRaw(paid.filter(({ address }) => address === recipient))
  })
}

/** What the operator has to decide before a send is accounted for. */
export interface Undecided {
  readonly payouts: readonly StoredPayout[]
  /** Ids of disputed orders of which it may have paid a side. */
  readonly orderIds: readonly string[]
}

/** Lists what a send may have paid and nobody has decided; nothing if the payouts recorded for it use it up. */
export async function listUndecided(ctx: Context, send: UnexplainedSend): Promise<Undecided> {
  if (await isPaidUp(ctx, send)) return { payouts: [], orderIds: [] }
  const { coin, unexplained_to: to } = send
  const owed = to.includes(ANYWHERE)
    ? await ctx.payouts.listHeldBy(coin, send._id)
    : await ctx.payouts.listOwedAt(coin, to)
  const placed = await ctx.purposes.order.placedAt(
    ctx,
    owed.flatMap(({ order_id: id }) => id ?? []),
  )
  const isOpen = (payout: StoredPayout) =>
    !isCleared(send, payout) && mayHavePaid(send, payout, placed.get(payout.order_id ?? ''))
  return { payouts: owed.filter(isOpen), orderIds: await ctx.purposes.order.disputedAt(ctx, send) }
}
