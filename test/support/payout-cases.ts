import type { StoredPayout } from '../../shared/money/payout.ts'

/*
 * What becomes of a payout by each event, from each situation that it can be in. The pure rule and the stored
 * records are compared with the same table.
 */

/** A payout as far as its rules look at it. */
export type Situation = Pick<StoredPayout, 'state'> &
  Partial<Pick<StoredPayout, 'address' | 'frozen' | 'decided' | 'held_by' | 'to_self' | 'transfer_id' | 'tx'>>

/** Ids in the situations: of the transfer that an event is about, of two others, and of a send. */
export const IDS = { own: 'trf_own', other: 'trf_other', foreign: 'trf_foreign', send: 'trf_send' } as const

/** A state, and what else is said of the payout. */
export const SITUATIONS = [
  ...(['owed', 'owed, no address', 'owed, frozen', 'owed, held', 'owed, frozen, held'] as const),
  ...([
    'owed, decided',
    'owed, to self',
    'in_transfer own',
    'in_transfer other',
    'in_transfer foreign',
  ] as const),
  ...(['in_transfer foreign, frozen', 'manual', 'manual, to self', 'withdrawn'] as const),
] as const

/** Far ahead, in Unix seconds. */
const LATER = 4_000_000_000

/** The payout that is in a situation. */
export function situation(name: string): Situation {
  const [head = '', ...said] = name.split(', ')
  const [state, transfer] = head.split(' ') as [Situation['state'], keyof typeof IDS | undefined]
  return {
    state,
    ...(said.includes('no address') ? {} : { address: 'nano_payee' }),
    ...(said.includes('frozen') ? { frozen: true as const } : {}),
    ...(said.includes('decided') ? { decided: { version: 1, until: LATER } } : {}),
    ...(said.includes('held') ? { held_by: IDS.send } : {}),
    ...(said.includes('to self') ? { to_self: true as const } : {}),
    ...(transfer === undefined ? {} : { transfer_id: IDS[transfer] }),
    ...(state === 'manual' ? { tx: 'ab'.repeat(32) } : {}),
  }
}

/** The name of a situation; the inverse of situation(). */
export function nameOf(payout: Situation, ids: Record<keyof typeof IDS, string> = IDS): string {
  const { state, address, frozen, decided, held_by, to_self, transfer_id } = payout
  const transfer = Object.entries(ids).find(([, id]) => id === transfer_id)?.[0]
  return [
    transfer === undefined ? state : `${state} ${transfer}`,
    ...(address === undefined ? ['no address'] : []),
    ...(frozen === true ? ['frozen'] : []),
    ...(decided === undefined ? [] : ['decided']),
    ...(held_by === undefined ? [] : ['held']),
    ...(to_self === true ? ['to self'] : []),
  ].join(', ')
}

/** Where each event leads to; it changes nothing in any other situation. */
export const CASES = {
  'a transfer is signed for it': { owed: 'in_transfer own' },
  'a send may have paid it': {
    owed: 'owed, held',
    'owed, no address': 'owed, no address, held',
    'owed, decided': 'owed, decided, held',
  },
  'the operator says that no send has paid it': {
    'owed, held': 'owed',
    'owed, frozen, held': 'owed, frozen',
    // Another wallet's transfer, which nobody here can complete, is given up with it.
    'in_transfer foreign': 'owed',
    'in_transfer foreign, frozen': 'owed, frozen',
  },
  'its replaced transfer is in the chain after all': {
    owed: 'in_transfer own',
    'owed, no address': 'in_transfer own, no address',
    'owed, frozen': 'in_transfer own, frozen',
    'owed, held': 'in_transfer own',
    'owed, frozen, held': 'in_transfer own, frozen',
    'owed, decided': 'in_transfer own, decided',
    'owed, to self': 'in_transfer own, to self',
  },
  'its transfer is replaced': { 'in_transfer own': 'owed' },
  'it is paid by hand': {
    owed: 'manual',
    'owed, held': 'manual',
    'owed, decided': 'manual, decided',
    'owed, to self': 'manual, to self',
    'in_transfer foreign': 'manual',
  },
  'paid by hand is undone': { manual: 'owed', 'manual, to self': 'owed, to self' },
  'paid by hand is undone, and may stand': {
    manual: 'owed, held',
    'manual, to self': 'owed, held, to self',
  },
  'its money goes elsewhere': {
    owed: 'withdrawn',
    'owed, no address': 'withdrawn, no address',
    'owed, frozen': 'withdrawn, frozen',
    'owed, held': 'withdrawn, held',
    'owed, frozen, held': 'withdrawn, frozen, held',
    'owed, decided': 'withdrawn, decided',
    'owed, to self': 'withdrawn, to self',
  },
} as const satisfies Record<string, Record<string, string>>
export type PayoutEventName = keyof typeof CASES
export const EVENTS = Object.keys(CASES) as PayoutEventName[]
