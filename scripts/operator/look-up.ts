import { TimeoutError, waitFor } from '../embedded/wait.ts'
import type { Context } from '../../shared/context.ts'
import { withDeadline } from '../../shared/foundation/deadline.ts'
import { COIN_FACTS } from '../../shared/payments/coin-facts.ts'
import type { Coin } from '../../shared/payments/coin.ts'
import type { FoundPay } from '../../shared/payments/driver.ts'
import { isChainReachable } from '../../shared/payments/invoice-service.ts'
import { SECOND_MS, unixSeconds } from '../../shared/foundation/time.ts'

const REDIS_WAIT_MS = 2 * SECOND_MS
const ANSWER_WAIT_MS = 15 * SECOND_MS

/** Whom a transaction pays. A worker looks at the chain, since there is no node and no key here. */
export type LookedUp =
  | { isKnown: true; pays: FoundPay[] }
  /** The chain does not have it, as far as the node can tell. */
  | { isKnown: false }
  /** The node is away, or no worker answers. */
  | 'unasked'

export async function lookUp(ctx: Context, coin: Coin, tx: string): Promise<LookedUp> {
  if (!isChainReachable(ctx, await ctx.coins.findCoin(coin)) || !(await hasWorker(ctx, coin)))
    return 'unasked'
  await ctx.coins.askLookUp(coin, tx, unixSeconds(ctx.databaseNow()))
  if (!(await ctx.queues.enqueue(COIN_FACTS[coin].queues.check, { tx }))) return 'unasked'
  try {
    const { found } = await waitFor('the look at the chain', () => ctx.coins.readLookUp(coin, tx), {
      limitMs: ANSWER_WAIT_MS,
    })
    if (found === undefined) return { isKnown: false }
    return {
      isKnown: true,
      pays: found.map(({ to, amount_raw: raw, is_confirmed: isConfirmed }) => ({
        to,
        amountRaw: BigInt(raw),
        isConfirmed,
      })),
    }
  } catch (error) {
    if (error instanceof TimeoutError) return 'unasked'
    throw error
  }
}

async function hasWorker(ctx: Context, coin: Coin): Promise<boolean> {
  const count = async () => {
    await ctx.queues.whenReady()
    return ctx.queues.get(COIN_FACTS[coin].queues.check).getWorkersCount()
  }
  return (await withDeadline(count(), REDIS_WAIT_MS, () => new Error('Redis is away')).catch(() => 0)) > 0
}

/** What of it goes to this address, or to another one of the same account. */
export function paidTo(coin: Coin, pays: readonly FoundPay[], address: string): FoundPay[] {
  const accountOf = (text: string): string => COIN_FACTS[coin].parseAddress(text)?.account ?? text
  return pays.filter(({ to }) => accountOf(to) === accountOf(address))
}
