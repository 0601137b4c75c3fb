import type { Context } from '../context.ts'
import { COIN_FACTS } from '../payments/coin-facts.ts'
import { COINS, formatAmount, type Coin } from '../payments/coin.ts'
import type { CoinRecord } from '../payments/coin-store.ts'
import { readSendable } from '../payments/due-payouts.ts'
import { isFresh } from '../payments/rate.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS, unixSeconds } from '../foundation/time.ts'
import { OPERATOR, type Finding, type FindingReader } from './finding.ts'

const UNHEARD_SECONDS = (2 * MINUTE_MS) / SECOND_MS
const NOT_COMPARED_SECONDS = (15 * MINUTE_MS) / SECOND_MS
const DUE_SECONDS = HOUR_MS / SECOND_MS

export const coinFindings: FindingReader = {
  name: 'coins',
  needs: 'mongodb',
  async read(ctx) {
    const found = await Promise.all([
      ...(await ctx.coins.listCoins())
        .filter(({ configured }) => configured)
        .map(async (coin) => [
          ...stateFindings(coin, unixSeconds(ctx.databaseNow())),
          ...(await rateFindings(ctx, coin._id)),
          ...(await treasuryFindings(ctx, coin)),
        ]),
      ...COINS.map((coin) => payoutFindings(ctx, coin)),
    ])
    return found.flat()
  },
}

const amount = (raw: string | bigint, coin: Coin): string =>
  `${formatAmount(BigInt(raw), coin)} ${coin.toUpperCase()}`

function stateFindings(coin: CoinRecord, now: number): Finding[] {
  const {
    _id,
    reachable,
    unreachable,
    checked_at: checkedAt,
    alive_at: aliveAt,
    halted,
    problems = {},
  } = coin
  const { gap_raw: gapRaw = '0', gap_at: gapAt } = coin
  const found: Finding[] = []
  if (now - aliveAt > UNHEARD_SECONDS)
    found.push({
      kind: 'coin_unheard',
      about: _id,
      since: aliveAt,
      what: `No worker has told anything of ${_id}: payments wait`,
      command: `npm run workers -- --queues ${COIN_FACTS[_id].queues.watch}   # with the settings of its node`,
    })
  else if (!reachable)
    found.push({
      kind: 'coin_away',
      about: _id,
      since: checkedAt,
      what: `The node of ${_id} is out of reach: payments wait, nothing expires`,
      why: unreachable,
      command: 'start the node, or look at its log; the network goes on by itself',
    })
  for (const [about, problem] of Object.entries(problems))
    found.push({
      kind: 'coin_not_ready',
      about: `${_id} ${about}`,
      what: `Nobody can pay with ${_id} because of its ${about}`,
      why: problem,
      command: `mend what is said, for the workers of ${_id}; it is looked at again in each round`,
    })
  if (halted !== undefined)
    found.push({
      kind: 'coin_halted',
      about: _id,
      since: halted.at,
      what: `Payouts, sweeps and new addresses of ${_id} are stopped`,
      why: halted.reason,
      command: `${OPERATOR} reconcile ${_id}   # first with --dry-run: it shows what waits`,
    })
  if (gapRaw !== '0')
    found.push({
      kind: 'books_gap',
      about: _id,
      what: `The books and the chain of ${_id} differ by ${amount(gapRaw, _id)}`,
      command: `${OPERATOR} books --coin ${_id}`,
    })
  if (reachable && gapAt !== undefined && now - gapAt > NOT_COMPARED_SECONDS)
    found.push({
      kind: 'books_not_compared',
      about: _id,
      since: gapAt,
      what: `The books of ${_id} have not been compared with the chain`,
      command: `${OPERATOR} books --coin ${_id}`,
    })
  return found
}

async function rateFindings(ctx: Context, coin: Coin): Promise<Finding[]> {
  const rate = await ctx.coins.findRate(coin)
  if (rate !== undefined && isFresh(rate, ctx.databaseNow())) return []
  return [
    {
      kind: 'rate_stale',
      about: coin,
      since: rate?.at,
      what: `There is no fresh rate of ${coin}: nothing can be bought with it`,
      why: 'too few exchanges answer or agree; the log of the workers of refresh-rates says which',
      command: `set ${coin.toUpperCase()}_USD or RATE_SOURCES for the workers of refresh-rates, and start them again`,
    },
  ]
}

async function treasuryFindings(ctx: Context, coin: CoinRecord): Promise<Finding[]> {
  const { _id, treasury_address: address = 'the wallet', treasury_short_raw: short = '0' } = coin
  if (BigInt(short) > 0n)
    return [
      {
        kind: 'treasury_short',
        about: _id,
        what: `The treasury of ${_id} lacks ${amount(short, _id)} for payouts that are due`,
        why: coin.treasury_raw === undefined ? undefined : `it holds ${amount(coin.treasury_raw, _id)}`,
        command: `send ${amount(short, _id)} to ${address}`,
      },
    ]
  const owed = (await ctx.payouts.sumUnpaid())[_id]
  if (coin.treasury_raw === undefined || BigInt(coin.treasury_raw) >= owed) return []
  return [
    {
      kind: 'treasury_low',
      about: _id,
      what: `The treasury of ${_id} holds ${amount(coin.treasury_raw, _id)}, and ${amount(owed, _id)} are owed`,
      why: 'what was paid lately may still be on its way into it',
      command: `send ${amount(owed - BigInt(coin.treasury_raw), _id)} to ${address}`,
    },
  ]
}

async function payoutFindings(ctx: Context, coin: Coin): Promise<Finding[]> {
  const [held, transfers, unexplained, { due }] = await Promise.all([
    ctx.payouts.listUnsendable(coin, 'held', 200),
    ctx.payouts.listTransfers(coin, ['held'], 200),
    ctx.payouts.listUnexplained(coin),
    readSendable(ctx, coin, ctx.config.payouts !== 'automatic'),
  ])
  const since = due.length === 0 ? Infinity : Math.min(...due.map(({ at }) => at))
  const list = (ids: readonly { _id: string }[]): string =>
    ids
      .map(({ _id }) => _id)
      .slice(0, 3)
      .join(', ')
  return [
    ...(held.length === 0
      ? []
      : [
          {
            kind: 'payout_held' as const,
            about: coin,
            since: Math.min(...held.map(({ changed_at: at }) => at)),
            what: `${held.length} payouts of ${coin} are held, their outcome unknown: ${list(held)}`,
            command: `${OPERATOR} reconcile ${coin} --dry-run`,
          },
        ]),
    ...(transfers.length === 0
      ? []
      : [
          {
            kind: 'transfer_held' as const,
            about: coin,
            since: Math.min(...transfers.map(({ changed_at: at }) => at)),
            what: `The node refuses ${transfers.length} of our transactions in ${coin}: ${list(transfers)}`,
            why: 'each is offered again with growing pauses',
            command: `${OPERATOR} show ${transfers[0]?._id ?? ''}`,
          },
        ]),
    ...(unexplained.length === 0
      ? []
      : [
          {
            kind: 'send_unexplained' as const,
            about: coin,
            what: `${unexplained.length} sends of the wallet of ${coin} are not accounted for`,
            command: `${OPERATOR} reconcile ${coin} --dry-run`,
          },
        ]),
    ...(unixSeconds(ctx.databaseNow()) - since <= DUE_SECONDS
      ? []
      : [
          {
            kind: 'payout_due' as const,
            about: coin,
            since,
            what: `${due.length} payouts of ${coin} are due and have not gone out: ${list(due)}`,
            command: ctx.config.payouts === 'automatic' ? `${OPERATOR} payouts` : `${OPERATOR} pay --all`,
          },
        ]),
  ]
}
