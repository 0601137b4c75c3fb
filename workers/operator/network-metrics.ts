import { Gauge, Registry } from 'prom-client'
import type { Context } from '../../shared/context.ts'
import { withDeadline } from '../../shared/platform/deadline.ts'
import { closingSums } from '../../shared/ledger/solvency.ts'
import { severityOf } from '../../shared/operation/finding.ts'
import { readFindings } from '../../shared/operation/findings.ts'
import { METRIC_PREFIX } from '../../shared/platform/metrics.ts'
import { COIN_PROBLEMS } from '../../shared/money/coin-store.ts'
import { COIN_UNITS, COINS, type Coin } from '../../shared/money/coin.ts'
import { readSendable, sendableSince } from '../../shared/money/due-payouts.ts'
import { hasNoWorker, readQueueLoads, readQueueStates } from '../../shared/platform/queue-state.ts'
import { SECOND_MS, unixSeconds } from '../../shared/platform/time.ts'

/**
 * Gauges of the whole network, not of one process. The process that serves the operator's port reads them
 * from MongoDB and Redis at each scrape.
 */
export interface NetworkCollector {
  /** Its label on the gauge `collector_up`. */
  name: string
  /** Makes its gauges, and returns a function that sets them. If that fails, all its gauges are emptied. */
  open(gauge: MakeGauge): (ctx: Context) => Promise<void>
}

export type MakeGauge = <Label extends string = never>(
  name: string,
  help: string,
  labelNames?: readonly Label[],
) => Gauge<Label>

const queues: NetworkCollector = {
  name: 'queues',
  open(gauge) {
    const jobs = gauge('queue_jobs', 'Jobs on a queue by state: waiting, active, delayed, failed', [
      'queue',
      'state',
    ])
    const oldest = gauge('queue_oldest_seconds', 'How long the first of the waiting jobs has waited', [
      'queue',
    ])
    return async (ctx) => {
      for (const load of await readQueueLoads(ctx.queues, ctx.now())) {
        for (const state of ['waiting', 'active', 'delayed', 'failed'] as const)
          jobs.set({ queue: load.name, state }, load[state])
        oldest.set({ queue: load.name }, load.oldestSeconds)
      }
    }
  },
}

const queueWorkers: NetworkCollector = {
  name: 'workers',
  open(gauge) {
    const workers = gauge('queue_workers', 'Connections that take jobs from a queue', ['queue'])
    const starved = gauge('queue_without_worker', '1 if a queue has work and no worker', ['queue'])
    const paused = gauge('queue_paused', '1 if somebody has paused the queue', ['queue'])
    const limited = gauge('queue_limited', '1 if somebody has limited the queue', ['queue'])
    return async (ctx) => {
      for (const state of await readQueueStates(ctx.queues, ctx.now())) {
        const { name: queue } = state
        workers.set({ queue }, state.workers)
        starved.set({ queue }, Number(hasNoWorker(state)))
        paused.set({ queue }, Number(state.paused))
        limited.set({ queue }, Number(state.limit !== undefined))
      }
    }
  },
}

const ledger: NetworkCollector = {
  name: 'ledger',
  open(gauge) {
    const entries = gauge('entries', 'Numbered ledger entries')
    const sealSeq = gauge('seal_seq', 'Number of the last seal')
    const sealAge = gauge(
      'seal_age_seconds',
      'Age of the last seal; it grows on a quiet network, where nothing is to be sealed',
    )
    const unsealed = gauge('unsealed_seconds', 'Age of the oldest entry under no seal; 0 if there is none')
    const unsigned = gauge('unsigned_seals', 'Seals without a signature')
    const intact = gauge('chain_intact', '1 while the chain of seals holds')
    const owed = gauge('owed_coins', 'Owed to payees at the last seal, in whole coins', ['coin'])
    return async (ctx) => {
      const nowSeconds = ctx.now() / SECOND_MS
      const [highest, last, waiting, status] = await Promise.all([
        ctx.entries.highestId(),
        ctx.seals.last(),
        ctx.seals.listUnsigned(MAX_UNSIGNED),
        ctx.seals.readStatus(),
      ])
      const [first] = await ctx.entries.list((last?.to_id ?? 0) + 1, 1)
      entries.set(highest)
      sealSeq.set(last?._id ?? 0)
      if (last !== undefined) sealAge.set(Math.max(0, nowSeconds - last.at))
      unsealed.set(first === undefined ? 0 : Math.max(0, nowSeconds - first.at))
      unsigned.set(waiting.length)
      intact.set(Number(status.intact))
      const sums = last === undefined ? undefined : closingSums(await ctx.entries.find(last.to_id), last._id)
      if (sums === undefined) return
      for (const coin of COINS) owed.set({ coin }, inCoins(sums[coin], coin))
    }
  },
}

const redis: NetworkCollector = {
  name: 'redis',
  open(gauge) {
    const used = gauge('redis_used_bytes', 'What Redis holds in memory')
    const max = gauge('redis_max_bytes', 'How much it may hold (maxmemory); 0 if nobody set a limit')
    return async (ctx) => {
      await ctx.queues.whenReady()
      const { usedBytes, maxBytes } = await ctx.queues.readMemory()
      used.set(usedBytes)
      max.set(maxBytes)
    }
  },
}

const MAX_UNSIGNED = 1_000

const coins: NetworkCollector = {
  name: 'coins',
  open(gauge) {
    const reachable = gauge('coin_reachable', '1 if the last look at the chain succeeded', ['coin'])
    const lag = gauge('chain_lag_seconds', 'How long ago the chain was last looked at with success', ['coin'])
    const height = gauge('chain_height', 'Height at the last look', ['coin'])
    const problem = gauge('coin_problem', '1 while this keeps the coin from being ready', ['coin', 'about'])
    const halted = gauge('coin_halted', '1 while the wallet waits for the operator to reconcile it', ['coin'])
    const short = gauge(
      'treasury_short_coins',
      'What the treasury lacks, unlocked, for the payouts that are due, in whole coins',
      ['coin'],
    )
    const gap = gauge(
      'solvency_gap',
      'What the chain holds beyond what the books say, below 0 if less, in whole coins',
      ['coin'],
    )
    const uncovered = gauge(
      'liabilities_uncovered',
      "By how much what the venue holds by the books is less than what isn't its own, in whole coins",
      ['coin'],
    )
    const own = gauge(
      'own_coins',
      "What is the venue's own of what it holds by the books, below 0 if that is less than what isn't, in whole coins",
      ['coin'],
    )
    const gapAge = gauge('solvency_gap_age_seconds', 'How long ago books and chain were compared', ['coin'])
    const treasury = gauge('treasury_coins', 'What the treasury holds, in whole coins', ['coin'])
    const rateAge = gauge(
      'rate_age_seconds',
      'How old the rate is; after 900 nothing can be bought with it',
      ['coin'],
    )
    return async (ctx) => {
      for (const state of await ctx.coins.listCoins()) {
        if (!state.configured) continue
        const { _id: coin } = state
        reachable.set({ coin }, Number(state.reachable))
        if (state.checked_at !== undefined)
          lag.set({ coin }, Math.max(0, ctx.database.now() / SECOND_MS - state.checked_at))
        if (state.height !== undefined) height.set({ coin }, state.height)
        for (const about of COIN_PROBLEMS)
          problem.set({ coin, about }, Number(state.problems?.[about] !== undefined))
        halted.set({ coin }, Number(state.halted !== undefined))
        if (state.gap_raw !== undefined) gap.set({ coin }, inCoins(BigInt(state.gap_raw), coin))
        const ownRaw = await ctx.journal.own(coin)
        own.set({ coin }, inCoins(ownRaw, coin))
        uncovered.set({ coin }, ownRaw < 0n ? inCoins(-ownRaw, coin) : 0)
        if (state.gap_at !== undefined)
          gapAge.set({ coin }, Math.max(0, ctx.database.now() / SECOND_MS - state.gap_at))
        if (state.treasury_raw !== undefined)
          treasury.set({ coin }, inCoins(BigInt(state.treasury_raw), coin))
        const rate = await ctx.coins.findRate(coin)
        // Without any rate, the age counts from 1970, so it is too old.
        rateAge.set({ coin }, Math.max(0, ctx.database.now() / SECOND_MS - (rate?.at ?? 0)))
        if (state.treasury_short_raw !== undefined)
          short.set({ coin }, inCoins(BigInt(state.treasury_short_raw), coin))
      }
    }
  },
}

const payouts: NetworkCollector = {
  name: 'payouts',
  open(gauge) {
    const count = gauge('payouts', 'Payouts by coin and state', ['coin', 'state'])
    const unpaid = gauge('unpaid_coins', 'Owed to payees and not known to have arrived, in whole coins', [
      'coin',
    ])
    const transfers = gauge(
      'transfers',
      'Transactions of ours that are not known to be in the chain, by coin and state',
      ['coin', 'state'],
    )
    const oldestDue = gauge(
      'payout_due_seconds',
      'How long the oldest payout that may be sent has been owed; 0 if there is none',
      ['coin'],
    )
    return async (ctx) => {
      const known = await ctx.coins.listCoins()
      // Nothing was ever owed in a coin that no worker has served.
      if (known.length === 0) return
      const nowSeconds = unixSeconds(ctx.database.now())
      for (const { coin, state, count: number } of await ctx.payouts.transfers.countOpen())
        transfers.set({ coin, state }, number)
      for (const { _id: coin } of known) {
        const { due } = await readSendable(ctx, coin, ctx.config.payouts !== 'automatic')
        const oldestAt = due.reduce((oldest, one) => Math.min(oldest, sendableSince(one)), nowSeconds)
        oldestDue.set({ coin }, nowSeconds - oldestAt)
      }
      const [groups, sums] = await Promise.all([ctx.payouts.countByState(), ctx.payouts.sumUnpaid()])
      for (const { coin, state, count: number } of groups) count.set({ coin, state }, number)
      for (const { _id: coin } of known) unpaid.set({ coin }, inCoins(sums[coin], coin))
    }
  },
}

/** An amount of the smallest unit in whole coins; exact enough for a graph. */
const inCoins = (units: bigint, coin: Coin): number => Number(units) / 10 ** COIN_UNITS[coin].decimals

const market: NetworkCollector = {
  name: 'market',
  open(gauge) {
    const overdue = gauge('orders_overdue', 'Market orders whose deadline passed and was not acted on')
    const disputed = gauge('orders_disputed', "Market orders that wait for the operator's decision")
    return async (ctx) => {
      const backlog = await ctx.orders.readBacklog(unixSeconds(ctx.database.now()))
      overdue.set(backlog.overdue)
      disputed.set(backlog.disputed)
    }
  },
}

const keys: NetworkCollector = {
  name: 'keys',
  open(gauge) {
    const hosts = gauge(
      'key_hosts',
      'Processes by what they are to a seed, a wallet or the seal key: held, waiting or refused',
      ['key', 'state'],
    )
    return async (ctx) => {
      for (const { lease: key, state } of await ctx.leases.listHosts()) hosts.inc({ key, state })
    }
  },
}

const members: NetworkCollector = {
  name: 'members',
  open(gauge) {
    const up = gauge('mongodb_member_up', 'Members of the replica set: 1 if the primary reaches it', [
      'member',
      'state',
    ])
    return async (ctx) => {
      for (const { name, state, isUp } of await ctx.database.members())
        up.set({ member: name, state }, Number(isUp))
    }
  },
}

const disk: NetworkCollector = {
  name: 'disk',
  open(gauge) {
    const free = gauge('disk_free_bytes', 'Free where the database lies')
    const stored = gauge('database_bytes', "What the database's own files take of it")
    const mark = gauge('disk_mark_bytes', 'Below this the API takes no writes (MIN_FREE_DISK_GB)')
    return async (ctx) => {
      const { freeBytes, storedBytes } = await ctx.database.readDiskUse()
      if (freeBytes !== undefined) free.set(freeBytes)
      stored.set(storedBytes)
      mark.set(ctx.config.minFreeDiskBytes)
    }
  },
}

const backup: NetworkCollector = {
  name: 'backup',
  open(gauge) {
    const age = gauge('backup_age_seconds', 'How old the last backup is; absent if there is none')
    return async (ctx) => {
      const last = await ctx.operation.watch.readBackup()
      if (last !== undefined) age.set(Math.max(0, ctx.now() / SECOND_MS - last.at))
    }
  },
}

const findings: NetworkCollector = {
  name: 'findings',
  open(gauge) {
    const found = gauge('finding', '1 for each line of `operator status`', ['finding', 'severity', 'about'])
    return async (ctx) => {
      for (const finding of await readFindings(ctx, FINDINGS_LIMIT_MS))
        found.set({ finding: finding.kind, severity: severityOf(finding), about: finding.about ?? '' }, 1)
    }
  },
}

/** Those that a sample of the network is made of. */
export const SAMPLED_COLLECTORS: readonly NetworkCollector[] = [queues, redis, ledger, coins, payouts, disk]
/** A part of the network with more to show adds its collector here. */
const NETWORK_COLLECTORS: readonly NetworkCollector[] = [
  ...SAMPLED_COLLECTORS,
  queueWorkers,
  market,
  keys,
  members,
  backup,
  findings,
]

const FINDINGS_LIMIT_MS = SECOND_MS
/** A slower collector is left out of the scrape, and its `collector_up` is 0. */
const COLLECT_LIMIT_MS = 4 * SECOND_MS

export interface NetworkReading {
  /** All gauges in Prometheus's text format. */
  text: string
  /** The same as numbers. */
  series: readonly NetworkSeries[]
}

/** One series of a gauge, without the prefix of its name. */
export interface NetworkSeries {
  name: string
  labels: Partial<Record<string, string | number>>
  value: number
}

/**
 * Creates the network's gauges.
 *
 * @returns a function that reads them all; what can't be read is left out
 */
export function openNetworkMetrics(
  ctx: Context,
  networkCollectors = NETWORK_COLLECTORS,
): () => Promise<NetworkReading> {
  const registry = new Registry()
  const up = new Gauge({
    name: `${METRIC_PREFIX}collector_up`,
    help: '0 if a part of the network could not be read: MongoDB or Redis is away',
    labelNames: ['collector'] as const,
    registers: [registry],
  })
  const collectors = networkCollectors.map(({ name, open }) => {
    const clearings: (() => void)[] = []
    const collect = open((metric, help, labelNames = []) => {
      const gauge = new Gauge({
        name: METRIC_PREFIX + metric,
        help,
        labelNames: [...labelNames],
        registers: [registry],
      })
      // reset() would set a gauge without labels to 0, which would read as a measurement.
      clearings.push(() => (labelNames.length === 0 ? gauge.remove() : gauge.reset()))
      return gauge
    })
    const clear = (): void => clearings.forEach((clearGauge) => clearGauge())
    return { name, clear, collect }
  })
  const read = async (): Promise<NetworkReading> => {
    await Promise.all(
      collectors.map(async ({ name, clear, collect }) => {
        clear()
        try {
          await withDeadline(
            collect(ctx),
            COLLECT_LIMIT_MS,
            () => new Error(`${name} took longer than ${COLLECT_LIMIT_MS} ms`),
          )
          up.set({ collector: name }, 1)
        } catch (error) {
          clear()
          up.set({ collector: name }, 0)
          ctx.log.warn({ err: error, collector: name }, 'a part of the metrics could not be read')
        }
      }),
    )
    const [text, gauges] = await Promise.all([registry.metrics(), registry.getMetricsAsJSON()])
    const series = gauges.flatMap(({ name, values }) =>
      values.map(({ labels, value }) => ({ name: name.slice(METRIC_PREFIX.length), labels, value })),
    )
    return { text, series }
  }
  // Two scrapes at once would empty each other's gauges.
  let reading: Promise<NetworkReading> | undefined
  return () => {
    reading ??= read().finally(() => (reading = undefined))
    return reading
  }
}
