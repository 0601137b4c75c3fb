/*
 * What a reader gives a check, and what it gets: the types that the package has in common with its callers.
 */

/** By what a reader judges. */
export interface SealTrust {
  /** Where keys and logs that were seen are remembered. */
  stateFile: string
  /** Keys that are accepted, and no other, 64 hex characters each. Absent: the remembered ones. */
  pubkeys?: readonly string[] | undefined
  /** Whose cosignatures a checkpoint must have (C2SP tlog-policy). Absent: nobody's. */
  policyFile?: string | undefined
  /** How old what is shown may be, in seconds. Absent: 1800 for a service, else any age. */
  maxAgeSeconds?: number | undefined
}

/** Something that does not hold: a fixed word, the place, such as `seal 3`, and a sentence. */
export type Finding = { readonly reason: string; readonly where: string; readonly message: string }
/** Why what holds binds nobody: a fixed word and a sentence. */
export type Doubt = { readonly reason: string; readonly message: string }

export type Trust = 'pinned' | 'remembered' | 'first_seen'

/** How a log stands to the one that was seen; `not_checked` without a proof. */
export type Connection = 'same' | 'consistent' | 'not_checked'

/** What a report says of it. `cosigned_by` names those of the policy's witnesses who cosigned every checkpoint. */
export type RestsOn = {
  key: Trust
  cosigned_by: string[]
  /** The log that they cosigned, in entries; absent if nobody has. */
  cosigned_size?: number
  /** The newest of their times. */
  cosigned_at?: number
  /** Null without a policy. */
  quorum: string | null
  seen_size: number | null
}

/** What a check ends with. The words of a report are fixed; which of its parts are there depends on its kind. */
export type Verification = {
  /** True for `good` alone; so is `binding`. */
  ok: boolean
  binding: boolean
  verdict: 'good' | 'broken' | 'not_binding' | 'unchecked'
  kind?: 'chain' | 'receipt' | 'note' | 'evidence'
  not_binding?: Doubt[]
  findings?: Finding[]
  findings_total?: number
  head?: { seq: number; payload_hash: string; at: number } | null
  pubkeys?: string[]
  /** A receipt's newest checkpoint or a note, and how it stands to the log that was seen. */
  log?: { origin?: string; size: number; root: string; connected?: Connection | null } | null
  /** Null if something doesn't hold. */
  rests_on?: RestsOn | null
  /** Where the two sides of a contradiction were written. */
  evidence?: string
  key_trust?: Trust
  /** Of `unchecked`: a fixed word, a sentence, and lines that follow it. */
  error?: string
  message?: string
  help?: string
}

/** The proof between two sizes of the log, as GET /ledger/consistency answers it; undefined if there is none. */
export type AskConsistency = (from: number, to: number) => Promise<unknown>
