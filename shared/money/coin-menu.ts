import type { Context } from '../context.ts'
import { isOutage, unavailable } from '../platform/database.ts'
import { withDeadline } from '../platform/deadline.ts'
import { Refusal } from '../platform/errors.ts'
import { COIN_CACHE_MS, COIN_READ_LIMIT_MS } from '../platform/limits.ts'
import { runInScope } from '../platform/scope.ts'
import { COINS, type Coin } from './coin.ts'
import type { CoinRecord, RateRecord } from './coin-store.ts'
import { isCoinReady } from './invoice-service.ts'
import { isFresh } from './rate.ts'

/** The coins that can be paid with now, with their rates. */
export type CoinMenu = Readonly<Partial<Record<Coin, RateRecord>>>

interface Reading {
  atMs: number
  records: Promise<readonly [CoinRecord[], RateRecord[]]>
}

/**
 * Creates a function that reads the menu from the database, once a second at most. While MongoDB doesn't
 * answer it goes on with the last reading, until the times in that are too old.
 */
export function createCoinMenu(ctx: Context): () => Promise<CoinMenu> {
  let last: Reading | undefined
  const read = (before: Reading | undefined): Reading => {
    const fresh = runInScope({}, () => Promise.all([ctx.coins.listCoins(), ctx.coins.listRates()]))
    const records = withDeadline(fresh, COIN_READ_LIMIT_MS, () => unavailable()).catch((error: unknown) => {
      if (before !== undefined && (error instanceof Refusal || isOutage(error))) return before.records
      last = undefined
      throw error
    })
    return { atMs: performance.now(), records }
  }
  return async () => {
    if (last === undefined || performance.now() - last.atMs >= COIN_CACHE_MS) last = read(last)
    const [coins, rates] = await last.records
    const menu: Partial<Record<Coin, RateRecord>> = {}
    for (const coin of COINS) {
      const record = coins.find(({ _id }) => _id === coin)
      const rate = rates.find(({ _id }) => _id === coin)
      if (rate !== undefined && isCoinReady(ctx, record) && isFresh(rate, ctx.database.now()))
        menu[coin] = rate
    }
    return menu
  }
}
