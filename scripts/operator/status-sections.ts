import { formatDuration, formatTime } from '../../client/command/format.ts'
import type { EntryKind } from '../../shared/ledger/pending.ts'
import { closingSums, NOTHING_OWED } from '../../shared/ledger/solvency.ts'
import { SEAL_SLACK_SECONDS } from '../../shared/operation/ledger-findings.ts'
import { readNextSeal } from '../../shared/ledger/seal-service.ts'
import { COINS, formatAmount, type Coin } from '../../shared/money/coin.ts'
import type { CoinRecord } from '../../shared/money/coin-store.ts'
import { hasNoWorker, readQueueStates } from '../../shared/platform/queue-state.ts'
import { nowSeconds, SECOND_MS, unixSeconds } from '../../shared/platform/time.ts'
import { describeGap } from './books-verbs.ts'
import { formatAge, formatTable, type StatusSection } from './status-section.ts'

const queues: StatusSection = {
  name: 'queues',
  title: 'Queues',
  async read(ctx) {
    const states = await readQueueStates(ctx.queues, ctx.now())
    const starved = states.filter(hasNoWorker).map(({ name }) => name)
    const rows = states.map((state) => [
      state.name,
      ...[state.waiting, state.active, state.delayed, state.failed].map(String),
      state.waiting === 0 ? '-' : formatDuration(state.oldestSeconds),
      `${state.workers}${state.paused ? ', PAUSED' : ''}${state.limit === undefined ? '' : `, limited to ${state.limit}`}`,
    ])
    const lines = formatTable([['', 'waiting', 'active', 'delayed', 'failed', 'oldest', 'workers'], ...rows])
    if (starved.length > 0) lines.push(`NO WORKER for work that waits or falls due: ${starved.join(', ')}`)
    return {
      answer: states.map(({ oldestSeconds, limit, ...state }) => ({
        ...state,
        limit: limit ?? null,
        oldest_seconds: Math.round(oldestSeconds),
        no_worker: starved.includes(state.name),
      })),
      lines,
    }
  },
}

/** What counts as a settlement: a pass was credited, or money was taken to an order or an invoice. */
const SETTLEMENT_KINDS: EntryKind[] = ['pass_credit', 'payment']
/** How many of the newest entries are searched for the last settlement. */
const SETTLEMENT_LOOK_BACK = 20_000

const ledger: StatusSection = {
  name: 'ledger',
  title: 'Ledger',
  async read(ctx) {
    await ctx.database.whenReady()
    const [highest, last, lastSigned, unsigned, chain, next] = await Promise.all([
      ctx.entries.highestId(),
      ctx.seals.last(),
      ctx.seals.lastSigned(),
      ctx.seals.listUnsigned(1_000),
      ctx.seals.readStatus(),
      readNextSeal(ctx),
    ])
    const settlement = await ctx.entries.models.entries
      .findOne({ _id: { $gt: highest - SETTLEMENT_LOOK_BACK }, kind: { $in: SETTLEMENT_KINDS } })
      .sort({ _id: -1 })
      .lean<{ _id: number; at: number; kind: string } | null>()
    const owed = last === undefined ? NOTHING_OWED : closingSums(await ctx.entries.find(last.to_id), last._id)
    const now = unixSeconds(ctx.now())
    const [waiting] = await ctx.entries.list((last?.to_id ?? 0) + 1, 1)
    const waitingSeconds = waiting === undefined ? 0 : now - waiting.at
    const overdueSeconds = ctx.config.sealIntervalMs / SECOND_MS + SEAL_SLACK_SECONDS
    const formatTimeAndAge = (at: number): string => `${formatTime(at)} (${formatAge(at, now)})`
    const lines = [
      `entries ${highest}; last seal ${last === undefined ? 'none yet' : `${last._id}, ${formatTimeAndAge(last.at)}${last.signed ? '' : ', unsigned'}`}`,
    ]
    if (unsigned.length > 0)
      lines.push(
        `${unsigned.length} without a signature, from ${unsigned[0]} on: is the worker with SEAL_KEY_FILE running?`,
      )
    if (waitingSeconds > overdueSeconds)
      lines.push(`NO SEAL over entries that have waited ${formatDuration(waitingSeconds)}`)
    lines.push(
      chain.intact
        ? 'the chain of seals holds'
        : `THE CHAIN OF SEALS DOES NOT HOLD: ${chain.fault ?? 'no reason is stored'}`,
      `last settlement ${settlement === null ? 'none' : `${formatTimeAndAge(settlement.at)}, entry ${settlement._id}`}`,
      owed === undefined
        ? `THE LAST SEAL DOES NOT SAY WHAT IS OWED: entry ${last?.to_id ?? 0} does not close it`
        : `owed at the last seal: ${formatSums(owed)}`,
    )
    return {
      answer: {
        entries: highest,
        last_seal: last === undefined ? null : { seq: last._id, at: last.at, signed: last.signed },
        last_signed_seq: lastSigned?._id ?? null,
        unsigned_seals: unsigned.length,
        next_seal_at: next.isNeeded ? next.at : null,
        chain_intact: chain.intact,
        last_settlement: settlement && { entry_id: settlement._id, kind: settlement.kind, at: settlement.at },
        owed_at_last_seal:
          owed === undefined ? null : { xno_raw: String(owed.xno), xmr_piconero: String(owed.xmr) },
      },
      lines,
    }
  },
}

/** A count that would take longer than this is not worth a screen. */
const COUNT_LIMIT_MS = 5_000

const passes: StatusSection = {
  name: 'passes',
  title: 'Agents and passes',
  async read(ctx) {
    await ctx.database.whenReady()
    const { agents } = ctx.agents.models
    const [registered, active, banned] = await Promise.all([
      agents.estimatedDocumentCount(),
      agents.countDocuments({ pass_until_ms: { $gt: ctx.database.now() } }).maxTimeMS(COUNT_LIMIT_MS),
      agents.countDocuments({ banned_at: { $exists: true } }).maxTimeMS(COUNT_LIMIT_MS),
    ])
    return {
      answer: { registered, with_active_pass: active, banned },
      lines: [`registered ${registered}; with a pass ${active}; banned ${banned}`],
    }
  },
}

const coins: StatusSection = {
  name: 'coins',
  title: 'Coins',
  async read(ctx) {
    await ctx.database.whenReady()
    const records = await ctx.coins.listCoins()
    const configured = records.filter((coin) => coin.configured)
    const off = records.filter((coin) => !coin.configured)
    const now = nowSeconds(ctx)
    return {
      answer: configured.map((coin) => ({
        currency: coin._id,
        reachable: coin.reachable,
        unreachable: coin.reachable ? null : (coin.unreachable ?? null),
        checked_at: coin.checked_at ?? null,
        height: coin.height ?? null,
        grown_at: coin.grown_at ?? null,
        problems: coin.problems ?? {},
        websocket: coin.websocket ?? null,
        halted: coin.halted?.reason ?? null,
        treasury_short_raw: coin.treasury_short_raw ?? null,
        solvency_gap_raw: coin.gap_raw ?? null,
        compared_at: coin.gap_at ?? null,
      })),
      lines: [
        ...(configured.length === 0
          ? ['none is configured']
          : configured.map((coin) => formatCoin(coin, now))),
        ...off.map(({ _id }) => `${_id} is switched off: what is owed in it stays owed, see "payouts"`),
      ],
    }
  },
}

/** A coin's state on one line. @param now Unix seconds */
function formatCoin(coin: CoinRecord, now: number): string {
  const { _id: name, unreachable, checked_at: checkedAt, gap_raw: gapRaw = '0' } = coin
  const { treasury_short_raw: shortRaw = '0' } = coin
  const outOfReach = unreachable === undefined ? 'OUT OF REACH' : `OUT OF REACH: ${unreachable}`
  const parts = [`${name}: ${coin.reachable ? 'reachable' : outOfReach}`]
  if (coin.height !== undefined) parts.push(`height ${coin.height}`)
  if (coin.grown_at !== undefined) parts.push(`which last grew ${formatAge(coin.grown_at, now)}`)
  parts.push(checkedAt === undefined ? 'never looked at' : `looked at ${formatAge(checkedAt, now)}`)
  for (const [part, problem] of Object.entries(coin.problems ?? {}))
    parts.push(`NOT READY, ${part}: ${problem}`)
  if (coin.websocket === 'silent')
    parts.push('nobody answers at NANO_WS_URL, so payments are found by polling')
  if (coin.halted !== undefined) parts.push(`HALTED, see "reconcile": ${coin.halted.reason}`)
  if (gapRaw !== '0')
    parts.push(`${describeGap(gapRaw, name)} (${formatAge(coin.gap_at ?? 0, now)}), see "books"`)
  if (shortRaw !== '0')
    parts.push(`THE TREASURY LACKS ${formatSum(BigInt(shortRaw), name)} for payouts that are due`)
  return parts.join(', ')
}

const payouts: StatusSection = {
  name: 'payouts',
  title: 'Payouts',
  async read(ctx) {
    await ctx.database.whenReady()
    const [counted, unpaid, decided, keptBack] = await Promise.all([
      ctx.payouts.countByState(),
      ctx.payouts.sumUnpaid(),
      ctx.payouts.countDecided(nowSeconds(ctx)),
      Promise.all(
        COINS.map(async (coin) => {
          const unseen = await ctx.invoices.arrivals.listUnshownOrders(coin)
          return { coin, ...(await ctx.payouts.countKeptBack(coin, unseen)) }
        }),
      ),
    ])
    const counts = counted.map(({ coin, state, count }) => `${coin} ${state} ${count}`)
    const lines = [counts.join('; ') || 'none']
    for (const { coin, waitsForChain, toSelf } of keptBack) {
      if (waitsForChain > 0)
        lines.push(`${coin}: ${waitsForChain} WAIT until the chain shows what you recorded`)
      if (toSelf > 0)
        lines.push(`${coin}: ${toSelf} ARE TO AN ADDRESS OF THE VENUE'S OWN, pay them elsewhere`)
    }
    if (decided > 0) lines.push(`wait for some minutes after your decision ${decided}, see "disputes"`)
    if (counted.length > 0) lines.push(`not paid yet: ${formatSums(unpaid)}`)
    return {
      answer: {
        counts: counted.map(({ coin, state, count }) => ({ currency: coin, state, count })),
        unpaid_raw: Object.fromEntries(COINS.map((coin) => [coin, String(unpaid[coin])])),
        waits_for_chain: Object.fromEntries(keptBack.map(({ coin, waitsForChain }) => [coin, waitsForChain])),
        decided,
        to_self: Object.fromEntries(keptBack.map(({ coin, toSelf }) => [coin, toSelf])),
      },
      lines,
    }
  },
}

const market: StatusSection = {
  name: 'market',
  title: 'Market',
  async read(ctx) {
    await ctx.database.whenReady()
    const { overdue, oldestSeconds, disputed } = await ctx.orders.readBacklog(nowSeconds(ctx))
    return {
      answer: { orders_overdue: overdue, oldest_overdue_seconds: oldestSeconds, orders_disputed: disputed },
      lines: [
        `waiting for your decision ${disputed}`,
        overdue === 0
          ? 'no deadline is overdue'
          : `OVERDUE DEADLINES ${overdue}, the oldest since ${formatDuration(oldestSeconds)}`,
      ],
    }
  },
}

const keys: StatusSection = {
  name: 'keys',
  title: 'Wallets and signers',
  async read(ctx) {
    await ctx.database.whenReady()
    const hosts = await ctx.leases.listHosts()
    return {
      answer: hosts.map(({ lease, state, host, publicName }) => ({
        key: lease,
        state,
        host,
        public_name: publicName ?? null,
      })),
      lines:
        hosts.length === 0
          ? ['nobody holds one']
          : hosts.map(
              ({ lease, state, host, publicName = '' }) =>
                `${lease}: ${state}, ${host}${state === 'refused' ? `, has ${publicName}` : ''}`,
            ),
    }
  },
}

/** What `status --all` shows, from top to bottom. */
export const STATUS_SECTIONS: readonly StatusSection[] = [
  queues,
  ledger,
  passes,
  coins,
  payouts,
  keys,
  market,
]

const formatSum = (amountRaw: bigint, coin: Coin): string =>
  `${formatAmount(amountRaw, coin)} ${coin.toUpperCase()}`

const formatSums = (sums: Readonly<Record<Coin, bigint>>): string =>
  COINS.map((coin) => formatSum(sums[coin], coin)).join(', ')
