import type { Client } from './client.ts'
import { withOwnCosignatures } from './key-proof.ts'
import { askConsistency, trustArguments, type SealTrust } from './own-ledger.ts'
import { check, recall, type Verification } from './seal-verify.mjs'

/** The result of a verification. */
export interface Verified {
  /** Whether all of it is sealed with a key that is pinned or remembered, and everything holds. */
  ok: boolean
  verdict: Verification['verdict']
  /**
   * Why not: words such as `waiting` (no seal yet), `key_unknown` (the first check), or what does not hold.
   */
  reasons: string[]
  /** The verifier's lines, safe for a terminal. */
  text: string
}

/**
 * Verifies the ledger of a service without trusting it: what is new since the last check, which is remembered
 * in `trust.stateFile`. The first check remembers the service's key, unless keys are pinned, and ends with
 * `key_unknown`. Never rejects because of the service: then `verdict` is `unchecked`.
 */
export async function verifyLedger({
  client,
  trust,
}: {
  client: Client
  trust: SealTrust
}): Promise<Verified> {
  const { result, text } = await check([client.baseUrl, ...trustArguments(trust, client.baseUrl)])
  return { ok: result.ok, verdict: result.verdict, reasons: reasonsOf(result), text }
}

const reasonsOf = ({ findings = [], not_binding: notBinding = [] }: Verification): string[] =>
  [...findings, ...notBinding].map(({ reason }) => reason)

/**
 * Fetches the receipt of a record and verifies it without trusting the service.
 *
 * @param trust where the verifier remembers the service, and keys that you know to be its own. If neither is
 *   known, the ledger is verified first, and the key that it was sealed with is remembered.
 * @throws RefusalError and TransportError as the client does
 */
export async function verifyReceipt(options: {
  client: Client
  recordId: string
  trust: SealTrust
}): Promise<Verified> {
  const { client, recordId, trust } = options
  const isPinned = trust.pubkeys !== undefined && trust.pubkeys.length > 0
  if (!isPinned && (await recall(trust.stateFile, client.baseUrl)) === undefined)
    await verifyLedger({ client, trust })
  const receipt = await withOwnCosignatures(client, trust, await client.receipt(recordId))
  const { result, text } = await check(['receipt', ...trustArguments(trust, client.baseUrl)], {
    receipt: { ...receipt, ok: true },
    consistency: askConsistency(client),
  })
  const isOther = receipt.id !== recordId
  return {
    ok: result.ok && !isOther,
    verdict: isOther ? 'broken' : result.verdict,
    reasons: isOther ? [...reasonsOf(result), 'wrong_record'] : reasonsOf(result),
    text,
  }
}
