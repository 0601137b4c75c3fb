import { usageError } from '../../client/command/command-error.ts'
import { orIfLate, waitFor } from '../embedded/wait.ts'
import type { Context } from '../../shared/context.ts'
import { withDeadline } from '../../shared/foundation/deadline.ts'
import { COIN_FACTS } from '../../shared/payments/coin-facts.ts'
import type { Coin } from '../../shared/payments/coin.ts'
import type { FoundPay } from '../../shared/payments/driver.ts'
import { isChainReachable } from '../../shared/payments/invoice-service.ts'
import { nowSeconds, SECOND_MS } from '../../shared/foundation/time.ts'

const REDIS_WAIT_MS = 2 * SECOND_MS
const ANSWER_WAIT_MS = 15 * SECOND_MS

/** @throws CommandError if it isn't the hash of a transaction or block */
export function requireTx(tx: string): void {
  if (!/^[0-9a-f]{64}$/.test(tx))
    throw usageError('TX is the hash of a transaction or block: 64 hex characters.')
}

/** What a coin's node says about a transaction. */
export type LookedUp =
  | { isKnown: true; pays: FoundPay[] }
  /** The chain doesn't have it, as far as the node can tell. */
  | { isKnown: false }
  /** The node is away, or no worker answers. */
  | 'unasked'

/** Asks a worker of the coin whom a transaction pays: the operator's command has no node. */
export async function lookUp(ctx: Context, coin: Coin, tx: string): Promise<LookedUp> {
  const isReachable = isChainReachable(ctx, await ctx.coins.findCoin(coin))
  if (!isReachable || !(await hasWorker(ctx, coin))) return 'unasked'
  await ctx.coins.askLookUp(coin, tx, nowSeconds(ctx))
  if (!(await ctx.queues.enqueue(COIN_FACTS[coin].queues.check, { tx }))) return 'unasked'
  const answer = await waitFor('the look at the chain', () => ctx.coins.readLookUp(coin, tx), {
    limitMs: ANSWER_WAIT_MS,
  }).catch(orIfLate(undefined))
  if (answer === undefined) return 'unasked'
  if (answer.found === undefined) return { isKnown: false }
  const pays = answer.found.map(({ to, amount_raw: raw, is_confirmed: isConfirmed }) => ({
    to,
    amountRaw: BigInt(raw),
    isConfirmed,
  }))
  return { isKnown: true, pays }
}

async function hasWorker(ctx: Context, coin: Coin): Promise<boolean> {
  const count = async () => {
    await ctx.queues.whenReady()
    return ctx.queues.get(COIN_FACTS[coin].queues.check).getWorkersCount()
  }
  return (await withDeadline(count(), REDIS_WAIT_MS, () => new Error('Redis is away')).catch(() => 0)) > 0
}

/** The payments among `pays` to this address, or to another address of the same account. */
export function paidTo(coin: Coin, pays: readonly FoundPay[], address: string): FoundPay[] {
  const accountOf = (text: string): string => COIN_FACTS[coin].parseAddress(text)?.account ?? text
  return pays.filter(({ to }) => accountOf(to) === accountOf(address))
}
