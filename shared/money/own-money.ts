import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newStepId } from '../platform/ids.ts'
import { nowSeconds } from '../platform/time.ts'
import { stageOf } from './arrival-steps.ts'
import type { ArrivalRecord } from './arrival.ts'
import { requireUpdate, storeArrivalStep } from './arrival-updates.ts'
import { formatAmount, type Coin } from './coin.ts'
import { keepUnassigned } from './unassigned-money.ts'

/*
 * What the operator puts in is the venue's own once the operator says so: of money that has come, or before it comes.
 * What is said of money that has not come is kept with its coin, and each round of the coin's watcher looks whether it
 * has.
 */

/** What the operator puts in: all that a transaction brings, or one sum that comes to the treasury. */
export type OwnMoney = { tx: string } | { amountRaw: bigint }

/** As it is kept: 64 hex characters of a transaction, or an amount in the coin's smallest unit, which is shorter. */
const wordOf = (money: OwnMoney): string => ('tx' in money ? money.tx.toLowerCase() : String(money.amountRaw))
const isTransaction = (word: string): boolean => word.length === 64

/** More are a mistake, and each costs a look in each round. */
const MAX_ANNOUNCED = 20

/**
 * Makes money the venue's own: what has come to nobody, at once; else what comes from now on.
 *
 * @returns what is the venue's own by that; nothing if it has not come
 * @throws Refusal `wrong_state` if it is the venue's own already, or announced; or if several such sums have come
 */
export function topUp(ctx: Context, coin: Coin, money: OwnMoney): Promise<ArrivalRecord[]> {
  const word = wordOf(money)
  return ctx.database.transaction(async (session) => {
    const found = await listMatching(ctx, coin, word, session)
    if (!isTransaction(word) && found.length > 1)
      throw new Refusal(
        'wrong_state',
        `${formatAmount(BigInt(word), coin)} ${coin} came more than once: name the transaction, ${found.map(({ tx }) => tx).join(' or ')}.`,
      )
    if (found.length > 0) return keepAll(ctx, found, session)
    if (isTransaction(word)) await requireNotKept(ctx, word, session)
    if (!(await ctx.coins.announce(coin, word, MAX_ANNOUNCED, session)))
      throw new Refusal(
        'wrong_state',
        `It is announced already, ${MAX_ANNOUNCED} others are, or no worker has set ${coin} up.`,
      )
    return []
  })
}

/**
 * Takes back that money is the venue's own, or will be.
 *
 * @returns what is nobody's by that; undefined if it had only been announced
 * @throws Refusal `no_such_record`, `wrong_state`
 */
export async function undoTopUp(
  ctx: Context,
  coin: Coin,
  money: OwnMoney,
): Promise<ArrivalRecord | undefined> {
  const word = wordOf(money)
  if (await ctx.database.transaction((session) => ctx.coins.dropAnnounced(coin, word, session)))
    return undefined
  if ('tx' in money) return keepUnassigned(ctx, money.tx, false)
  throw new Refusal('no_such_record', 'No such sum is announced; what has come is named by its transaction.')
}

/** Makes what was announced and has come the venue's own; what has not stays announced. */
export async function keepAnnounced(ctx: Context, coin: Coin, words: readonly string[]): Promise<void> {
  for (const word of words) {
    const kept = await ctx.database.transaction(async (session) => {
      const found = await listMatching(ctx, coin, word, session)
      if (found.length === 0 || !(await ctx.coins.dropAnnounced(coin, word, session))) return []
      return keepAll(ctx, isTransaction(word) ? found : found.slice(0, 1), session)
    })
    for (const { _id: payment_id, tx } of kept)
      ctx.log.info({ money: 'own', payment_id, coin, tx }, 'what the operator had announced has come')
  }
}

/** What came to nobody by a transaction, or as this sum to the treasury, the oldest first. */
async function listMatching(
  ctx: Context,
  coin: Coin,
  word: string,
  session: Session,
): Promise<ArrivalRecord[]> {
  const found = isTransaction(word)
    ? await ctx.invoices.arrivals.listUnclaimed(word, session)
    : await ctx.invoices.arrivals.listInTreasury(coin, word, session)
  return found.filter((arrival) => arrival.coin === coin && stageOf(arrival) === 'unassigned')
}

/** @throws Refusal `wrong_state` if what the transaction brought is the venue's own */
async function requireNotKept(ctx: Context, tx: string, session: Session): Promise<void> {
  const known = await ctx.invoices.arrivals.listUnclaimed(tx, session)
  if (known.some((arrival) => stageOf(arrival) === 'operator'))
    throw new Refusal('wrong_state', "It is the operator's already.")
}

async function keepAll(
  ctx: Context,
  found: readonly ArrivalRecord[],
  session: Session,
): Promise<ArrivalRecord[]> {
  const kept: ArrivalRecord[] = []
  for (const arrival of found) {
    const update = requireUpdate(arrival, { step: 'kept', stepId: newStepId() }, nowSeconds(ctx))
    await storeArrivalStep(ctx, arrival, update, session)
    kept.push({ ...arrival, ...update.set })
  }
  return kept
}
