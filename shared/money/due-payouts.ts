import type { Context } from '../context.ts'
import { nowSeconds } from '../platform/time.ts'
import { parseAmount, type Coin } from './coin.ts'
import { holdPayouts } from './payout-service.ts'
import type { GroupBounds } from './driver.ts'
import { leastToMove, type DueGroup, type PayoutRecord } from './payout.ts'
import { findSuspects } from './unexplained-sends.ts'

/**
 * Reads which payouts may be sent, and which of them are due. Left out are payouts of an order with money that the
 * chain hasn't shown: if its amount is wrong, they would be paid with others' money.
 *
 * @param isAsked reads only what the operator asked for
 * @returns `suspects`: those left out because a send that the database did not know may have paid them, with that
 */
export async function readSendable(ctx: Context, coin: Coin, isAsked = false) {
  const walked: PayoutRecord[] = []
  for await (const payout of ctx.payouts.walkSendable(coin, nowSeconds(ctx), isAsked)) walked.push(payout)
  // Read after them: the payment behind a payout is on record no later than the payout is.
  const unshown = new Set(walked.length === 0 ? [] : await ctx.invoices.arrivals.listUnshownOrders(coin))
  const shown = walked.filter(({ order_id: orderId }) => orderId === undefined || !unshown.has(orderId))
  const suspects = await findSuspects(ctx, coin, shown)
  const payouts = shown.filter(({ _id }) => !suspects.has(_id))
  return { payouts, due: filterDue(ctx.config, coin, payouts), suspects }
}

/**
 * Returns the payouts that are due: their payee (an agent over all its addresses, or an address) is owed MIN_PAYOUT
 * or once was, and at this address not less than a hundredth of it; or the operator asked for them.
 */
function filterDue(config: Context['config'], coin: Coin, payouts: readonly PayoutRecord[]): PayoutRecord[] {
  const sums = new Map<string, bigint>()
  const payeesOf = ({ agent_id: agentId, address = '' }: PayoutRecord) => [agentId, address]
  for (const payout of payouts)
    for (const payee of payeesOf(payout)) sums.set(payee, (sums.get(payee) ?? 0n) + BigInt(payout.amount_raw))
  const sumTo = (payee: string): bigint => sums.get(payee) ?? 0n
  const minRaw = parseAmount(config.minPayout[coin], coin)
  const leastRaw = leastToMove(config, coin)
  return payouts.filter(
    (payout) =>
      payout.due_at !== undefined ||
      payout.asked_at !== undefined ||
      (payeesOf(payout).some((payee) => sumTo(payee) >= minRaw) && sumTo(payout.address ?? '') >= leastRaw),
  )
}

/** Since when a payout that may be sent has been owed without a hold of a decision; Unix seconds. */
export const sendableSince = ({ at, decided }: PayoutRecord): number => Math.max(at, decided?.until ?? at)

/**
 * Groups the due payouts by address, the group with the oldest payout first. Before that it holds those that a send
 * may have paid, and marks the others as due: if only a part is sent now, the rest is paid however small it is.
 */
export async function groupDue(ctx: Context, coin: Coin, bounds: GroupBounds): Promise<DueGroup[]> {
  const isManual = ctx.config.payouts !== 'automatic'
  const { due, suspects } = await readSendable(ctx, coin, isManual)
  for (const [payoutId, send] of suspects) {
    const held = await holdPayouts(ctx, [payoutId], send._id)
    if (held.length > 0)
      ctx.log.error({ payout_ids: held, tx: send.tx }, 'payouts are held: this may have paid them')
  }
  const fresh = due.filter(({ due_at: at }) => at === undefined).map(({ _id }) => _id)
  if (!isManual && fresh.length > 0) await ctx.payouts.mark(fresh, 'due_at', nowSeconds(ctx))
  return groupByAddress(due, bounds)
}

/** @param sorted payouts by address */
function groupByAddress(sorted: readonly PayoutRecord[], { maxPayouts, maxRaw }: GroupBounds): DueGroup[] {
  const groups: DueGroup[] = []
  for (const payout of sorted) {
    const { address = '' } = payout
    const amountRaw = BigInt(payout.amount_raw)
    let group = groups.at(-1)
    const isFull =
      group !== undefined &&
      (group.payouts.length === maxPayouts || (maxRaw !== undefined && group.sumRaw + amountRaw > maxRaw))
    if (group?.address !== address || isFull) groups.push((group = { address, payouts: [], sumRaw: 0n }))
    group.payouts.push(payout)
    group.sumRaw += amountRaw
  }
  return groups.sort((left, right) => (oldestId(left) < oldestId(right) ? -1 : 1))
}

/**
 * Takes payouts out of a group that add up to at most `mostRaw`.
 *
 * @returns them as a group of their own; undefined, with the group unchanged, if they are worth less than
 *   `leastRaw` or there are none
 */
export function splitDue(group: DueGroup, mostRaw: bigint, leastRaw: bigint): DueGroup | undefined {
  let sumRaw = 0n
  let count = 0
  for (const { amount_raw: raw } of group.payouts) {
    if (sumRaw + BigInt(raw) > mostRaw) break
    sumRaw += BigInt(raw)
    count++
  }
  if (sumRaw === 0n || sumRaw < leastRaw) return undefined
  group.sumRaw -= sumRaw
  return { address: group.address, payouts: group.payouts.splice(0, count), sumRaw }
}

/** Ids sort by time. */
const oldestId = ({ payouts }: DueGroup): string =>
  payouts.reduce((first, { _id }) => (_id < first ? _id : first), payouts[0]?._id ?? '')

/**
 * Holds the payouts that a transaction which nobody has accounted for may have paid, and disputes the orders
 * for which it may have paid the other side.
 *
 * @returns the ids of the payouts held now
 */
export async function holdSuspects(ctx: Context, coin: Coin, because: string): Promise<string[]> {
  const unexplained = await ctx.payouts.transfers.listUnexplained(coin)
  const held: string[] = []
  if (unexplained.length === 0) return held
  const { suspects } = await readSendable(ctx, coin)
  for (const [payoutId, send] of suspects)
    held.push(...(await holdPayouts(ctx, [payoutId], send._id, because)))
  await ctx.purposes.order.suspected(ctx, coin, unexplained)
  return held
}
