import type { Context } from '../context.ts'
import { nowSeconds } from '../foundation/time.ts'
import { COIN_UNITS, formatAmount, parseAmount, type Coin } from './coin.ts'
import type { TreasuryFields } from './coin-store.ts'
import { isOwnAddress } from './payout-address.ts'
import { holdPayouts } from './payout-service.ts'
import { ANYWHERE, type PayoutRecord } from './payout.ts'

export interface DueGroup {
  address: string
  payouts: PayoutRecord[]
  sumRaw: bigint
}

export interface GroupBounds {
  maxPayouts: number
  maxRaw?: bigint
}

/**
 * Due: the payee (an agent over all its addresses, or an address) is owed MIN_PAYOUT, or was when it became
 * due, or the operator asked for it. Payouts of an order whose money the chain hasn't shown are left out: a
 * wrong amount there would be paid with others' money.
 */
export async function readSendable(
  ctx: Context,
  coin: Coin,
  isAsked = false,
): Promise<{ payouts: PayoutRecord[]; due: PayoutRecord[] }> {
  const walked: PayoutRecord[] = []
  for await (const payout of ctx.payouts.walkSendable(coin, isAsked)) walked.push(payout)
  // Read after them: the payment behind a payout is on record no later than the payout is.
  const unseen = new Set(await ctx.invoices.listUnseenOrders(coin))
  const payouts = walked.filter(({ order_id: orderId }) => orderId === undefined || !unseen.has(orderId))
  const sums = new Map<string, bigint>()
  const payeesOf = ({ agent_id: agentId, address = '' }: PayoutRecord) => [agentId, address]
  for (const payout of payouts)
    for (const payee of payeesOf(payout)) sums.set(payee, (sums.get(payee) ?? 0n) + BigInt(payout.amount_raw))
  const least = parseAmount(ctx.config.minPayout[coin], coin)
  const isDue = (payout: PayoutRecord): boolean =>
    payout.due_at !== undefined ||
    payout.asked_at !== undefined ||
    payeesOf(payout).some((payee) => (sums.get(payee) ?? 0n) >= least)
  return { payouts, due: payouts.filter(isDue) }
}

/** Those who wait longest first. What is due stays due: a rest is paid however small it is. */
export async function listDue(
  ctx: Context,
  coin: Coin,
  { maxPayouts, maxRaw }: GroupBounds,
): Promise<DueGroup[]> {
  const isManual = ctx.config.payouts !== 'automatic'
  const { due } = await readSendable(ctx, coin, isManual)
  const fresh = due.filter(({ due_at: at }) => at === undefined).map(({ _id }) => _id)
  if (!isManual && fresh.length > 0) await ctx.payouts.mark(fresh, 'due_at', nowSeconds(ctx))
  const groups: DueGroup[] = []
  for (const payout of due) {
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
  return groups.sort((left, right) => (oldest(left) < oldest(right) ? -1 : 1))
}

/** @returns undefined if what there is of it is less than `leastRaw`; the group is then as it was */
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

const oldest = ({ payouts }: DueGroup): string =>
  payouts.reduce((first, { _id }) => (_id < first ? _id : first), payouts[0]?._id ?? '')

export const sumDue = (groups: readonly DueGroup[]): bigint =>
  groups.reduce((sum, { sumRaw }) => sum + sumRaw, 0n)

/**
 * What isn't, stays owed. What a transaction that nobody has accounted for may have paid is held, and the
 * order of which it may have paid the other side is disputed.
 */
export async function isPayable(
  ctx: Context,
  coin: Coin,
  { address, payouts }: DueGroup,
  isAddress: (text: string) => boolean,
): Promise<boolean> {
  const ids = payouts.map(({ _id }) => _id)
  if (!isAddress(address)) {
    const name = COIN_UNITS[coin].name
    ctx.log.error({ payout_ids: ids }, `payouts name an address that is none of ${name}; they stay owed`)
    return false
  }
  if (await isOwnAddress(ctx, coin, address)) {
    if ((await ctx.payouts.markToSelf(ids)) > 0)
      ctx.log.error(
        { payout_ids: ids },
        "payouts name an address of the venue's own; they stay owed, until you pay them by hand elsewhere",
      )
    return false
  }
  const sends = await ctx.payouts.listUnexplained(coin)
  if (sends.length === 0) return true
  const unexplained = sends.find(({ unexplained_to: to }) => to.includes(address) || to.includes(ANYWHERE))
  if (unexplained === undefined) {
    const orderIds = payouts.flatMap(({ order_id: id }) => id ?? [])
    return (await ctx.purposes.order.suspected(ctx, coin, sends, orderIds)).length === 0
  }
  await holdPayouts(ctx, ids, unexplained._id)
  ctx.log.error(
    { payout_ids: ids, tx: unexplained.tx },
    'payouts are held: a transaction that nobody has accounted for may have paid them',
  )
  return false
}

/** And what may come to be owed to somebody else for the same. @returns the ids of what is held now */
export async function holdSuspects(ctx: Context, coin: Coin, because: string): Promise<string[]> {
  const unexplained = await ctx.payouts.listUnexplained(coin)
  const heldBy = new Map(
    unexplained.flatMap(({ _id, unexplained_to: to }) => to.map((address) => [address, _id] as const)),
  )
  const held: string[] = []
  if (heldBy.size === 0) return held
  for await (const { _id, address = '' } of ctx.payouts.walkSendable(coin)) {
    const by = heldBy.get(address) ?? heldBy.get(ANYWHERE)
    if (by !== undefined) held.push(...(await holdPayouts(ctx, [_id], by, because)))
  }
  await ctx.purposes.order.suspected(ctx, coin, unexplained)
  return held
}

/** Said in the log once, and in `operator status` as long as it lasts. */
export async function noteTreasury(ctx: Context, coin: Coin, fields: Required<TreasuryFields>) {
  const before = await ctx.coins.findCoin(coin)
  if (fields.treasury_short_raw !== '0' && (before?.treasury_short_raw ?? '0') === '0')
    ctx.log.warn(
      {
        coin,
        treasury: fields.treasury_address,
        lacks: formatAmount(BigInt(fields.treasury_short_raw), coin),
      },
      'the treasury cannot send the payouts that are due; they wait until it holds enough that is unlocked',
    )
  await ctx.coins.noteTreasury(coin, fields)
}
