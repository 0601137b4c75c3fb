import { commitRecord } from '../crypto/commitment.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'
import { payoutLine, type JournalLine } from './journal.ts'
import type { PayoutState, StoredPayout } from './payout.ts'

/*
 * What becomes of a payout: functions of the payout, the event and the time. Nothing here reads or stores.
 */

/** Why a payout that is owed isn't sent. */
export const HOLD_REASONS = ['no_address', 'disputed', 'may_be_paid', 'own_address', 'decided'] as const
export type HoldReason = (typeof HOLD_REASONS)[number]
/** A hold that somebody has to end; that of a decision ends by itself. */
type LastingReason = Exclude<HoldReason, 'decided'>

export interface Hold {
  why: HoldReason
  /**
   * The order that has no address, is disputed or was decided; the send (an id of ours, or a transaction) that may have
   * paid it, or `operator`; the address of the venue's own. Undefined if a payout for no order has no address.
   */
  ref: string | undefined
}

type Holdable = Pick<StoredPayout, 'order_id' | 'address' | 'frozen' | 'held_by' | 'to_self' | 'decided'>

/**
 * Lists why a payout isn't sent at a time (Unix seconds) if it is owed then; the list is empty if it may be
 * sent.
 */
export function holdsOf(payout: Holdable, at: number): Hold[] {
  const { order_id: ref, decided } = payout
  const holds: Hold[] = lastingHolds(payout)
  return decided !== undefined && decided.until > at ? [...holds, { why: 'decided', ref }] : holds
}

function lastingHolds({
  order_id: orderId,
  address,
  frozen,
  held_by: heldBy,
  to_self: toSelf,
}: Holdable): (Hold & { why: LastingReason })[] {
  const holds: ReturnType<typeof lastingHolds> = []
  if (address === undefined) holds.push({ why: 'no_address', ref: orderId })
  if (frozen === true) holds.push({ why: 'disputed', ref: orderId })
  if (heldBy !== undefined) holds.push({ why: 'may_be_paid', ref: heldBy })
  if (toSelf === true) holds.push({ why: 'own_address', ref: address })
  return holds
}

export const isHeld = (payout: Holdable, why: LastingReason): boolean =>
  lastingHolds(payout).some((hold) => hold.why === why)

export interface PayoutStepRule {
  from: readonly StoredPayout['state'][]
  to: StoredPayout['state']
  /** Holds with which it can't be taken. */
  unless: readonly HoldReason[]
  text: string
}

/** Every step is one conditional update that names the state and what must not hold the payout. */
export const PAYOUT_STEPS = {
  signed: {
    from: ['owed'],
    to: 'in_transfer',
    unless: HOLD_REASONS,
    text: 'A signed transfer that carries it, to the address that was signed for, is stored.',
  },
  held: {
    from: ['owed'],
    to: 'owed',
    unless: ['disputed', 'may_be_paid', 'own_address'],
    text: 'A send that the database did not know may have paid it, or the operator is about to pay it by hand: it is held.',
  },
  cleared: {
    from: ['owed'],
    to: 'owed',
    unless: [],
    text: 'The operator says that no such send paid it: it is held no more.',
  },
  reinstated: {
    from: ['owed'],
    to: 'in_transfer',
    unless: [],
    text: 'Its transfer, which had been replaced, is in the chain after all.',
  },
  returned: {
    from: ['in_transfer'],
    to: 'owed',
    unless: [],
    text: 'Another transaction has the place of its transfer in the chain for good, or the operator has given up a transfer of another wallet.',
  },
  paid_by_hand: {
    from: ['owed', 'in_transfer'],
    to: 'manual',
    unless: ['disputed', 'no_address'],
    text: 'The operator recorded the transaction that paid it by hand. In a transfer it must be one of another wallet, which is given up for it.',
  },
  hand_undone: {
    from: ['manual'],
    to: 'owed',
    unless: [],
    text: 'The operator took that record back. If the transaction may have paid it all the same, it is held.',
  },
  paid_in_part: {
    from: ['owed'],
    to: 'withdrawn',
    unless: ['disputed', 'no_address'],
    text: 'The operator recorded that a part was paid: the part and the rest take its place.',
  },
  withdrawn: {
    from: ['owed'],
    to: 'withdrawn',
    unless: [],
    text: 'The operator decided the order otherwise, or took the decision back.',
  },
} as const satisfies Record<string, PayoutStepRule>

export type PayoutStep = keyof typeof PAYOUT_STEPS

/** The step's row of the table, with the type of any row. */
const stepRule = (step: PayoutStep): PayoutStepRule => PAYOUT_STEPS[step]

/** What happens to a payout. `transferId`: it has to be in that transfer, if it is in one. */
export type PayoutEvent =
  | { step: 'signed' | 'reinstated'; transfer: { _id: string; tx: string } }
  | { step: 'held'; by: string }
  /** `of`: all sends that are known not to have paid it. */
  | { step: 'cleared'; of: readonly string[] }
  /** `wasConfirmed`: the ledger says so, and is told that it is no longer true. */
  | { step: 'returned'; transferId: string; wasConfirmed: boolean }
  | { step: 'paid_by_hand'; tx: string; isAddressNamed: boolean; transferId?: string }
  /** `mayStandBy`: the transaction that it was recorded with, if that may have paid it all the same. */
  | { step: 'hand_undone'; mayStandBy: string | undefined }
  | { step: 'paid_in_part' | 'withdrawn' }

/** What has to be so for a step to be stored: what the decision rests on. */
export interface PayoutCondition {
  state: StoredPayout['state']
  transferId?: string
  unless: readonly HoldReason[]
  /** When it is decided, in Unix seconds: a hold may be over by then. */
  at: number
}

export interface PayoutUpdate {
  kind: 'moves'
  condition: PayoutCondition
  set: Partial<StoredPayout> & Pick<StoredPayout, 'state' | 'changed_at'>
  unset: readonly (keyof StoredPayout)[]
  /** The state that the ledger and the payee are told. */
  told: PayoutState
  entry: PendingEntry
  lines: readonly JournalLine[]
}

/** A payout to which the event can't happen: for its state, the transfer that it is in, or a hold. */
export interface PayoutStays {
  kind: 'stays'
  /** `not_held`: there is nothing to clear it of. */
  because: 'state' | 'transfer' | 'not_held' | HoldReason
}

/**
 * Decides what an event makes of a payout.
 *
 * @param at Unix seconds
 * @param attempt tells apart a step that is taken more than once
 */
export function decidePayout(
  payout: StoredPayout,
  event: PayoutEvent,
  at: number,
  attempt?: string,
): PayoutUpdate | PayoutStays {
  const { from, to, unless } = stepRule(event.step)
  if (!from.includes(payout.state)) return { kind: 'stays', because: 'state' }
  const transferId = payout.state === 'in_transfer' ? payout.transfer_id : undefined
  const about = 'transferId' in event ? event.transferId : undefined
  if (transferId !== about) return { kind: 'stays', because: 'transfer' }
  const hold = holdsOf(payout, at).find(({ why }) => unless.includes(why))
  if (hold !== undefined) return { kind: 'stays', because: hold.why }
  const isCleared = event.step === 'cleared' && event.of.length === (payout.cleared_of ?? []).length
  if (isCleared && !isHeld(payout, 'may_be_paid')) return { kind: 'stays', because: 'not_held' }
  const { set = {}, unset = [], told, line, ...details } = effectOf(event)
  return {
    kind: 'moves',
    condition: { state: payout.state, ...omitUndefined({ transferId }), unless, at },
    set: { ...set, state: to, changed_at: at },
    unset,
    told,
    entry: payoutEntry(payout, told, at, { ...details, attempt }),
    lines:
      line === undefined ? [] : payoutLine(payout, line === 'withdrawn' ? line : `${line}/${attempt}`, at),
  }
}

/** What an event writes beside the state, and what it tells. */
function effectOf(event: PayoutEvent): EntryDetails & {
  set?: Partial<StoredPayout>
  unset?: readonly (keyof StoredPayout)[]
  told: PayoutState
  line?: 'manual' | 'unpaid' | 'withdrawn'
} {
  switch (event.step) {
    case 'signed':
    case 'reinstated': {
      const { _id: transfer_id, tx } = event.transfer
      const told = event.step === 'signed' ? 'signed' : 'confirmed'
      return { set: { transfer_id }, unset: ['held_by'], told, tx }
    }
    case 'held':
      return { set: { held_by: event.by }, told: 'held' }
    case 'cleared':
      return { set: { cleared_of: [...event.of] }, unset: ['held_by'], told: 'owed' }
    case 'returned':
      return { unset: ['transfer_id'], told: 'owed', undoes: event.wasConfirmed ? 'confirmed' : undefined }
    case 'paid_by_hand': {
      const { tx, isAddressNamed } = event
      const gone = ['held_by', 'transfer_id'] as const
      return {
        set: { tx, ...(isAddressNamed ? { named_address: true } : {}) },
        unset: isAddressNamed ? gone : [...gone, 'named_address'],
        ...{ told: 'manual', line: 'manual', tx },
      }
    }
    case 'hand_undone': {
      const { mayStandBy } = event
      const undone = {
        told: mayStandBy === undefined ? 'owed' : 'held',
        line: 'unpaid',
        undoes: 'manual',
      } as const
      const gone = ['tx', 'named_address'] as const
      if (mayStandBy === undefined) return { unset: [...gone, 'held_by'], ...undone }
      return { set: { held_by: mayStandBy }, unset: gone, ...undone }
    }
    case 'paid_in_part':
    case 'withdrawn':
      return { told: 'withdrawn', line: 'withdrawn' }
  }
}

export interface EntryDetails {
  /** The transaction that the step is about; the entry only commits to it. */
  tx?: string | undefined
  /** Tells apart a step that is taken more than once. */
  attempt?: string | undefined
  /** The step of an earlier entry that is no longer true. */
  undoes?: 'manual' | 'confirmed' | undefined
}

/** Makes the ledger entry of a payout's step. The amount is in the clear, since sums owed are public. */
export function payoutEntry(
  payout: Omit<StoredPayout, 'state'>,
  told: PayoutState,
  at: number,
  { tx, attempt, undoes }: EntryDetails = {},
): PendingEntry {
  const { _id, order_id, coin, amount_raw, salt } = payout
  const tx_hash = tx === undefined ? undefined : commitRecord(_id, salt, { tx })
  const again = told === 'owed' && attempt !== undefined ? true : undefined
  const data = {
    payout_id: _id,
    coin,
    amount_raw,
    step: told,
    ...omitUndefined({ order_id, undoes, again, tx_hash }),
  }
  return { source: `${_id}/${told}${attempt === undefined ? '' : `/${attempt}`}`, at, kind: 'payout', data }
}
