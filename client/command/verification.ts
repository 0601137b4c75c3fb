import { checkAnyReceipt, fetchReceipt } from '../verify-receipt.ts'
import { checkService, verify } from '../verify/check.ts'
import { describe, EXIT_CODES } from '../verify/report.ts'
import { indent } from './format.ts'
import type { Session } from './session.ts'
import { listOption, textOption, type VerbOutput } from './verb.ts'
import type { SealTrust, Verification } from '../verify/verification.ts'

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

/** By what this agent judges, with the options of a verb. */
export const trustOf = (
  { trust: { stateFile, policyFile } }: Session,
  { pubkey: pubkeys, policy = policyFile }: VerifyOptions,
): SealTrust => ({ stateFile, pubkeys, policyFile: policy })

/**
 * Verifies the ledger of the service, with what this agent remembers of it.
 *
 * @param maxAge how old what is shown may be, in seconds; undefined: as usual
 */
export function verifyService(
  session: Session,
  options: VerifyOptions,
  { isFull, maxAge }: { isFull: boolean; maxAge: number | undefined },
): Promise<Verification> {
  const showFromMs = performance.now() + QUIET_MS
  const progress = (line: string): void => {
    if (performance.now() > showFromMs) session.progress.show(`verify: ${line}`)
  }
  const trust = { ...trustOf(session, options), maxAgeSeconds: maxAge }
  return verify(() => checkService(session.baseUrl, trust, { isFull, progress }))
}

/** Verifies what may be a receipt, with what this agent remembers of the service. */
export const verifyReceipt = (session: Session, receipt: object, options: VerifyOptions) =>
  checkAnyReceipt(session.client, receipt, trustOf(session, options))

/** Fetches a receipt, with the cosignatures of the witnesses that the options name. */
export const readReceipt = (session: Session, recordId: string, options: VerifyOptions, after?: number) =>
  fetchReceipt(session.client, recordId, trustOf(session, options), after)

/** The output for an answer of the service with the verdict on it, whose `ok`, `binding` and exit code it takes. */
export function withVerdict(answer: object, text: string, result: Verification): VerbOutput {
  const { ok, binding } = result
  return {
    answer: { ...answer, ok, binding, verification: result },
    text: `${text}\nVerified here:\n${indent(describe(result))}`,
    exitCode: EXIT_CODES[result.verdict],
  }
}
