import type { Context } from '../context.ts'
import { isOutage, unavailable } from '../servers/database.ts'
import { withDeadline } from '../foundation/deadline.ts'
import { Refusal } from '../foundation/errors.ts'
import { COIN_CACHE_MS, COIN_READ_LIMIT_MS } from '../foundation/limits.ts'
import { runInScope } from '../foundation/scope.ts'
import { COINS, type Coin } from './coin.ts'
import type { CoinRecord, RateRecord } from './coin-store.ts'
import { isCoinReady } from './invoice-service.ts'
import { isFresh } from './rate.ts'

export type CoinMenu = Readonly<Partial<Record<Coin, RateRecord>>>

interface Read {
  atMs: number
  coins: Promise<readonly [CoinRecord[], RateRecord[]]>
}

/** Reads once a second at most. Without MongoDB the last reading stands, until its own times are too old. */
export function createCoinMenu(ctx: Context): () => Promise<CoinMenu> {
  let last: Read | undefined
  const read = (before: Read | undefined): Read => {
    const fresh = runInScope({}, () => Promise.all([ctx.coins.listCoins(), ctx.coins.listRates()]))
    const coins = withDeadline(fresh, COIN_READ_LIMIT_MS, () => unavailable()).catch((error: unknown) => {
      if (before === undefined || !(error instanceof Refusal || isOutage(error))) {
        last = undefined
        throw error
      }
      return before.coins
    })
    return { atMs: performance.now(), coins }
  }
  return async () => {
    if (last === undefined || performance.now() - last.atMs >= COIN_CACHE_MS) last = read(last)
    const [coins, rates] = await last.coins
    return Object.fromEntries(
      COINS.flatMap((coin) => {
        const rate = rates.find(({ _id }) => _id === coin)
        const isReady = isCoinReady(
          ctx,
          coins.find(({ _id }) => _id === coin),
        )
        return rate !== undefined && isReady && isFresh(rate, ctx.databaseNow()) ? [[coin, rate]] : []
      }),
    )
  }
}
