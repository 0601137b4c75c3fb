import { SealError } from './seal.ts'

/*
 * Every reason for which an unsigned seal stays unsigned, with what an operator can do about it.
 *
 * One that `waits` is an answer of signSeals(): the next run may find it gone. One that `stops` is thrown:
 * records, memory, key and clocks don't fit together, and nothing is signed until an operator has looked.
 */

interface Waiting {
  ends: 'waits'
  /** What is the matter, without a full stop. */
  sentence: string
  /** What an operator can do, in sentences. */
  remedy: string
}

interface Stopping {
  ends: 'stops'
  /** The same; it follows the sentence of a SigningStopped. */
  remedy: string
}

const GO_BACK_OR_ADOPT =
  'Nothing is signed until an operator has looked: give back the database, the seal memory and the key that belong together, or, if the database is the one to go on from, adopt its last signed seal on this host (operator seal --adopt SEQ HASH).'

export const SIGNING_REFUSALS = {
  no_key: {
    ends: 'waits',
    sentence: 'there is no seal key yet where SEAL_KEY_FILE says',
    remedy: 'Put the key there; operator keygen makes a new one.',
  },
  locked: {
    ends: 'waits',
    sentence: 'another process of this host has the seal memory open',
    remedy: 'End it if it is not to sign in place of this one.',
  },
  chain_does_not_hold: {
    ends: 'waits',
    sentence: 'the chain of seals does not hold',
    remedy: 'operator check says where.',
  },
  waits_for_outsider: {
    ends: 'waits',
    sentence: 'a peer of SEAL_PEERS did not answer, and is asked again after a pause',
    remedy: 'Take the peer out of SEAL_PEERS only if this host was not restored.',
  },
  clock_behind: {
    ends: 'waits',
    sentence: "this machine's clock is behind the database's",
    remedy: 'Set it right.',
  },

  no_place_for_memory: { ends: 'stops', remedy: 'What was signed must be remembered, so set both.' },
  no_memory: {
    ends: 'stops',
    remedy:
      'Give it back as it was at last; only if it is lost, or the key is new and came without one, adopt the last signed seal of the database on this host (operator seal --adopt SEQ HASH; 0 and 64 zeros if there is none).',
  },
  memory_is_damaged: {
    ends: 'stops',
    remedy:
      'Restore it from where it was kept, or adopt the last signed seal of the database (operator seal --adopt SEQ HASH).',
  },
  /** Memory, key and database are not those that were in use: this may be a second signature for a seq. */
  memory_differs: { ends: 'stops', remedy: GO_BACK_OR_ADOPT },
  other_log_name: { ends: 'stops', remedy: 'Take LEDGER_ORIGIN back, or out.' },
  /** Among the seals of the database one is missing, or a signed one follows an unsigned one. */
  out_of_order: { ends: 'stops', remedy: GO_BACK_OR_ADOPT },
  peer_remembers_more: { ends: 'stops', remedy: GO_BACK_OR_ADOPT },
  witness_remembers_more: {
    ends: 'stops',
    remedy: 'Give back the newer ones; take the witness out of WITNESSES only to give up what it has seen.',
  },
  peer_is_silent: {
    ends: 'stops',
    remedy:
      'A restored host could forget what it has signed; take the peer out of SEAL_PEERS only if this host was not restored.',
  },
  /** The stored entries give something else than the seal states. */
  entries_differ: { ends: 'stops', remedy: GO_BACK_OR_ADOPT },
  date_ahead: { ends: 'stops', remedy: GO_BACK_OR_ADOPT },
  changed_meanwhile: { ends: 'stops', remedy: GO_BACK_OR_ADOPT },
  bad_signature: {
    ends: 'stops',
    remedy: 'The key or the memory of this machine is damaged: sign on another one.',
  },
} as const satisfies Record<string, Waiting | Stopping>

type Refusals = typeof SIGNING_REFUSALS
type NamesThat<End> = {
  [Name in keyof Refusals]: Refusals[Name]['ends'] extends End ? Name : never
}[keyof Refusals]
export type WaitName = NamesThat<'waits'>
export type StopName = NamesThat<'stops'>

/** Nothing more is signed until an operator has looked. The message says what is wrong, and the remedy. */
export class SigningStopped extends SealError {
  readonly because: StopName

  /**
   * @param sentence what is wrong, without a full stop
   * @param more a sentence behind the remedy
   */
  constructor(
    because: StopName,
    sentence: string,
    { more, ...cause }: ErrorOptions & { more?: string } = {},
  ) {
    super(
      [`${sentence}.`, SIGNING_REFUSALS[because].remedy, ...(more === undefined ? [] : [more])].join(' '),
      cause,
    )
    this.because = because
  }
}

/** How a run of the signer ended. `signed` counts the seals that it signed before. */
export type SigningOutcome =
  { signed: number; because: 'all_signed' } | { signed: number; because: WaitName; sentence: string }
