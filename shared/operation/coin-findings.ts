import type { Context } from '../context.ts'
import { COIN_FACTS } from '../money/coin-facts.ts'
import { formatAmount, parseAmount, type Coin } from '../money/coin.ts'
import type { CoinRecord } from '../money/coin-store.ts'
import { readSendable, sendableSince } from '../money/due-payouts.ts'
import { isFresh } from '../money/rate.ts'
import { HOUR_MS, MINUTE_MS, nowSeconds, SECOND_MS } from '../platform/time.ts'
import { formatGap, OPERATOR, type Finding, type FindingReader } from './finding.ts'

/** A coin's worker writes with each round: a longer silence means that there is none. */
const UNHEARD_SECONDS = (2 * MINUTE_MS) / SECOND_MS
const NOT_COMPARED_SECONDS = (15 * MINUTE_MS) / SECOND_MS
/** How long a payout may be due before that is a finding. */
const DUE_SECONDS = HOUR_MS / SECOND_MS

/** What is wrong with the coins that are set up: nodes, rates, treasuries, books and payouts. */
export const coinFindings: FindingReader = {
  name: 'coins',
  needs: 'mongodb',
  async read(ctx) {
    const coins = await ctx.coins.listCoins()
    // Nothing was ever paid with a coin that no worker has served.
    if (coins.length === 0) return []
    const [unpaid, unassigned] = await Promise.all([
      ctx.payouts.sumUnpaid(),
      ctx.invoices.arrivals.sumUnassigned(),
    ])
    const configured = coins.filter((coin) => coin.configured)
    const findings = await Promise.all([
      ...configured.map(async (coin) => [
        ...checkCoin(coin, nowSeconds(ctx)),
        await checkRate(ctx, coin._id),
        checkTreasury(coin, unpaid[coin._id]),
        checkUnassigned(ctx, coin._id, unassigned[coin._id]),
      ]),
      ...coins.map(async ({ _id: coin }) => [
        await checkCovered(ctx, coin),
        ...(await checkPayouts(ctx, coin)),
      ]),
    ])
    return findings.flat()
  },
}

const formatSum = (raw: string | bigint, coin: Coin): string =>
  `${formatAmount(BigInt(raw), coin)} ${coin.toUpperCase()}`

/** Checks what the coin's worker has stored about its node and its books. @param now Unix seconds */
function checkCoin(coin: CoinRecord, now: number): Finding[] {
  const { _id: name, halted, gap_raw: gapRaw = '0', gap_at: comparedAt, ledger_gaps: ledgerGaps } = coin
  const findings: Finding[] = []
  if (now - coin.alive_at > UNHEARD_SECONDS)
    findings.push({
      kind: 'coin_unheard',
      about: name,
      since: coin.alive_at,
      what: `No worker has told anything of ${name}: payments wait`,
      command: `npm run workers -- --queues ${COIN_FACTS[name].queues.watch}   # with the settings of its node`,
    })
  else if (!coin.reachable)
    findings.push({
      kind: 'coin_away',
      about: name,
      since: coin.checked_at,
      what: `The node of ${name} is out of reach: payments wait, nothing expires`,
      why: coin.unreachable,
      command: 'start the node, or look at its log; the network goes on by itself',
    })
  for (const [part, problem] of Object.entries(coin.problems ?? {}))
    findings.push({
      kind: 'coin_not_ready',
      about: `${name} ${part}`,
      what: `Nobody can pay with ${name} because of its ${part}`,
      why: problem,
      command: `mend what is said, for the workers of ${name}; it is looked at again in each round`,
    })
  if (halted !== undefined)
    findings.push({
      kind: 'coin_halted',
      about: name,
      since: halted.at,
      what: `Payouts, sweeps and new addresses of ${name} are stopped`,
      why: halted.reason,
      command: `${OPERATOR} reconcile ${name}   # first with --dry-run: it shows what waits`,
    })
  if (coin.fee_high !== undefined)
    findings.push({
      kind: 'fee_high',
      about: name,
      since: coin.fee_high.at,
      what: `Payouts of ${name} wait: to send ${formatSum(coin.fee_high.sum_raw, name)} would take a fee of ${formatSum(coin.fee_high.fee_raw, name)}`,
      why: 'the daemon of the wallet names the fee; it is wrong, or the network is crowded',
      command: `look at the daemon; a higher MAX_FEE_${name.toUpperCase()} for the workers lets them go`,
    })
  if (gapRaw !== '0')
    findings.push({
      kind: 'books_gap',
      about: name,
      what: `The chain of ${name} holds ${formatGap(BigInt(gapRaw), name)} than the books say`,
      command: `${OPERATOR} books --coin ${name}`,
    })
  if (ledgerGaps !== undefined)
    findings.push({
      kind: 'owed_differs',
      about: name,
      what: `Ledger and books differ about what is owed in ${name}: ${Object.entries(ledgerGaps)
        .map(([account, raw]) => `${formatGap(BigInt(raw), name)} by the ledger in ${account}`)
        .join(', ')}`,
      command: `${OPERATOR} check --only money`,
    })
  if (coin.reachable && comparedAt !== undefined && now - comparedAt > NOT_COMPARED_SECONDS)
    findings.push({
      kind: 'books_not_compared',
      about: name,
      since: comparedAt,
      what: `The books of ${name} have not been compared with the chain`,
      command: `${OPERATOR} books --coin ${name}`,
    })
  return findings
}

/** Checks whether there is a fresh rate of the coin. @returns undefined if there is */
async function checkRate(ctx: Context, coin: Coin): Promise<Finding | undefined> {
  const rate = await ctx.coins.findRate(coin)
  if (rate !== undefined && isFresh(rate, ctx.database.now())) return undefined
  return {
    kind: 'rate_stale',
    about: coin,
    since: rate?.at,
    what: `There is no fresh rate of ${coin}: nothing can be bought with it`,
    why: 'too few exchanges answer or agree; the log of the workers of refresh-rates says which',
    command: `set ${coin.toUpperCase()}_USD or RATE_SOURCES for the workers of refresh-rates, and start them again`,
  }
}

/**
 * Checks whether the treasury, the account that payouts are sent from, lacks money for payouts that are due,
 * by the last round, or holds less than all that is owed.
 *
 * @returns undefined if it lacks none, and holds what is owed or it is not known what it holds
 */
function checkTreasury(record: CoinRecord, owedRaw: bigint): Finding | undefined {
  const { _id: coin, treasury_raw: heldRaw, treasury_short_raw: shortRaw = '0' } = record
  const address = record.treasury_address ?? 'the wallet'
  if (BigInt(shortRaw) > 0n)
    return {
      kind: 'treasury_short',
      about: coin,
      what: `The treasury of ${coin} lacks ${formatSum(shortRaw, coin)} for payouts that are due`,
      why: heldRaw === undefined ? undefined : `it holds ${formatSum(heldRaw, coin)}`,
      command: `send ${formatSum(shortRaw, coin)} to ${address}`,
    }
  if (heldRaw === undefined || BigInt(heldRaw) >= owedRaw) return undefined
  return {
    kind: 'treasury_low',
    about: coin,
    what: `The treasury of ${coin} holds ${formatSum(heldRaw, coin)}, and ${formatSum(owedRaw, coin)} are owed`,
    why: 'what was paid lately may still be on its way into it',
    command: `send ${formatSum(owedRaw - BigInt(heldRaw), coin)} to ${address}`,
  }
}

/**
 * Checks whether what the venue holds by the books covers all that isn't its own: what orders hold, what is owed, paid
 * for days and not used, and unassigned.
 */
async function checkCovered(ctx: Context, coin: Coin): Promise<Finding | undefined> {
  const ownRaw = await ctx.journal.own(coin)
  if (ownRaw >= 0n) return undefined
  return {
    kind: 'liabilities_uncovered',
    about: coin,
    what: `The venue holds ${formatSum(-ownRaw, coin)} less than what isn't its own`,
    why: 'by the books, the operator took out more, or the chain took back more, than fees and sales have brought',
    command: `put ${formatSum(-ownRaw, coin)} into the treasury, then ${OPERATOR} top-up ${coin} TX`,
  }
}

/** Checks whether money waits for the operator to say whose it is; less than MIN_PAYOUT may wait for ever. */
function checkUnassigned(ctx: Context, coin: Coin, sumRaw: bigint): Finding | undefined {
  if (sumRaw < parseAmount(ctx.config.minPayout[coin], coin)) return undefined
  return {
    kind: 'money_unassigned',
    about: coin,
    what: `${formatSum(sumRaw, coin)} came to addresses of ours and belongs to no invoice`,
    command: `${OPERATOR} unassigned   # then give, return or keep it`,
  }
}

/**
 * Finds payouts that wait for somebody: held, refused by the node, or due for too long; those that were paid again;
 * and unexplained sends.
 */
async function checkPayouts(ctx: Context, coin: Coin): Promise<Finding[]> {
  const isAutomatic = ctx.config.payouts === 'automatic'
  const [held, refused, unexplained, again, { due }] = await Promise.all([
    ctx.payouts.listUnsendable(coin, 'held', nowSeconds(ctx), 200),
    ctx.payouts.transfers.list(coin, ['held'], 200),
    ctx.payouts.transfers.listUnexplained(coin),
    ctx.payouts.transfers.listPaidAgain(coin),
    readSendable(ctx, coin, !isAutomatic),
  ])
  const dueSince = Math.min(...due.map(sendableSince)) // Infinity if none is due
  const firstIds = (records: readonly { _id: string }[]): string =>
    records
      .slice(0, 3)
      .map(({ _id }) => _id)
      .join(', ')
  const findings: Finding[] = []
  if (held.length > 0)
    findings.push({
      kind: 'payout_held',
      about: coin,
      since: Math.min(...held.map(({ changed_at: at }) => at)),
      what: `${held.length} payouts of ${coin} are held, their outcome unknown: ${firstIds(held)}`,
      command: `${OPERATOR} reconcile ${coin} --dry-run`,
    })
  if (refused.length > 0)
    findings.push({
      kind: 'transfer_held',
      about: coin,
      since: Math.min(...refused.map(({ changed_at: at }) => at)),
      what: `The node refuses ${refused.length} of our transactions in ${coin}: ${firstIds(refused)}`,
      why: 'each is offered again with growing pauses',
      command: `${OPERATOR} show ${refused[0]?._id ?? ''}`,
    })
  if (unexplained.length > 0)
    findings.push({
      kind: 'send_unexplained',
      about: coin,
      what: `${unexplained.length} sends of the wallet of ${coin} are not accounted for`,
      command: `${OPERATOR} reconcile ${coin} --dry-run`,
    })
  for (const { tx, paid_again: ids = [], changed_at: since } of again)
    findings.push({
      kind: 'payout_paid_again',
      about: tx,
      since,
      what: `${tx} paid ${ids.join(', ')}, which were paid otherwise: they may have been paid twice`,
      why: 'a transaction that was given up, or whose payouts were paid by hand, got into the chain all the same',
      command: `${OPERATOR} reconcile ${coin} --explained ${tx}   # once the payees have given it back, or you bear it`,
    })
  if (nowSeconds(ctx) - dueSince > DUE_SECONDS)
    findings.push({
      kind: 'payout_due',
      about: coin,
      since: dueSince,
      what: `${due.length} payouts of ${coin} are due and have not gone out: ${firstIds(due)}`,
      command: isAutomatic ? `${OPERATOR} payouts` : `${OPERATOR} pay --all`,
    })
  return findings
}
