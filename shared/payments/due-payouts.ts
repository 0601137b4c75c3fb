import type { Context } from '../context.ts'
import { COIN_UNITS, formatAmount, parseAmount, type Coin } from './coin.ts'
import type { TreasuryFields } from './coin-store.ts'
import { holdPayouts } from './payout-service.ts'
import type { PayoutRecord } from './payout.ts'

/** What is owed to one payee and goes out together. */
export interface DueGroup {
  address: string
  payouts: PayoutRecord[]
  sumRaw: bigint
}

/** The destination of a transaction whose destination nobody knows any more. */
export const ANYWHERE = '*'

/** What one group may hold; more of the same payee is in the next. */
export interface GroupBounds {
  maxPayouts: number
  maxRaw?: bigint
}

/** Payees whose whole sum is at least the coin's MIN_PAYOUT, in as many groups as the bounds make of it; those who wait longest first. */
export async function listDue(ctx: Context, coin: Coin, { maxPayouts, maxRaw }: GroupBounds): Promise<DueGroup[]> {
  const least = parseAmount(ctx.config.minPayout[coin], coin)
  const due: DueGroup[] = []
  // Of the payee that the walk is at.
  let groups: DueGroup[] = []
  const close = (): void => {
    if (sumDue(groups) >= least) for (const group of groups) if (group.sumRaw > 0n) due.push(group)
  }
  for await (const payout of ctx.payouts.walkSendable(coin)) {
    const address = payout.address ?? ''
    const amountRaw = BigInt(payout.amount_raw)
    let group = groups.at(-1)
    if (group !== undefined && group.address !== address) {
      close()
      groups = []
      group = undefined
    }
    const isFull =
      group !== undefined && (group.payouts.length === maxPayouts || (maxRaw !== undefined && group.sumRaw + amountRaw > maxRaw))
    if (group === undefined || isFull) groups.push((group = { address, payouts: [], sumRaw: 0n }))
    group.payouts.push(payout)
    group.sumRaw += amountRaw
  }
  close()
  return due.sort((left, right) => (oldest(left) < oldest(right) ? -1 : 1))
}

/**
 * Takes out of a group its first payouts, as many as sum up to `mostRaw` at most: a payee who is owed more than there is gets
 * what there is of it.
 *
 * @returns undefined where that is less than `leastRaw`, or nothing; the group is then as it was
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

const oldest = ({ payouts }: DueGroup): string => payouts.reduce((first, { _id }) => (_id < first ? _id : first), payouts[0]?._id ?? '')

export const sumDue = (groups: readonly DueGroup[]): bigint => groups.reduce((sum, { sumRaw }) => sum + sumRaw, 0n)

/**
 * Whether a group may go out. Payouts to what is no address stay owed; those that a transaction may have paid which nobody
 * has accounted for (a reconciliation found it) are held for the operator.
 */
export async function isPayable(
  ctx: Context,
  coin: Coin,
  { address, payouts }: DueGroup,
  isAddress: (text: string) => boolean,
): Promise<boolean> {
  const ids = payouts.map(({ _id }) => _id)
  if (!isAddress(address)) {
    ctx.log.error({ payout_ids: ids }, `payouts name an address that is none of ${COIN_UNITS[coin].name}; they stay owed`)
    return false
  }
  const [unexplained] = await ctx.payouts.listUnexplained(coin, [address, ANYWHERE])
  if (unexplained === undefined) return true
  await holdPayouts(ctx, ids, unexplained._id)
  ctx.log.error({ payout_ids: ids, tx: unexplained.tx }, 'payouts are held: a transaction that nobody has accounted for may have paid them')
  return false
}

/** Holds everything owed that such a transaction may have paid. @returns the ids of what is held now */
export async function holdSuspects(ctx: Context, coin: Coin, because: string): Promise<string[]> {
  const unexplained = await ctx.payouts.listUnexplained(coin)
  const heldBy = new Map(unexplained.flatMap(({ _id, unexplained_to: to = [] }) => to.map((address) => [address, _id] as const)))
  const held: string[] = []
  if (heldBy.size === 0) return held
  for await (const { _id, address = '' } of ctx.payouts.walkSendable(coin)) {
    const by = heldBy.get(address) ?? heldBy.get(ANYWHERE)
    if (by !== undefined) held.push(...(await holdPayouts(ctx, [_id], by, because)))
  }
  return held
}

/** A treasury that is too small says so, in the log once and in `operator status` as long as it lasts. */
export async function noteTreasury(ctx: Context, coin: Coin, fields: Required<TreasuryFields>): Promise<void> {
  const before = await ctx.coins.findCoin(coin)
  if (fields.treasury_short_raw !== '0' && (before?.treasury_short_raw ?? '0') === '0')
    ctx.log.warn(
      { coin, treasury: fields.treasury_address, lacks: formatAmount(BigInt(fields.treasury_short_raw), coin) },
      'the treasury cannot send the payouts that are due; they wait until it holds enough that is unlocked',
    )
  await ctx.coins.noteTreasury(coin, fields)
}
