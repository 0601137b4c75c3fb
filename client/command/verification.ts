import { check, type Verification } from '../seal-verify.mjs'
import { withOwnCosignatures } from '../key-proof.ts'
import { askConsistency, trustArguments } from '../own-ledger.ts'
import { indent } from './format.ts'
import type { Session } from './session.ts'
import { listOption, textOption, type VerbOutput } from './verb.ts'

/** The options that all verbs that verify take. */
export const VERIFY_OPTIONS = {
  pubkey: listOption('KEY', "the service's seal key, from a source that you trust; no other is accepted"),
  policy: textOption(
    'FILE',
    "whose cosignatures a checkpoint must have (C2SP tlog-policy); WITNESS_POLICY, or nobody's, if absent",
  ),
} as const

/** The options as they are given to a verb. */
export interface VerifyOptions {
  pubkey: readonly string[] | undefined
  policy: string | undefined
}

/** A verification that ends sooner shows no progress. */
const QUIET_MS = 2_000

/**
 * Runs this command's own copy of seal-verify.mjs, with what this agent remembers of the service.
 *
 * @param args the verb's own arguments of seal-verify.mjs
 * @param receipt the receipt to verify, in place of a file
 * @returns the exit code, the result and its text; never rejects
 */
export function verify(
  session: Session,
  args: readonly string[],
  { pubkey: pubkeys, policy: policyFile = session.trust.policyFile }: VerifyOptions,
  receipt?: object,
) {
  const { stateFile } = session.trust
  const options = trustArguments({ stateFile, pubkeys, policyFile }, session.baseUrl)
  const showFromMs = performance.now() + QUIET_MS
  const progress = (line: string): void => {
    if (performance.now() > showFromMs) session.progress.show(`verify: ${line}`)
  }
  return check([...args, ...options], {
    progress,
    consistency: askConsistency(session.client),
    ...(receipt === undefined ? {} : { receipt }),
  })
}

/** Fetches a receipt, with the cosignatures of the witnesses that the options name. */
export async function fetchReceipt(
  { client, trust }: Session,
  recordId: string,
  { policy: policyFile = trust.policyFile }: VerifyOptions,
  after?: number,
) {
  return withOwnCosignatures(client, { policyFile }, await client.receipt(recordId, { after }))
}

/**
 * The output for an answer of the service with the verdict on it, whose `ok`, `binding` and exit code it
 * takes.
 */
export function withVerdict(
  answer: object,
  text: string,
  { exitCode, result, text: verdict }: { exitCode: number; result: Verification; text: string },
): VerbOutput {
  const { ok, binding } = result
  return {
    answer: { ...answer, ok, binding, verification: result },
    text: `${text}\nVerified here:\n${indent(verdict)}`,
    exitCode,
  }
}
