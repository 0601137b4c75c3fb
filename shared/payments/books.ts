import { given } from '../foundation/given.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { SECOND_MS, nowSeconds } from '../foundation/time.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import { untilNodeFails } from './coin-round.ts'
import type { CoinRecord } from './coin-store.ts'
import type { CoinDriver, Holdings } from './driver.ts'
import { isByHandAlone } from './invoice.ts'
import { move, type JournalLine } from './journal.ts'
import { OPEN_TRANSFERS } from './payout.ts'

const EVERY_SECONDS = 30
/** Looks at the chain, one of which has to fall between two changes. */
const LOOKS = 6
const PAUSE_MS = SECOND_MS / 2
/** A gap that is gone after so long was money under way: a node tells of that in two answers. */
const SURE_MS = 2 * SECOND_MS

/** Records the gap: above 0 if the chain has more. Deposits that are no payments are booked first. */
export async function compareBooks(ctx: Context, driver: CoinDriver): Promise<void> {
  const { coin } = driver
  const record = await ctx.coins.findCoin(coin)
  const now = nowSeconds(ctx)
  if (record?.reachable !== true || Math.abs(now - (record.gap_at ?? 0)) < EVERY_SECONDS) return
  await untilNodeFails(ctx, coin, async () => {
    const found = await measureSurely(ctx, record, () => driver.holdings())
    if (found === undefined) return
    const { address, height } = found
    const gapRaw = await openWallet(ctx, record, found)
    const fields = { gap_raw: String(gapRaw), gap_at: now, books_address: address }
    await ctx.coins.noteGap(coin, { ...fields, ...given({ books_height: height }) })
    if (gapRaw !== 0n && record.gap_raw !== fields.gap_raw)
      ctx.log.error(
        { coin, gap_raw: fields.gap_raw },
        `the books and the chain of ${COIN_UNITS[coin].name} differ about what is held`,
      )
  })
}

/** A gap that is news is looked at twice. */
async function measureSurely(ctx: Context, { _id: coin, gap_raw: known = '0' }: CoinRecord, look: Look) {
  const found = await measure(ctx, coin, look)
  if (found === undefined || String(found.gapRaw) === known) return found
  await sleep(SURE_MS)
  const again = await measure(ctx, coin, look)
  return again?.gapRaw === found.gapRaw ? again : undefined
}

type Look = () => Promise<Holdings | undefined>
type Measured = Holdings & { gapRaw: bigint }

/** @returns undefined if something changed during each of the looks */
async function measure(ctx: Context, coin: Coin, look: Look): Promise<Measured | undefined> {
  for (let left = LOOKS; left > 0; left--) {
    const before = await readMark(ctx, coin)
    const found = await look()
    if (
      found !== undefined &&
      !(await bookDeposits(ctx, coin, found)) &&
      (await readMark(ctx, coin)).text === before.text
    )
      return { ...found, gapRaw: found.heldRaw - before.heldRaw }
    await sleep(PAUSE_MS)
  }
  return undefined
}

/** What changes with every move of money that the books or our own transactions make. */
async function readMark(ctx: Context, coin: Coin): Promise<{ heldRaw: bigint; text: string }> {
  const { transfers } = ctx.payouts.models
  const [heldRaw, under, last] = await Promise.all([
    ctx.journal.held(coin),
    transfers
      .find({ coin, state: { $in: [...OPEN_TRANSFERS] } }, { state: 1 })
      .sort({ _id: 1 })
      .lean(),
    transfers.findOne({ coin, state: 'confirmed' }, { _id: 1 }).sort({ _id: -1 }).lean(),
  ])
  const states = under.map(({ _id, state }) => [_id, state])
  return { heldRaw, text: JSON.stringify([String(heldRaw), states, last?._id]) }
}

async function bookDeposits(ctx: Context, coin: Coin, { deposits }: Holdings): Promise<boolean> {
  const at = nowSeconds(ctx)
  const lines = deposits.flatMap(({ source, account, amountRaw }) =>
    move(source, 'chain', account, amountRaw, { coin, at }),
  )
  const known = new Set(await ctx.journal.listKnown(lines.map(({ _id }) => _id)))
  const fresh = lines.filter(({ _id }) => !known.has(_id))
  const txs = [...new Set(fresh.map(({ _id }) => _id.split('/')[1] ?? ''))]
  await ctx.database.transaction(async (session) => {
    await ctx.coins.claim(coin, txs, session)
    // What the operator has recorded as an invoice's since the look is in the books.
    const payments = await ctx.invoices.listPaymentsByTx(coin, txs, session)
    const recorded = new Set(
      payments.filter(isByHandAlone).map(({ tx, amount_raw: raw }) => `${coin}/${tx} ${raw}`),
    )
    const isRecorded = ({ _id, amount_raw: raw }: JournalLine) =>
      recorded.has(`${_id.slice(0, _id.lastIndexOf('/'))} ${raw}`)
    const missing = fresh.filter((line) => !isRecorded(line))
    await ctx.journal.write(missing, session)
  })
  return fresh.length > 0
}

/**
 * What a wallet held before the books saw it, and what stays behind in one no longer used, is the operator's.
 * Less than the books say isn't explained by that, unless they were opened from older records.
 *
 * @returns the rest of the gap
 */
async function openWallet(ctx: Context, { _id: coin, books_address: known }: CoinRecord, found: Measured) {
  const { address, gapRaw, height } = found
  if (known === address || gapRaw === 0n) return gapRaw
  // A chain that is not read from a height on is read from its first block: a reconciliation books what is
  // not on record.
  if (known === undefined && (gapRaw < 0n || height === undefined) && !(await ctx.journal.isMigrated()))
    return gapRaw
  const at = nowSeconds(ctx)
  const lines = move(`opening/${coin}/${address}/${at}`, 'chain', 'operator', gapRaw, { coin, at })
  await ctx.database.transaction((session) => ctx.journal.write(lines, session))
  ctx.log.warn(
    { coin, address, amount_raw: String(gapRaw) },
    "the books begin with a wallet that holds another sum; the difference is the operator's",
  )
  return 0n
}
