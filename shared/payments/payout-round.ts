import type { Context } from '../context.ts'
import { SECOND_MS } from '../foundation/time.ts'
import { parseAmount } from './coin.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { isStopped, untilNodeFails } from './coin-round.ts'
import type { CoinDriver, NextDue } from './driver.ts'
import { isPayable, listDue, noteTreasury, splitDue, sumDue, type DueGroup } from './due-payouts.ts'

const LISTED_FOR_MS = 5 * SECOND_MS

/** To each payee once the sum reaches MIN_PAYOUT; with PAYOUTS=manual what the operator asked for. */
export async function payoutRound(ctx: Context, driver: CoinDriver): Promise<void> {
  if (await isStopped(ctx, driver.coin)) return
  const isSending = ctx.config.payouts === 'automatic' || (await ctx.payouts.hasAsked(driver.coin))
  if (!isSending && !(await driver.isUnderWay())) return
  await untilNodeFails(ctx, driver.coin, () => driver.pay(nextDue(ctx, driver)))
}

/** For one round of one process: what is due is listed anew after 5 s, and each group is given once. */
export function nextDue(ctx: Context, { coin, bounds }: Pick<CoinDriver, 'coin' | 'bounds'>): NextDue {
  let due: DueGroup[] = []
  let listedMs = Number.NEGATIVE_INFINITY
  return async ({ address, totalRaw, spendableRaw, onItsWay }) => {
    // Listed after a payout under way was seen to.
    if (performance.now() - listedMs > LISTED_FOR_MS) {
      due = await listDue(ctx, coin, bounds)
      listedMs = performance.now()
    }
    const missingRaw = sumDue(due) - spendableRaw
    const lackingRaw = missingRaw > 0n ? missingRaw - ((await onItsWay?.()) ?? 0n) : 0n
    await noteTreasury(ctx, coin, {
      treasury_address: address,
      treasury_raw: String(totalRaw),
      treasury_short_raw: String(lackingRaw > 0n ? lackingRaw : 0n),
    })
    return choose(ctx, { coin, bounds }, due, spendableRaw)
  }
}

async function choose(
  ctx: Context,
  { coin, bounds: { maxGroups, oneTransaction } }: Pick<CoinDriver, 'coin' | 'bounds'>,
  due: DueGroup[],
  spendableRaw: bigint,
): Promise<DueGroup[]> {
  const least = parseAmount(ctx.config.minPayout[coin], coin)
  const chosen: DueGroup[] = []
  let leftRaw = spendableRaw
  for (let at = 0; at < due.length && chosen.length < maxGroups;) {
    const group = due[at] as DueGroup
    const isAlone = oneTransaction?.goesAlone(group) === true
    const isApart =
      oneTransaction !== undefined &&
      (isAlone ? chosen.length > 0 : chosen.some(({ address }) => address === group.address))
    const part = isApart
      ? undefined
      : group.sumRaw > leftRaw
        ? splitDue(group, leftRaw, least)
        : due.splice(at, 1)[0]
    if (part === undefined) {
      at++
      continue
    }
    if (!(await isPayable(ctx, coin, part, (text) => COIN_FACTS[coin].parseAddress(text) !== undefined)))
      continue
    chosen.push(part)
    leftRaw -= part.sumRaw
    if (isAlone) break
  }
  return chosen
}
