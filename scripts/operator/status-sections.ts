import { formatDuration, formatTime } from '../../client/command/format.ts'
import type { EntryKind } from '../../shared/ledger/pending.ts'
import { closingSums, NOTHING_OWED } from '../../shared/ledger/solvency.ts'
import { SEAL_SLACK_SECONDS } from '../../shared/operation/ledger-findings.ts'
import { readNextSeal } from '../../shared/ledger/seal-service.ts'
import { COINS, formatAmount, type Coin } from '../../shared/payments/coin.ts'
import type { CoinRecord } from '../../shared/payments/coin-store.ts'
import { hasNoWorker, readQueueStates } from '../../shared/servers/queue-state.ts'
import { SECOND_MS, unixSeconds } from '../../shared/foundation/time.ts'
import { formatGap } from './books-verbs.ts'
import { formatTable, type StatusSection } from './status-section.ts'

const queues: StatusSection = {
  name: 'queues',
  title: 'Queues',
  async read(ctx) {
    const states = await readQueueStates(ctx.queues, ctx.now())
    const starved = states.filter(hasNoWorker).map(({ name }) => name)
    return {
      answer: states.map(({ oldestSeconds, limit, ...state }) => ({
        ...state,
        limit: limit ?? null,
        oldest_seconds: Math.round(oldestSeconds),
        no_worker: starved.includes(state.name),
      })),
      lines: [
        ...formatTable([
          ['', 'waiting', 'active', 'delayed', 'failed', 'oldest', 'workers'],
          ...states.map(
            ({ name, waiting, active, delayed, failed, oldestSeconds, workers, paused, limit }) => [
              name,
              ...[waiting, active, delayed, failed].map(String),
              waiting === 0 ? '-' : formatDuration(oldestSeconds),
              `${workers}${paused ? ', PAUSED' : ''}${limit === undefined ? '' : `, limited to ${limit}`}`,
            ],
          ),
        ]),
        ...(starved.length === 0
          ? []
          : [`NO WORKER for work that waits or falls due: ${starved.join(', ')}`]),
      ],
    }
  },
}

/** What counts as a settlement: a pass was credited, or money was taken to an order or an invoice. */
const SETTLEMENT_KINDS: EntryKind[] = ['pass_credit', 'payment']
/** Entries looked through for the last settlement, newest first. */
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
    const age = (at: number): string => `${formatDuration(Math.max(0, now - at))} ago`
    return {
      answer: {
        entries: highest,
        last_seal: last === undefined ? null : { seq: last._id, at: last.at, signed: last.signed },
        last_signed_seq: lastSigned?._id ?? null,
        unsigned_seals: unsigned.length,
        next_seal_at: next.isNeeded ? next.at : null,
        chain_intact: chain.intact,
        last_settlement:
          settlement === null ? null : { entry_id: settlement._id, kind: settlement.kind, at: settlement.at },
        owed_at_last_seal:
          owed === undefined ? null : { xno_raw: String(owed.xno), xmr_piconero: String(owed.xmr) },
      },
      lines: [
        `entries ${highest}; last seal ${last === undefined ? 'none yet' : `${last._id}, ${formatTime(last.at)} (${age(last.at)})${last.signed ? '' : ', unsigned'}`}`,
        ...(unsigned.length === 0
          ? []
          : [
              `${unsigned.length} without a signature, from ${unsigned[0]} on: is the worker with SEAL_KEY_FILE running?`,
            ]),
        ...(waitingSeconds > overdueSeconds
          ? [`NO SEAL over entries that have waited ${formatDuration(waitingSeconds)}`]
          : []),
        chain.intact
          ? 'the chain of seals holds'
          : `THE CHAIN OF SEALS DOES NOT HOLD: ${chain.fault ?? 'no reason is stored'}`,
        `last settlement ${settlement === null ? 'none' : `${formatTime(settlement.at)} (${age(settlement.at)}), entry ${settlement._id}`}`,
        owed === undefined
          ? `THE LAST SEAL DOES NOT SAY WHAT IS OWED: entry ${last?.to_id ?? 0} does not close it`
          : `owed at the last seal: ${COINS.map((coin) => formatOwed(owed[coin], coin)).join(', ')}`,
      ],
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
      agents.countDocuments({ pass_until_ms: { $gt: ctx.databaseNow() } }).maxTimeMS(COUNT_LIMIT_MS),
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
    const { on: found = [], off = [] } = Object.groupBy(await ctx.coins.listCoins(), ({ configured }) =>
      configured ? 'on' : 'off',
    )
    const now = unixSeconds(ctx.databaseNow())
    return {
      answer: found.map(
        ({
          _id,
          reachable,
          unreachable,
          checked_at,
          height,
          grown_at,
          halted,
          problems,
          websocket,
          treasury_short_raw,
          gap_raw,
          gap_at,
        }) => ({
          currency: _id,
          reachable,
          unreachable: reachable ? null : (unreachable ?? null),
          checked_at: checked_at ?? null,
          height: height ?? null,
          grown_at: grown_at ?? null,
          problems: problems ?? {},
          websocket: websocket ?? null,
          halted: halted?.reason ?? null,
          treasury_short_raw: treasury_short_raw ?? null,
          solvency_gap_raw: gap_raw ?? null,
          compared_at: gap_at ?? null,
        }),
      ),
      lines: [
        ...(found.length === 0 ? ['none is configured'] : found.map((coin) => formatCoin(coin, now))),
        ...off.map(({ _id }) => `${_id} is switched off: what is owed in it stays owed, see "payouts"`),
      ],
    }
  },
}

function formatCoin(coin: CoinRecord, now: number): string {
  const {
    _id,
    reachable,
    unreachable,
    height,
    grown_at: grownAt,
    checked_at: checkedAt,
    halted,
    problems = {},
    websocket,
    treasury_short_raw: shortRaw = '0',
    gap_raw: gapRaw,
    gap_at: gapAt = 0,
  } = coin
  return [
    `${_id}: ${reachable ? 'reachable' : `OUT OF REACH${unreachable === undefined ? '' : `: ${unreachable}`}`}`,
    ...(height === undefined ? [] : [`height ${height}`]),
    ...(grownAt === undefined ? [] : [`which last grew ${formatDuration(Math.max(0, now - grownAt))} ago`]),
    checkedAt === undefined
      ? 'never looked at'
      : `looked at ${formatDuration(Math.max(0, now - checkedAt))} ago`,
    ...Object.entries(problems).map(([about, problem]) => `NOT READY, ${about}: ${problem}`),
    ...(websocket === 'silent' ? ['nobody answers at NANO_WS_URL, so payments are found by polling'] : []),
    ...(halted === undefined ? [] : [`HALTED, see "reconcile": ${halted.reason}`]),
    ...(gapRaw === undefined || gapRaw === '0'
      ? []
      : [`${formatGap(gapRaw, _id)} (${formatDuration(Math.max(0, now - gapAt))} ago), see "books"`]),
    ...(shortRaw === '0'
      ? []
      : [`THE TREASURY LACKS ${formatOwed(BigInt(shortRaw), _id)} for payouts that are due`]),
  ].join(', ')
}

const payouts: StatusSection = {
  name: 'payouts',
  title: 'Payouts',
  async read(ctx) {
    await ctx.database.whenReady()
    const [counted, unpaid, keptBack] = await Promise.all([
      ctx.payouts.countByState(),
      ctx.payouts.sumUnpaid(),
      Promise.all(
        COINS.map(async (coin) => ({
          coin,
          ...(await ctx.payouts.countKeptBack(coin, await ctx.invoices.listUnshownOrders(coin))),
        })),
      ),
    ])
    return {
      answer: {
        counts: counted.map(({ coin, state, count }) => ({ currency: coin, state, count })),
        unpaid_raw: Object.fromEntries(COINS.map((coin) => [coin, String(unpaid[coin])])),
        waits_for_chain: Object.fromEntries(keptBack.map(({ coin, waitsForChain }) => [coin, waitsForChain])),
        to_self: Object.fromEntries(keptBack.map(({ coin, toSelf }) => [coin, toSelf])),
      },
      lines: [
        counted.length === 0
          ? 'none'
          : counted.map(({ coin, state, count }) => `${coin} ${state} ${count}`).join('; '),
        ...keptBack.flatMap(({ coin, waitsForChain, toSelf }) => [
          ...(waitsForChain === 0
            ? []
            : [`${coin}: ${waitsForChain} WAIT until the chain shows what you recorded`]),
          ...(toSelf === 0
            ? []
            : [`${coin}: ${toSelf} ARE TO AN ADDRESS OF THE VENUE'S OWN, pay them elsewhere`]),
        ]),
        ...(counted.length === 0
          ? []
          : [`not paid yet: ${COINS.map((coin) => formatOwed(unpaid[coin], coin)).join(', ')}`]),
      ],
    }
  },
}

const market: StatusSection = {
  name: 'market',
  title: 'Market',
  async read(ctx) {
    await ctx.database.whenReady()
    const { overdue, oldestSeconds, disputed } = await ctx.orders.readBacklog(unixSeconds(ctx.databaseNow()))
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
      lines: [
        ...(hosts.length === 0 ? ['nobody holds one'] : []),
        ...hosts.map(
          ({ lease, state, host, publicName }) =>
            `${lease}: ${state}, ${host}${state === 'refused' ? `, has ${publicName ?? ''}` : ''}`,
        ),
      ],
    }
  },
}

/** What `status` shows, from top to bottom. A part that has more to tell adds its section here. */
export const STATUS_SECTIONS: readonly StatusSection[] = [
  queues,
  ledger,
  passes,
  coins,
  payouts,
  keys,
  market,
]

const formatOwed = (units: bigint, coin: Coin): string => `${formatAmount(units, coin)} ${coin.toUpperCase()}`
