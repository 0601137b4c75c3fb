import { omitUndefined } from '../platform/omit-undefined.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { SECOND_MS, nowSeconds } from '../platform/time.ts'
import { recordUnassigned } from './record-arrival.ts'
import type { Coin } from './coin.ts'
import { endOnNodeTrouble } from './coin-state.ts'
import type { CoinRecord } from './coin-store.ts'
import type { CoinDriver, Holdings } from './driver.ts'
import { move } from './journal.ts'
import { OPEN_TRANSFERS } from './transfer.ts'

const COMPARE_EVERY_SECONDS = 30
/** A comparison is repeated while money moves during it, at most so often. */
const MAX_TRIES = 6
const PAUSE_MS = SECOND_MS / 2
/** A gap that is gone after this long was money under way, of which a node tells in two answers. */
const SURE_MS = 2 * SECOND_MS

/**
 * Compares what the chain says we hold with what the books say, every 30 s at most, and records the gap:
 * above 0 if the chain has more. Money that is no payment and not on record yet is booked first.
 */
export async function compareBooks(ctx: Context, driver: CoinDriver): Promise<void> {
  const { coin } = driver
  const record = await ctx.coins.findCoin(coin)
  const now = nowSeconds(ctx)
  if (record?.reachable !== true || Math.abs(now - (record.gap_at ?? 0)) < COMPARE_EVERY_SECONDS) return
  await endOnNodeTrouble(ctx, coin, async () => {
    const found = await measureSurely(ctx, record, driver)
    if (found === undefined) return
    const { address, height, assets } = found
    const gapRaw = await bookOpening(ctx, record, found)
    const fields = {
      gap_raw: String(gapRaw),
      gap_at: now,
      books_address: address,
      assets,
      assets_at: nowSeconds(ctx),
    }
    await ctx.coins.noteGap(coin, { ...fields, ...omitUndefined({ books_height: height }) })
    if (gapRaw !== 0n && record.gap_raw !== fields.gap_raw)
      ctx.log.error({ coin, gap_raw: fields.gap_raw }, 'the books and the chain differ about what is held')
  })
}

type Measured = Holdings & { gapRaw: bigint }

/**
 * Measures the gap between chain and books; if it is not the known one, a second time after SURE_MS.
 *
 * @returns undefined if it could not be measured, or the second measurement gave another gap
 */
async function measureSurely(ctx: Context, { gap_raw: knownRaw = '0' }: CoinRecord, driver: CoinDriver) {
  const first = await measure(ctx, driver)
  if (first === undefined || String(first.gapRaw) === knownRaw) return first
  await sleep(SURE_MS)
  const second = await measure(ctx, driver)
  return second?.gapRaw === first.gapRaw ? second : undefined
}

/** Compares chain and books while nothing moves. @returns undefined if something moved during each try */
async function measure(ctx: Context, driver: CoinDriver): Promise<Measured | undefined> {
  const { coin } = driver
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const before = await readBooks(ctx, coin)
    const found = await driver.holdings()
    for (const arrival of found?.unrecorded ?? []) await recordUnassigned(ctx, arrival)
    const isComplete = found?.unrecorded.length === 0
    if (isComplete && (await readBooks(ctx, coin)).version === before.version)
      return { ...found, gapRaw: found.heldRaw - before.heldRaw }
    await sleep(PAUSE_MS)
  }
  return undefined
}

/** What we hold by the books; `version` changes with every booking and every step of our own transactions. */
async function readBooks(ctx: Context, coin: Coin): Promise<{ heldRaw: bigint; version: string }> {
  const { transfers } = ctx.payouts.transfers.models
  const [heldRaw, open, last] = await Promise.all([
    ctx.journal.held(coin),
    transfers
      .find({ coin, state: { $in: [...OPEN_TRANSFERS] } }, { state: 1 })
      .sort({ _id: 1 })
      .lean(),
    transfers.findOne({ coin, state: 'confirmed' }, { _id: 1 }).sort({ _id: -1 }).lean(),
  ])
  const states = open.map(({ _id, state }) => [_id, state])
  return { heldRaw, version: JSON.stringify([String(heldRaw), states, last?._id]) }
}

/**
 * Books the gap of a wallet that is compared for the first time as the operator's: what it held before, and
 * what stays behind in the wallet before it. A first wallet that holds less than the books say isn't
 * explained by that.
 *
 * @returns what is left of the gap
 */
async function bookOpening(ctx: Context, { _id: coin, books_address: known }: CoinRecord, found: Measured) {
  const { address, gapRaw, height } = found
  if (known === address || gapRaw === 0n) return gapRaw
  // Without a height the chain was searched from its first block: only a reconciliation may book the rest.
  if (known === undefined && (gapRaw < 0n || height === undefined)) return gapRaw
  const at = nowSeconds(ctx)
  const lines = move(`opening/${coin}/${address}/${at}`, 'chain', 'operator', gapRaw, { coin, at })
  await ctx.database.transaction((session) => ctx.journal.write(lines, session))
  ctx.log.warn(
    { coin, address, amount_raw: String(gapRaw) },
    "the books begin with a wallet that holds another sum; the difference is the operator's",
  )
  return 0n
}
