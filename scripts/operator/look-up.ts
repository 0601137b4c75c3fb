import { usageError } from '../../client/command/command-error.ts'
import { orIfLate, waitFor } from '../embedded/wait.ts'
import type { Context } from '../../shared/context.ts'
import { withDeadline } from '../../shared/platform/deadline.ts'
import { COIN_FACTS } from '../../shared/money/coin-facts.ts'
import type { Coin } from '../../shared/money/coin.ts'
import type { FoundPay } from '../../shared/money/driver.ts'
import { isChainReachable } from '../../shared/money/invoice-service.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { isTxHash } from '../../shared/money/transfer.ts'
import { nowSeconds, SECOND_MS } from '../../shared/platform/time.ts'

const REDIS_WAIT_MS = 2 * SECOND_MS
const ANSWER_WAIT_MS = 15 * SECOND_MS

/**
 * @throws CommandError unless `tx` is 64 lower-case hex characters, as is the hash of a transaction or block
 */
export function requireTxHash(tx: string): void {
  if (!isTxHash(tx)) throw usageError('TX is the hash of a transaction or block: 64 hex characters.')
}

/** What a coin's node says about a transaction. */
export type TransactionLookUp =
  | { isKnown: true; pays: FoundPay[] }
  /** The chain doesn't have it, as far as the node can tell. */
  | { isKnown: false }
  /** The node is away, or no worker answers. */
  | 'no_answer'

/**
 * Asks a worker of the coin whom a transaction pays, and waits up to 15 s for the answer. (The operator's
 * command has no node.)
 */
export async function lookUpTransaction(ctx: Context, coin: Coin, tx: string): Promise<TransactionLookUp> {
  const isReachable = isChainReachable(ctx, await ctx.coins.findCoin(coin))
  if (!isReachable || !(await hasWorker(ctx, coin))) return 'no_answer'
  await ctx.coins.askLookUp(coin, tx, nowSeconds(ctx))
  if (!(await ctx.queues.enqueue(COIN_FACTS[coin].queues.check, { tx }))) return 'no_answer'
  const answer = await waitFor('the look at the chain', () => ctx.coins.readLookUp(coin, tx), {
    limitMs: ANSWER_WAIT_MS,
  }).catch(orIfLate(undefined))
  if (answer === undefined) return 'no_answer'
  if (answer.found === undefined) return { isKnown: false }
  const pays = answer.found.map(({ to, amount_raw: raw, is_confirmed: isConfirmed }) => ({
    to,
    amountRaw: BigInt(raw),
    isConfirmed,
  }))
  return { isKnown: true, pays }
}

/** Whether a worker serves the coin's look-ups; false if Redis doesn't answer. */
async function hasWorker(ctx: Context, coin: Coin): Promise<boolean> {
  const count = async () => {
    await ctx.queues.whenReady()
    return ctx.queues.get(COIN_FACTS[coin].queues.check).getWorkersCount()
  }
  return (await withDeadline(count(), REDIS_WAIT_MS, () => new Error('Redis is away')).catch(() => 0)) > 0
}

/** The payments among `pays` to this address, or to another address of the same account, and their sum. */
export function filterPaysTo(
  coin: Coin,
  pays: readonly FoundPay[],
  address: string,
): { pays: FoundPay[]; sumRaw: bigint } {
  const accountOf = (text: string): string => COIN_FACTS[coin].parseAddress(text)?.account ?? text
  const toAddress = pays.filter(({ to }) => accountOf(to) === accountOf(address))
  return { pays: toAddress, sumRaw: toAddress.reduce((sum, { amountRaw }) => sum + amountRaw, 0n) }
}

/**
 * Finds out whether a transaction paid a payout, apart from other payouts that are recorded as paid by it: by
 * our own record of it, or else by the chain.
 *
 * @returns `unknown` if the chain can't be asked, or its wallet knows no transactions but its own
 */
export async function findWhatPaid(
  ctx: Context,
  { _id, coin, address }: Pick<PayoutRecord, '_id' | 'coin' | 'address'>,
  tx: string,
): Promise<'paid' | 'nothing' | 'unknown'> {
  if (address === undefined) return 'unknown'
  const { payeeOf, paysOneAddress } = COIN_FACTS[coin]
  const sentTo = async (): Promise<bigint | undefined> => {
    const transfer = await ctx.payouts.transfers.findByTx(coin, tx)
    if (transfer?.kind === 'payout' && payeeOf !== undefined)
      return payeeOf(transfer.signed) === address ? BigInt(transfer.amount_raw) : 0n
    const lookUp = await lookUpTransaction(ctx, coin, tx)
    if (lookUp === 'no_answer') return undefined
    if (!lookUp.isKnown || lookUp.pays.length === 0) return paysOneAddress ? 0n : undefined
    return filterPaysTo(coin, lookUp.pays, address).sumRaw
  }
  const sentRaw = await sentTo()
  if (sentRaw === undefined) return 'unknown'
  const others = (await ctx.payouts.listPaidByHand(coin, tx)).filter((other) => other._id !== _id)
  const toAddress = others.filter((other) => other.address === address)
  const leftRaw = toAddress.reduce((left, { amount_raw: raw }) => left - BigInt(raw), sentRaw)
  return leftRaw > 0n ? 'paid' : 'nothing'
}
