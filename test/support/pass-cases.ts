import { DAY_MS, HOUR_MS } from '../../shared/platform/time.ts'

/*
 * What becomes of the end of a pass by each event, from each situation that it can be in. The pure rules and the
 * stored passes are compared with the same table.
 */

/** When a pass ends, in days from now; undefined if there has been none. */
export const ENDS = {
  none: undefined,
  'ended 3 days ago': -3,
  'ended half a day ago': -0.5,
  'ends in half a day': 0.5,
  'ends in 2.5 days': 2.5,
  'ends in 5 days': 5,
} as const
export type EndName = keyof typeof ENDS
export const END_NAMES = Object.keys(ENDS) as EndName[]

/** A pass's end in milliseconds since the epoch. */
export function endAt(name: EndName, nowMs: number): number | undefined {
  const days = ENDS[name]
  return days === undefined ? undefined : nowMs + days * DAY_MS
}

export type PassEvent =
  { kind: 'paid' | 'taken_back'; days: number } | { kind: 'free'; days: number; freeMs: number }

/** What happens to a pass; `freeMs`: the free period ends so many milliseconds from now. */
export const PASS_EVENTS = {
  '3 days are paid for': { kind: 'paid', days: 3 },
  '3 days are free for 10 days': { kind: 'free', days: 3, freeMs: 10 * DAY_MS },
  '3 days are free for 4 days': { kind: 'free', days: 3, freeMs: 4 * DAY_MS },
  '3 days are free for 6 hours': { kind: 'free', days: 3, freeMs: 6 * HOUR_MS },
  '3 days are taken back': { kind: 'taken_back', days: 3 },
} as const satisfies Record<string, PassEvent>
export type PassEventName = keyof typeof PASS_EVENTS
export const PASS_EVENT_NAMES = Object.keys(PASS_EVENTS) as PassEventName[]

/** Says when a pass ends and how many days were credited for it; to a hundredth of a day. */
export function describeEnd(untilMs: number, nowMs: number, days: number): string {
  // Adding 0 makes -0 one of 0.
  return `${days} credited, ends in ${Math.round(((untilMs - nowMs) / DAY_MS) * 100) / 100 + 0} days`
}

/** When the pass ends after each event. */
export const PASS_CASES: Record<PassEventName, Record<EndName, string>> = {
  '3 days are paid for': {
    none: '3 credited, ends in 3 days',
    'ended 3 days ago': '3 credited, ends in 3 days',
    'ended half a day ago': '3 credited, ends in 3 days',
    'ends in half a day': '3 credited, ends in 3.5 days',
    'ends in 2.5 days': '3 credited, ends in 5.5 days',
    'ends in 5 days': '3 credited, ends in 8 days',
  },
  '3 days are free for 10 days': {
    none: '3 credited, ends in 3 days',
    'ended 3 days ago': '3 credited, ends in 3 days',
    'ended half a day ago': '3 credited, ends in 3 days',
    'ends in half a day': '3 credited, ends in 3.5 days',
    'ends in 2.5 days': '3 credited, ends in 5.5 days',
    'ends in 5 days': '3 credited, ends in 8 days',
  },
  '3 days are free for 4 days': {
    none: '3 credited, ends in 3 days',
    'ended 3 days ago': '3 credited, ends in 3 days',
    'ended half a day ago': '3 credited, ends in 3 days',
    'ends in half a day': '3 credited, ends in 3.5 days',
    'ends in 2.5 days': '1 credited, ends in 4 days',
    'ends in 5 days': '0 credited, ends in 5 days',
  },
  '3 days are free for 6 hours': {
    none: '0 credited, ends in 0.25 days',
    'ended 3 days ago': '0 credited, ends in 0.25 days',
    'ended half a day ago': '0 credited, ends in 0.25 days',
    'ends in half a day': '0 credited, ends in 0.5 days',
    'ends in 2.5 days': '0 credited, ends in 2.5 days',
    'ends in 5 days': '0 credited, ends in 5 days',
  },
  '3 days are taken back': {
    none: 'used up',
    'ended 3 days ago': 'used up',
    'ended half a day ago': 'used up',
    'ends in half a day': 'used up',
    // Of the days that are taken back half a one is used.
    'ends in 2.5 days': '-3 credited, ends in -0.5 days',
    'ends in 5 days': '-3 credited, ends in 2 days',
  },
}

/** It is said as well if a later payment, or the end of the invoice, has bought days with what it left over. */
const CARRIED =
  "Its money has been spent since, with a later payment, at the invoice's end or in another of the agent's invoices, so it cannot be taken back."

/** What the operator takes back of an invoice for 3 days, whose price is 3 coins. */
export interface TakenBackCase {
  /** In coins, in the order of their coming; the operator has recorded each. */
  payments: readonly string[]
  /** Which of them is taken back, from 0 on. */
  taken: number
  /** What happened before: the invoice lapsed, its remainder was carried into the next one, 1.1 days are used. */
  after?: 'lapse' | 'next invoice' | 'use'
  /** What stands afterwards, or why it can't be taken back. */
  comes: string
}
export const TAKEN_BACK_CASES: Record<string, TakenBackCase> = {
  'the whole price': { payments: ['3'], taken: 0, comes: '3 days less: 0 days for 0' },
  'half the price': { payments: ['1.5'], taken: 0, comes: '0 days less: 0 days for 0' },
  'the half that made up the price': {
    ...{ payments: ['1.5', '1.5'], taken: 1 },
    comes: '3 days less: 0 days for 1.5',
  },
  'the half that the days were bought with later': { payments: ['1.5', '1.5'], taken: 0, comes: CARRIED },
  'a part, once the invoice has lapsed': { payments: ['1.5'], taken: 0, after: 'lapse', comes: CARRIED },
  'what made up the price, once the invoice has lapsed': {
    ...{ payments: ['1.5', '1.5'], taken: 1, after: 'lapse' },
    comes: '2 days less: 1 days for 1.5',
  },
  'more than the price': { payments: ['3.5'], taken: 0, comes: '3 days less: 0 days for 0' },
  'more than the price, once the rest was carried on': {
    ...{ payments: ['3.5'], taken: 0, after: 'next invoice' },
    comes: CARRIED,
  },
  'what came after the price': { payments: ['3', '1'], taken: 1, comes: '1 days less: 3 days for 3' },
  'the price, with more behind it': { payments: ['3', '1'], taken: 0, comes: '3 days less: 1 days for 1' },
  'the price, once a day of it is used': {
    ...{ payments: ['3'], taken: 0, after: 'use' },
    comes: 'Some of the 3 days to be taken back are used up, so they cannot be taken back.',
  },
}
