import type { Context } from '../context.ts'
import { COIN_FACTS } from '../payments/coin-facts.ts'
import { COINS, formatAmount, type Coin } from '../payments/coin.ts'
import type { CoinRecord } from '../payments/coin-store.ts'
import { readSendable } from '../payments/due-payouts.ts'
import { isFresh } from '../payments/rate.ts'
import { HOUR_MS, MINUTE_MS, nowSeconds, SECOND_MS } from '../foundation/time.ts'
import { formatGap, OPERATOR, type Finding, type FindingReader } from './finding.ts'

const UNHEARD_SECONDS = (2 * MINUTE_MS) / SECOND_MS
const NOT_COMPARED_SECONDS = (15 * MINUTE_MS) / SECOND_MS
const DUE_SECONDS = HOUR_MS / SECOND_MS

export const coinFindings: FindingReader = {
  name: 'coins',
  needs: 'mongodb',
  async read(ctx) {
    const configured = (await ctx.coins.listCoins()).filter((coin) => coin.configured)
    const found = await Promise.all([
      ...configured.map(async (coin) => [
        ...checkCoin(coin, nowSeconds(ctx)),
        await checkRate(ctx, coin._id),
        await checkTreasury(ctx, coin),
      ]),
      ...COINS.map((coin) => checkPayouts(ctx, coin)),
    ])
    return found.flat()
  },
}

const amount = (raw: string | bigint, coin: Coin): string =>
  `${formatAmount(BigInt(raw), coin)} ${coin.toUpperCase()}`

/** What the coin's worker has stored about its node and its books. @param now Unix seconds */
function checkCoin(coin: CoinRecord, now: number): Finding[] {
  const { _id: name, halted, gap_raw: gapRaw = '0', gap_at: comparedAt } = coin
  const found: Finding[] = []
  if (now - coin.alive_at > UNHEARD_SECONDS)
    found.push({
      kind: 'coin_unheard',
      about: name,
      since: coin.alive_at,
      what: `No worker has told anything of ${name}: payments wait`,
      command: `npm run workers -- --queues ${COIN_FACTS[name].queues.watch}   # with the settings of its node`,
    })
  else if (!coin.reachable)
    found.push({
      kind: 'coin_away',
      about: name,
      since: coin.checked_at,
      what: `The node of ${name} is out of reach: payments wait, nothing expires`,
      why: coin.unreachable,
      command: 'start the node, or look at its log; the network goes on by itself',
    })
  for (const [part, problem] of Object.entries(coin.problems ?? {}))
    found.push({
      kind: 'coin_not_ready',
      about: `${name} ${part}`,
      what: `Nobody can pay with ${name} because of its ${part}`,
      why: problem,
      command: `mend what is said, for the workers of ${name}; it is looked at again in each round`,
    })
  if (halted !== undefined)
    found.push({
      kind: 'coin_halted',
      about: name,
      since: halted.at,
      what: `Payouts, sweeps and new addresses of ${name} are stopped`,
      why: halted.reason,
      command: `${OPERATOR} reconcile ${name}   # first with --dry-run: it shows what waits`,
    })
  if (gapRaw !== '0')
    found.push({
      kind: 'books_gap',
      about: name,
      what: `The chain of ${name} holds ${formatGap(BigInt(gapRaw), name)} than the books say`,
      command: `${OPERATOR} books --coin ${name}`,
    })
  if (coin.reachable && comparedAt !== undefined && now - comparedAt > NOT_COMPARED_SECONDS)
    found.push({
      kind: 'books_not_compared',
      about: name,
      since: comparedAt,
      what: `The books of ${name} have not been compared with the chain`,
      command: `${OPERATOR} books --coin ${name}`,
    })
  return found
}

async function checkRate(ctx: Context, coin: Coin): Promise<Finding | undefined> {
  const rate = await ctx.coins.findRate(coin)
  if (rate !== undefined && isFresh(rate, ctx.databaseNow())) return undefined
  return {
    kind: 'rate_stale',
    about: coin,
    since: rate?.at,
    what: `There is no fresh rate of ${coin}: nothing can be bought with it`,
    why: 'too few exchanges answer or agree; the log of the workers of refresh-rates says which',
    command: `set ${coin.toUpperCase()}_USD or RATE_SOURCES for the workers of refresh-rates, and start them again`,
  }
}

/** Whether the treasury, the account that payouts are sent from, holds what is owed. */
async function checkTreasury(ctx: Context, record: CoinRecord): Promise<Finding | undefined> {
  const { _id: coin, treasury_raw: heldRaw, treasury_short_raw: short = '0' } = record
  const address = record.treasury_address ?? 'the wallet'
  if (BigInt(short) > 0n)
    return {
      kind: 'treasury_short',
      about: coin,
      what: `The treasury of ${coin} lacks ${amount(short, coin)} for payouts that are due`,
      why: heldRaw === undefined ? undefined : `it holds ${amount(heldRaw, coin)}`,
      command: `send ${amount(short, coin)} to ${address}`,
    }
  const owedRaw = (await ctx.payouts.sumUnpaid())[coin]
  if (heldRaw === undefined || BigInt(heldRaw) >= owedRaw) return undefined
  return {
    kind: 'treasury_low',
    about: coin,
    what: `The treasury of ${coin} holds ${amount(heldRaw, coin)}, and ${amount(owedRaw, coin)} are owed`,
    why: 'what was paid lately may still be on its way into it',
    command: `send ${amount(owedRaw - BigInt(heldRaw), coin)} to ${address}`,
  }
}

/** Payouts that wait for somebody: held, refused by the node, not accounted for, or due for too long. */
async function checkPayouts(ctx: Context, coin: Coin): Promise<Finding[]> {
  const isAutomatic = ctx.config.payouts === 'automatic'
  const [held, refused, unexplained, { due }] = await Promise.all([
    ctx.payouts.listUnsendable(coin, 'held', 200),
    ctx.payouts.listTransfers(coin, ['held'], 200),
    ctx.payouts.listUnexplained(coin),
    readSendable(ctx, coin, !isAutomatic),
  ])
  const dueSince = Math.min(...due.map(({ at }) => at)) // Infinity if none is due
  const firstIds = (records: readonly { _id: string }[]): string =>
    records
      .slice(0, 3)
      .map(({ _id }) => _id)
      .join(', ')
  const found: Finding[] = []
  if (held.length > 0)
    found.push({
      kind: 'payout_held',
      about: coin,
      since: Math.min(...held.map(({ changed_at: at }) => at)),
      what: `${held.length} payouts of ${coin} are held, their outcome unknown: ${firstIds(held)}`,
      command: `${OPERATOR} reconcile ${coin} --dry-run`,
    })
  if (refused.length > 0)
    found.push({
      kind: 'transfer_held',
      about: coin,
      since: Math.min(...refused.map(({ changed_at: at }) => at)),
      what: `The node refuses ${refused.length} of our transactions in ${coin}: ${firstIds(refused)}`,
      why: 'each is offered again with growing pauses',
      command: `${OPERATOR} show ${refused[0]?._id ?? ''}`,
    })
  if (unexplained.length > 0)
    found.push({
      kind: 'send_unexplained',
      about: coin,
      what: `${unexplained.length} sends of the wallet of ${coin} are not accounted for`,
      command: `${OPERATOR} reconcile ${coin} --dry-run`,
    })
  if (nowSeconds(ctx) - dueSince > DUE_SECONDS)
    found.push({
      kind: 'payout_due',
      about: coin,
      since: dueSince,
      what: `${due.length} payouts of ${coin} are due and have not gone out: ${firstIds(due)}`,
      command: isAutomatic ? `${OPERATOR} payouts` : `${OPERATOR} pay --all`,
    })
  return found
}
