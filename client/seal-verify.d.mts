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
  key_trust?: 'pinned' | 'remembered' | 'first_seen'
  /** Of `unchecked`. */
  error?: string
  message?: string
}

/**
 * Runs seal-verify.mjs with these arguments, in this process. It prints nothing and never rejects.
 *
 * @param world.receipt a receipt that is at hand, in place of the file that the arguments name
 * @returns its exit code, the object that `--json` prints, and its lines, safe for a terminal
 */
export function check(
  args: readonly string[],
  world?: { progress?: (line: string) => void; receipt?: object },
): Promise<{ exitCode: 0 | 1 | 2 | 3; result: Verification; text: string; json: string }>
