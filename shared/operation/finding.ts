import type { Context } from '../context.ts'
import { formatAmount, type Coin } from '../money/coin.ts'

/** `look`: soon, it does no harm yet. `act`: something doesn't work, or money waits, until somebody acts. */
export const SEVERITIES = ['look', 'act'] as const
export type Severity = (typeof SEVERITIES)[number]

/**
 * Everything that can be found, and how bad it is. Each is a line of `operator status`, a metric and an
 * alert.
 */
export const FINDING_KINDS = {
  mongodb_away: 'act',
  redis_away: 'act',
  mongodb_slow: 'look',
  redis_slow: 'look',
  host_busy: 'look',
  mongodb_degraded: 'look',
  two_networks: 'act',
  settings_differ: 'act',
  wrong_program: 'act',
  part_unreadable: 'look',
  clock_off: 'act',
  programs_mixed: 'look',
  secret_readable: 'act',
  certificate_ended: 'act',
  certificate_ending: 'look',
  front_away: 'look',
  copy_not_promoted: 'act',
  redis_emptied: 'look',
  redis_filling: 'look',
  redis_evicts: 'act',
  queue_paused: 'act',
  queue_limited: 'look',
  queue_without_worker: 'act',
  queue_behind: 'look',
  jobs_given_up: 'look',
  jobs_stalled: 'look',
  chain_broken: 'act',
  seals_unsigned: 'act',
  entries_unsealed: 'act',
  entries_unnumbered: 'act',
  log_unwitnessed: 'look',
  peer_away: 'look',
  coin_away: 'look',
  coin_unheard: 'look',
  coin_not_ready: 'act',
  coin_halted: 'act',
  key_refused: 'look',
  key_missing: 'act',
  rate_stale: 'act',
  treasury_short: 'act',
  treasury_low: 'look',
  fee_high: 'act',
  books_gap: 'act',
  books_not_compared: 'look',
  liabilities_uncovered: 'act',
  money_unassigned: 'look',
  payout_held: 'act',
  payout_due: 'act',
  payout_paid_again: 'act',
  owed_differs: 'act',
  transfer_held: 'act',
  send_unexplained: 'act',
  orders_overdue: 'act',
  orders_disputed: 'look',
  reports_waiting: 'look',
  disk_low: 'act',
  disk_filling: 'look',
  backup_old: 'look',
} as const satisfies Record<string, Severity>

export type FindingKind = keyof typeof FINDING_KINDS

export interface Finding {
  kind: FindingKind
  /** The queue, coin, host or file that it is about; with the kind, it identifies the finding. */
  about?: string
  /** Since when, if it is known: Unix seconds. */
  since?: number | undefined
  /** What is found: one sentence without its full stop. */
  what: string
  why?: string | undefined
  /** What to run, or to do if no command can do it. */
  command: string
}

/** Looks for what is wrong in one part of the network, and changes nothing. */
export interface FindingReader {
  name: string
  /** If this server is away, the reader isn't asked. */
  needs: 'mongodb' | 'redis' | 'nothing'
  /** An `undefined` in the list stands for something that is fine. */
  read(ctx: Context): Promise<readonly (Finding | undefined)[]>
}

/**
 * Says how far a chain is from its books, as `2.5 XNO less` or `1 XMR more`.
 *
 * @param gapRaw below 0 for less
 */
export const formatGap = (gapRaw: bigint, coin: Coin): string =>
  `${formatAmount(gapRaw < 0n ? -gapRaw : gapRaw, coin)} ${coin.toUpperCase()} ${gapRaw < 0n ? 'less' : 'more'}`

export const OPERATOR = 'npm run operator --'

/** The key by which a finding is known again at another time. */
export const keyOf = ({ kind, about }: Finding): string => (about === undefined ? kind : `${kind}/${about}`)

export const severityOf = ({ kind }: Finding): Severity => FINDING_KINDS[kind]

/** The worst severity among the findings; `fine` if there are none. */
export function worstOf(findings: readonly Finding[]): 'fine' | Severity {
  if (findings.length === 0) return 'fine'
  return findings.some((finding) => severityOf(finding) === 'act') ? 'act' : 'look'
}
