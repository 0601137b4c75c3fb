import type { Context } from '../context.ts'
import { SECOND_MS, nowSeconds } from '../platform/time.ts'
import { COIN_UNITS, formatAmount, parseAmount, type Coin } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { noteShown, recordArrival } from './record-arrival.ts'
import { endOnNodeTrouble, haltCoin, isHalted, runWalletRound } from './coin-state.ts'
import type { TreasuryFields } from './coin-store.ts'
import type { CoinDriver, NextDue, PayBounds } from './driver.ts'
import { groupDue, splitDue } from './due-payouts.ts'
import { isOwnAddress } from './payout-address.ts'
import { sumDue, type DueGroup } from './payout.ts'
import type { UnexplainedSend } from './transfer.ts'

const LISTED_FOR_MS = 5 * SECOND_MS

/**
 * Sends the payouts of a coin that are due, or with PAYOUTS=manual those that the operator asked for.
 *
 * @returns how many payouts were given to the wallet to be paid
 */
export async function payoutRound(ctx: Context, driver: CoinDriver): Promise<{ payouts: number }> {
  const given = { payouts: 0 }
  if (await isHalted(ctx, driver.coin)) return given
  const isSending =
    ctx.config.payouts === 'automatic' || (await ctx.payouts.hasAsked(driver.coin, nowSeconds(ctx)))
  // What is under way is seen to its end, although nothing new may be sent.
  if (!isSending && !(await driver.isUnderWay())) return given
  await runWalletRound(ctx, driver.coin, () => driver.pay(nextDue(ctx, driver, given)))
  return given
}

/**
 * Sweeps the money of a coin's addresses to its treasury, and sends due payouts meanwhile. Does nothing while the
 * coin is halted, or if its wallet has one balance.
 *
 * @returns how many payouts were given to the wallet to be paid, and how many arrivals went on record
 */
export async function sweepRound(
  ctx: Context,
  driver: CoinDriver,
): Promise<{ payouts: number; arrivals: number }> {
  const { coin } = driver
  const given = { payouts: 0, arrivals: 0 }
  if (driver.sweep === undefined || (await isHalted(ctx, coin))) return given
  await endOnNodeTrouble(ctx, coin, async () => {
    await driver.sweep?.({
      nextDue: nextDue(ctx, driver, given),
      halt: (difference) => haltCoin(ctx, coin, difference),
      noteShown: (arrival) => noteShown(ctx, arrival),
      recordArrival(arrival) {
        given.arrivals++
        return recordArrival(ctx, arrival)
      },
    })
  })
  return given
}

type Payer = Pick<CoinDriver, 'coin' | 'bounds'>

/**
 * Makes the function that a driver asks in one round for the groups to be paid next. It stores what the treasury has
 * and lacks, lists the due payouts anew after 5 s, and gives each group once; counts what it gives in `given`.
 */
function nextDue(ctx: Context, payer: Payer, given: { payouts: number }): NextDue {
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
    const chosen = await takePayable(ctx, payer, due, spendableRaw)
    given.payouts += chosen.reduce((count, { payouts }) => count + payouts.length, 0)
    return chosen
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

/** Takes groups out of `due` that can be paid now with `spendableRaw`, which those that are kept back leave. */
async function takePayable(
  ctx: Context,
  { coin, bounds: { maxGroups, oneTransaction } }: Payer,
  due: DueGroup[],
  spendableRaw: bigint,
): Promise<DueGroup[]> {
  const minRaw = parseAmount(ctx.config.minPayout[coin], coin)
  const unexplained = due.length === 0 ? [] : await ctx.payouts.transfers.listUnexplained(coin)
  const chosen: DueGroup[] = []
  let leftRaw = spendableRaw
  for (let place = 0; place < due.length && chosen.length < maxGroups;) {
    const taken = takeGroup(due, place, chosen, { oneTransaction, leftRaw, minRaw })
    if (taken === undefined) {
      place++
      continue
    }
    if ((await screenGroup(ctx, coin, taken, unexplained)) === 'kept back') continue
    chosen.push(taken)
    leftRaw -= taken.sumRaw
    if (oneTransaction?.goesAlone(taken) === true) break
  }
  return chosen
}

/**
 * Takes the group at a place out of `due`; of one that is worth more than what is left, a part.
 *
 * @returns undefined, with `due` unchanged, if it has to wait: for another transaction, or for more money
 */
function takeGroup(
  due: DueGroup[],
  place: number,
  chosen: readonly DueGroup[],
  limits: { oneTransaction: PayBounds['oneTransaction'] | undefined; leftRaw: bigint; minRaw: bigint },
): DueGroup | undefined {
  const { oneTransaction, leftRaw, minRaw } = limits
  const group = due[place]
  if (group === undefined) return undefined
  if (oneTransaction !== undefined && chosen.length > 0) {
    const hasPayee = chosen.some(({ address }) => address === group.address)
    if (hasPayee || oneTransaction.goesAlone(group)) return undefined
  }
  return group.sumRaw > leftRaw ? splitDue(group, leftRaw, minRaw) : due.splice(place, 1)[0]
}

/**
 * Checks whether a group can be paid: what is kept back stays owed. Payouts to an address of the venue's own are
 * marked so, and an order is disputed if one of the `unexplained` transactions may have paid its other side.
 */
async function screenGroup(
  ctx: Context,
  coin: Coin,
  { address, payouts }: DueGroup,
  unexplained: readonly UnexplainedSend[],
): Promise<'payable' | 'kept back'> {
  const ids = payouts.map(({ _id }) => _id)
  if (COIN_FACTS[coin].parseAddress(address) === undefined) {
    const name = COIN_UNITS[coin].name
    ctx.log.error({ payout_ids: ids }, `payouts name an address that is none of ${name}; they stay owed`)
    return 'kept back'
  }
  if (await isOwnAddress(ctx, coin, address)) {
    if ((await ctx.payouts.markToSelf(ids)) > 0)
      ctx.log.error({ payout_ids: ids }, "payouts name an address of the venue's own: pay them by hand")
    return 'kept back'
  }
  if (unexplained.length === 0) return 'payable'
  const orderIds = payouts.flatMap(({ order_id: id }) => id ?? [])
  const disputed = await ctx.purposes.order.suspected(ctx, coin, unexplained, orderIds)
  return disputed.length === 0 ? 'payable' : 'kept back'
}
