import type { Context } from '../context.ts'
import { SECOND_MS, nowSeconds } from '../platform/time.ts'
import { COIN_UNITS, formatAmount, parseAmount, type Coin } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { noteShown, recordArrival } from './record-arrival.ts'
import { endOnNodeTrouble, runWalletRound } from './wallet-round.ts'
import { haltCoin, isHalted } from './coin-state.ts'
import type { TreasuryFields } from './coin-store.ts'
import type { CoinDriver, NextDue } from './driver.ts'
import { groupDue, splitDue } from './due-payouts.ts'
import { isOwnAddress } from './payout-address.ts'
import { sumDue, type DueGroup } from './payout.ts'
import type { UnexplainedSend } from './transfer.ts'

const LISTED_FOR_MS = 5 * SECOND_MS

/** Sends the payouts of a coin that are due, or with PAYOUTS=manual those that the operator asked for. */
export async function payoutRound(ctx: Context, driver: CoinDriver): Promise<void> {
  if (await isHalted(ctx, driver.coin)) return
  const isSending =
    ctx.config.payouts === 'automatic' || (await ctx.payouts.hasAsked(driver.coin, nowSeconds(ctx)))
  if (!isSending && !(await driver.isUnderWay())) return
  await runWalletRound(ctx, driver.coin, () => driver.pay(nextDue(ctx, driver)))
}

/**
 * Sweeps the money of a coin's addresses to its treasury, and sends due payouts meanwhile. Does nothing while the
 * coin is halted, or if its wallet has one balance.
 */
export async function sweepRound(ctx: Context, driver: CoinDriver): Promise<void> {
  const { coin } = driver
  if (driver.sweep === undefined || (await isHalted(ctx, coin))) return
  await endOnNodeTrouble(ctx, coin, async () => {
    await driver.sweep?.({
      next: nextDue(ctx, driver),
      differs: (difference) => haltCoin(ctx, coin, difference),
      shown: (arrival) => noteShown(ctx, arrival),
      count: (arrival) => recordArrival(ctx, arrival),
    })
  })
}

type Payer = Pick<CoinDriver, 'coin' | 'bounds'>

/**
 * @returns a function for one round, which chooses the groups to be paid next and stores what the treasury
 *   has and lacks; it lists the due payouts anew after 5 s, and gives each group once
 */
function nextDue(ctx: Context, payer: Payer): NextDue {
  let due: DueGroup[] = []
  let listedMs = Number.NEGATIVE_INFINITY
  return async ({ address, totalRaw, spendableRaw, onItsWay }) => {
    // Not before the driver's first call: by then it has settled the payouts that were under way.
    if (performance.now() - listedMs > LISTED_FOR_MS) {
      due = await groupDue(ctx, payer.coin, payer.bounds)
      listedMs = performance.now()
    }
    const missingRaw = sumDue(due) - spendableRaw
    const lackingRaw = missingRaw > 0n ? missingRaw - ((await onItsWay?.()) ?? 0n) : 0n
    await noteTreasury(ctx, payer.coin, {
      treasury_address: address,
      treasury_raw: String(totalRaw),
      treasury_short_raw: String(lackingRaw > 0n ? lackingRaw : 0n),
    })
    return takePayable(ctx, payer, due, spendableRaw)
  }
}

/** Stores what the treasury has and lacks, and logs once when it begins to lack something. */
async function noteTreasury(ctx: Context, coin: Coin, fields: Required<TreasuryFields>): Promise<void> {
  const { treasury_address: treasury, treasury_short_raw: shortRaw } = fields
  const before = await ctx.coins.findCoin(coin)
  if (shortRaw !== '0' && (before?.treasury_short_raw ?? '0') === '0')
    ctx.log.warn(
      { coin, treasury, lacks: formatAmount(BigInt(shortRaw), coin) },
      'the treasury cannot send the payouts that are due; they wait until it holds enough that is unlocked',
    )
  await ctx.coins.noteTreasury(coin, fields)
}

/** Takes groups out of `due` that can be paid now with `spendableRaw`; splits one that is worth more. */
async function takePayable(
  ctx: Context,
  { coin, bounds: { maxGroups, oneTransaction } }: Payer,
  due: DueGroup[],
  spendableRaw: bigint,
): Promise<DueGroup[]> {
  const minRaw = parseAmount(ctx.config.minPayout[coin], coin)
  const unexplained = due.length === 0 ? [] : await ctx.transfers.listUnexplained(coin)
  const chosen: DueGroup[] = []
  let leftRaw = spendableRaw
  for (let at = 0; at < due.length && chosen.length < maxGroups;) {
    const group = due[at] as DueGroup
    const isAlone = oneTransaction?.goesAlone(group) === true
    const hasPayee = chosen.some(({ address }) => address === group.address)
    const mustWait = oneTransaction !== undefined && (isAlone ? chosen.length > 0 : hasPayee)
    let part: DueGroup | undefined
    if (!mustWait) part = group.sumRaw > leftRaw ? splitDue(group, leftRaw, minRaw) : due.splice(at, 1)[0]
    if (part === undefined) {
      at++
      continue
    }
    if (!(await screenGroup(ctx, coin, part, unexplained))) continue
    chosen.push(part)
    leftRaw -= part.sumRaw
    if (isAlone) break
  }
  return chosen
}

/**
 * Checks whether a group may be paid; otherwise it stays owed. An order is disputed if one of the `unexplained`
 * transactions may have paid its other side.
 */
async function screenGroup(
  ctx: Context,
  coin: Coin,
  { address, payouts }: DueGroup,
  unexplained: readonly UnexplainedSend[],
): Promise<boolean> {
  const ids = payouts.map(({ _id }) => _id)
  if (COIN_FACTS[coin].parseAddress(address) === undefined) {
    const name = COIN_UNITS[coin].name
    ctx.log.error({ payout_ids: ids }, `payouts name an address that is none of ${name}; they stay owed`)
    return false
  }
  if (await isOwnAddress(ctx, coin, address)) {
    if ((await ctx.payouts.markToSelf(ids)) > 0)
      ctx.log.error({ payout_ids: ids }, "payouts name an address of the venue's own: pay them by hand")
    return false
  }
  if (unexplained.length === 0) return true
  const orderIds = payouts.flatMap(({ order_id: id }) => id ?? [])
  return (await ctx.purposes.order.suspected(ctx, coin, unexplained, orderIds)).length === 0
}
