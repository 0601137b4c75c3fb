import { createHash } from 'node:crypto'
import type { Config } from '../platform/config.ts'
import type { ProcessRecord } from '../platform/process-store.ts'
import { OPERATOR, type Finding } from './finding.ts'

/*
 * Processes of one network must use one Redis, and those that do the same work the same settings: else what an
 * agent meets depends on the process that it happens to reach, and nothing else would show it.
 */

/** The settings that processes of the same work must share, as their values are used. */
const MUST_AGREE: Readonly<Record<string, (config: Config) => unknown>> = {
  BASE_URL: ({ publicUrl }) => publicUrl,
  CHALLENGE_SECRET: ({ secrets }) => secrets.challengeSecret,
  SIGNUPS: ({ signupsOpen }) => signupsOpen,
  FREE_UNTIL: ({ freeUntilMs }) => freeUntilMs,
  REGISTER_BITS: ({ registerBits }) => registerBits,
  SHARE_BITS: ({ shareBits }) => shareBits,
  SHARES_PER_DAY: ({ sharesPerDay }) => sharesPerDay,
  INVOICE_MINUTES: ({ invoiceTtlMs }) => invoiceTtlMs,
  PAY_BY_MINUTES: ({ payByMs }) => payByMs,
  ACCEPT_HOURS: ({ acceptMs }) => acceptMs,
  XNO_USD: ({ fixedRates }) => fixedRates.xno,
  XMR_USD: ({ fixedRates }) => fixedRates.xmr,
  MONERO_CONFIRMATIONS: ({ monero }) => monero.confirmations,
  PAYOUTS: ({ payouts }) => payouts,
  MIN_PAYOUT_XNO: ({ minPayout }) => minPayout.xno,
  MIN_PAYOUT_XMR: ({ minPayout }) => minPayout.xmr,
  MAX_FEE_XMR: ({ maxFeeXmr }) => maxFeeXmr,
  LEDGER_ORIGIN: ({ ledgerOrigin }) => ledgerOrigin,
  SEAL_INTERVAL_SECONDS: ({ sealIntervalMs }) => sealIntervalMs,
}

/**
 * The beginning of the SHA-256 of each of these settings: enough to compare them, and of a secret of 32 random
 * bytes it gives nothing away.
 */
export const hashSettings = (config: Config): Record<string, string> =>
  Object.fromEntries(
    Object.entries(MUST_AGREE).map(([name, read]) => [
      name,
      createHash('sha256')
        .update(`${name}=${String(read(config))}`)
        .digest('hex')
        .slice(0, 12),
    ]),
  )

type Said = Pick<
  ProcessRecord,
  'host' | 'pid' | 'part' | 'queues' | 'queue_prefix' | 'redis_run_id' | 'settings'
>

/** Finds processes on this database that use another Redis, or other names of queues, than most: pure. */
export function findTwoNetworks(processes: readonly Said[]): Finding | undefined {
  const known = processes.filter(({ queue_prefix: prefix }) => prefix !== undefined)
  const others = listOthers(known, ({ queue_prefix: prefix, redis_run_id: runId }) => `${prefix} ${runId}`)
  if (others.length === 0) return undefined
  return {
    kind: 'two_networks',
    what: `${others.length} of ${known.length} processes on this database put their work where the others don't look: another Redis, or another QUEUE_PREFIX`,
    why: describeProcesses(others),
    command: `stop them, or give them the REDIS_URL and QUEUE_PREFIX of the others; ${OPERATOR} status --all lists all`,
  }
}

/** Finds processes that do the same work with different settings: one finding for each kind of work: pure. */
export function findDifferentSettings(processes: readonly Said[]): Finding[] {
  const workOf = ({ part, queues }: Said): string =>
    part === 'api' ? part : `${part} of ${queues.join(', ')}`
  return [...Map.groupBy(processes, workOf)].flatMap(([work, group]) => {
    const differing = Object.keys(MUST_AGREE).filter(
      (name) => new Set(group.flatMap(({ settings }) => settings?.[name] ?? [])).size > 1,
    )
    if (differing.length === 0) return []
    const others = listOthers(group, ({ settings = {} }) => differing.map((name) => settings[name]).join(' '))
    return [
      {
        kind: 'settings_differ' as const,
        about: work,
        what: `Processes that do the same work have different settings: ${differing.join(', ')}`,
        why: `those unlike the most: ${describeProcesses(others)}`,
        command: 'start those again with the settings of the others',
      },
    ]
  })
}

/** The processes that are not of the largest group by `keyOf`. */
function listOthers<P extends Said>(processes: readonly P[], keyOf: (process: P) => string): P[] {
  const groups = [...Map.groupBy(processes, keyOf).values()].toSorted((a, b) => b.length - a.length)
  return groups.slice(1).flat()
}

const describeProcesses = (processes: readonly Said[]): string =>
  processes
    .slice(0, 5)
    .map(({ part, pid, host }) => `${part} ${pid} on ${host}`)
    .join('; ')
