import { omitUndefined } from '../platform/omit-undefined.ts'
import type { TransferRecord, TransferState } from './transfer.ts'

/*
 * What becomes of a transfer: functions of the transfer, the step and the time. Nothing here reads or stores.
 */

export interface TransferStepRule {
  from: readonly TransferState[]
  to: TransferState
  text: string
}

/** Every step is one conditional update that names the state. */
export const TRANSFER_STEPS = {
  taken: {
    from: ['signed', 'held'],
    to: 'sent',
    text: 'The node or the daemon has it.',
  },
  held: {
    from: ['signed', 'sent'],
    to: 'held',
    text: 'It has been refused for ten minutes since it was first refused, or is of another wallet. It goes on being offered, if its wallet is in use.',
  },
  confirmed: {
    from: ['signed', 'sent', 'held'],
    to: 'confirmed',
    text: 'The chain has it, with the confirmations that its coin asks for.',
  },
  replaced: {
    from: ['signed', 'sent', 'held', 'confirmed'],
    to: 'replaced',
    text: 'Another transaction has its place in the chain for good: its payouts are owed again.',
  },
  given_up: {
    from: ['signed', 'sent', 'held'],
    to: 'replaced',
    text: 'It is of another wallet, and the operator found that it paid nobody: its payouts are owed again.',
  },
  reinstated: {
    from: ['replaced'],
    to: 'confirmed',
    text: 'It is in the chain after all: it has those of its payouts again that are still owed.',
  },
} as const satisfies Record<string, TransferStepRule>

export type TransferStep = keyof typeof TRANSFER_STEPS

/** The step's row of the table, with the type of any row. */
const stepRule = (step: TransferStep): TransferStepRule => TRANSFER_STEPS[step]

export interface TransferUpdate {
  kind: 'moves'
  /** The state that it still has to be in. */
  from: TransferState
  set: Partial<TransferRecord> & Pick<TransferRecord, 'state' | 'changed_at'>
  unset: readonly ('refused' | 'in_flight' | 'account_index')[]
}

/** A transfer whose state doesn't allow the step. */
export interface TransferStays {
  kind: 'stays'
}

/** What is stored with a step: its reason, and the place of a reinstated transfer in its account's chain. */
export interface TransferStepDetails {
  reason?: string | undefined
  place?: Pick<TransferRecord, 'account_index' | 'previous'> | undefined
}

/** Decides what a step makes of a transfer. @param at Unix seconds */
export function decideTransfer(
  transfer: Pick<TransferRecord, 'state'>,
  step: TransferStep,
  at: number,
  { reason, place }: TransferStepDetails = {},
): TransferUpdate | TransferStays {
  const { from, to } = stepRule(step)
  if (!from.includes(transfer.state)) return { kind: 'stays' }
  return {
    kind: 'moves',
    from: transfer.state,
    set: { ...place, ...omitUndefined({ reason }), state: to, changed_at: at },
    unset: UNSET[to],
  }
}

/**
 * What a transfer has no more in a state. What is held stands in nobody's way: nothing is lost if another one
 * spends its inputs. A replaced block gives its place in the account's chain to the one that stands there.
 */
const UNSET = {
  signed: [],
  sent: ['refused'],
  held: ['in_flight'],
  confirmed: ['refused', 'in_flight'],
  replaced: ['refused', 'in_flight', 'account_index'],
} as const satisfies Record<TransferState, TransferUpdate['unset']>
