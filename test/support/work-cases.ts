import { isShare } from '../../shared/crypto/pow.ts'
import type { SharePage, WorkOrderRecord } from '../../shared/passes/work.ts'

/*
 * What becomes of a work order, and of what is handed in for it, by each event, from each situation that it can
 * be in. The pure rules and the stored records are compared with the same tables.
 */

/** A status, the number of shares that count, of the ten that the order needs for two days, and what else is said. */
export const SITUATIONS = [
  ...(['open 0', 'open 4', 'open 9', 'expired 0', 'expired 4', 'expired 9'] as const),
  ...(['credited 10', 'credited 10, time over'] as const),
] as const
export type SituationName = (typeof SITUATIONS)[number]

const PREFIX = 'ab'.repeat(16)
const BITS = 8
/** Unix seconds, before and after the end of an order. */
export const [OVER_AT, LATER] = [1_000, 4_000_000_000]

function findNonces(count: number, areShares: boolean): string[] {
  const nonces: string[] = []
  for (let nonce = 0; nonces.length < count; nonce++)
    if (isShare(PREFIX, String(nonce), BITS) === areShares) nonces.push(String(nonce))
  return nonces
}
/** Of an order that has counted ten shares these are the first ten. */
const SHARES = findNonces(12, true)
const NO_SHARES = findNonces(17, false)

/** The order that is in a situation, and the page of what it has counted. */
export function orderIn(
  name: SituationName,
  more: Partial<WorkOrderRecord> = {},
): { order: WorkOrderRecord; page: SharePage } {
  const [, status, number] = /^(\w+) (\d+)/.exec(name) ?? []
  const counted = Number(number)
  const order: WorkOrderRecord = {
    ...{ _id: 'wrk_1', agent_id: 'agt_1', at: 1, days: 2, shares_per_day: 5, shares_required: 10 },
    ...{ difficulty_bits: BITS, prefix: PREFIX, shares_accepted: counted },
    credited_days: Math.floor(counted / 5),
    expires_at: status === 'expired' || name.includes('time over') ? OVER_AT : LATER,
    ...(counted === 0 ? {} : { share_pages: 1, last_batch: 'bat_1' }),
    ...more,
  }
  return {
    order,
    page: { order_id: order._id, number: 1, batch_ids: ['bat_1'], nonces: SHARES.slice(0, counted) },
  }
}

/** What an agent sends. */
export const SENT = {
  'the first two shares': SHARES.slice(0, 2),
  'the first share twice': [SHARES[0] ?? '', SHARES[0] ?? ''],
  'two new shares': SHARES.slice(10),
  'the first share and a new one': [SHARES[0] ?? '', SHARES[11] ?? ''],
  'a new share and one that is none': [SHARES[10] ?? '', NO_SHARES[0] ?? ''],
  'two that are no shares': NO_SHARES.slice(0, 2),
  'seventeen that are no shares': NO_SHARES,
  'what is no nonce': ['!'],
  'the first share and what is no nonce': [SHARES[0] ?? '', '!'],
} as const
export type SentName = keyof typeof SENT
export const SENT_NAMES = Object.keys(SENT) as SentName[]

const each = (names: readonly SituationName[], outcome: string): Partial<Record<SituationName, string>> =>
  Object.fromEntries(names.map((name) => [name, outcome]))
const OPEN = ['open 0', 'open 4', 'open 9'] as const
const CREDITED = ['credited 10', 'credited 10, time over'] as const
const WITH_SHARES = ['expired 4', 'expired 9', ...CREDITED] as const
const ALL_EXPIRED = ['expired 0', 'expired 4', 'expired 9'] as const
const REFUSED = { ...each(ALL_EXPIRED, 'wrong_state expired'), ...each(CREDITED, 'wrong_state credited') }

/** What comes of what is sent: how many shares are taken, and why the others are not. */
export const SUBMISSION_CASES: Record<SentName, Partial<Record<SituationName, string>>> = {
  'the first two shares': {
    ...REFUSED,
    ...each(OPEN, 'takes 2'),
    ...each(WITH_SHARES, 'takes 0: duplicate duplicate'),
  },
  'the first share twice': {
    ...REFUSED,
    ...each(OPEN, 'takes 1: duplicate'),
    ...each(WITH_SHARES, 'takes 0: duplicate duplicate'),
  },
  'two new shares': { ...REFUSED, ...each(OPEN, 'takes 2') },
  'the first share and a new one': { ...REFUSED, ...each(OPEN, 'takes 2') },
  'a new share and one that is none': { ...REFUSED, ...each(OPEN, 'takes 1: insufficient_work') },
  'two that are no shares': {
    ...REFUSED,
    ...each(OPEN, 'takes 0: insufficient_work insufficient_work'),
  },
  'seventeen that are no shares': { ...REFUSED, ...each(OPEN, 'insufficient_work') },
  'what is no nonce': { ...REFUSED, ...each(OPEN, 'takes 0: invalid_nonce') },
  'the first share and what is no nonce': { ...REFUSED, ...each(OPEN, 'takes 1: invalid_nonce') },
}

/** What comes of shares that were taken while the order was open, when a worker verifies them. */
export const VERIFIED_CASES: Partial<Record<SentName, Record<SituationName, string>>> = {
  'the first two shares': {
    'open 0': 'aa, open 2, 0 days',
    'open 4': 'dd, open 4, 0 days',
    'open 9': 'dd, open 9, 1 days',
    'expired 0': 'aa, expired 2, 0 days',
    'expired 4': 'dd, expired 4, 0 days',
    'expired 9': 'dd, expired 9, 1 days',
    'credited 10': 'dd, credited 10, 2 days',
    'credited 10, time over': 'dd, credited 10, 2 days',
  },
  'two new shares': {
    'open 0': 'aa, open 2, 0 days',
    'open 4': 'aa, open 6, 1 days',
    'open 9': 'af, credited 10, 2 days',
    'expired 0': 'aa, expired 2, 0 days',
    'expired 4': 'aa, expired 6, 1 days',
    'expired 9': 'af, credited 10, 2 days',
    'credited 10': 'ff, credited 10, 2 days',
    'credited 10, time over': 'ff, credited 10, 2 days',
  },
  'the first share and a new one': {
    'open 0': 'aa, open 2, 0 days',
    'open 4': 'da, open 5, 1 days',
    'open 9': 'da, credited 10, 2 days',
    'expired 0': 'aa, expired 2, 0 days',
    'expired 4': 'da, expired 5, 1 days',
    'expired 9': 'da, credited 10, 2 days',
    'credited 10': 'df, credited 10, 2 days',
    'credited 10, time over': 'df, credited 10, 2 days',
  },
}
