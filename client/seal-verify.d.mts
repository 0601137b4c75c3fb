/** What `--json` prints; which of the parts are there depends on what was checked. */
export interface Verification {
  /** True with exit code 0 alone; so is `binding`. */
  ok: boolean
  binding: boolean
  verdict: 'good' | 'broken' | 'unchecked' | 'not_binding'
  not_binding?: { reason: string; message: string }[]
  findings?: { reason: string; where: string; message: string }[]
  head?: { seq: number; at: number; payload_hash: string; history: string } | null
  pubkeys?: string[]
  /** The log's checkpoint in a receipt or note, and how it stands to the one that was seen. */
  log?: {
    origin?: string
    size: number
    root: string
    connected?: 'same' | 'consistent' | 'not_checked' | null
  } | null
  /**
   * Who stands behind the verdict; null if something doesn't hold. `cosigned_by` names those of the policy's
   * witnesses who cosigned, `quorum` is null without a policy, `seen_size` is how much of the log was seen
   * here before.
   */
  rests_on?: {
    key: 'pinned' | 'remembered' | 'first_seen'
    cosigned_by: string[]
    /** The log that they cosigned, in entries; absent if nobody has. */
    cosigned_size?: number
    /** The newest of their times, Unix seconds. */
    cosigned_at?: number
    quorum: string | null
    seen_size: number | null
  } | null
  /** Where the two sides of a contradiction were written. */
  evidence?: string
  key_trust?: 'pinned' | 'remembered' | 'first_seen'
  /** Of `unchecked`. */
  error?: string
  message?: string
}

/**
 * Runs seal-verify.mjs with these arguments, in this process. It prints nothing and never rejects.
 *
 * @param world.receipt a receipt that is at hand, in place of the file that the arguments name
 * @param world.note a checkpoint that another reader was shown, which is compared with what is remembered of
 *   `--service`
 * @param world.consistency the answer of GET /ledger/consistency; undefined if there is none
 * @returns its exit code, the object that `--json` prints, and its lines, safe for a terminal
 */
export function check(
  args: readonly string[],
  world?: {
    progress?: (line: string) => void
    receipt?: object
    note?: string
    consistency?: (from: number, to: number) => Promise<object | undefined>
  },
): Promise<{ exitCode: 0 | 1 | 2 | 3; result: Verification; text: string; json: string }>

/**
 * Reads what is remembered of a service: its keys, whether its closing entries state log and keys, and the
 * newest log that was verified, with its signed checkpoint if there was one. Undefined before the first check
 * of everything.
 */
/** The vkeys of the witnesses in a file with a policy, as many as a service is asked for. */
export function readPolicyVkeys(file: string): Promise<string[]>
export function recall(
  stateFile: string,
  service: string,
): Promise<
  | {
      pubkeys: string[]
      logged: boolean
      /** The form of the tree of keys that closing entries state by now. */
      key_form: 1 | 2
      log: { size: number; root: string }
      checkpoint?: string
    }
  | undefined
>
