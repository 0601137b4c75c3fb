import { RefusalError, TransportError } from './errors.ts'
import type { Client } from './client.ts'
import type { SealTrust } from './own-ledger.ts'
import { check, type Verification } from './seal-verify.mjs'

/** What became of a record's receipt, checked here. */
export interface VerifiedReceipt {
  /** Every entry stands under a seal of a key that is pinned or remembered, and everything holds. */
  ok: boolean
  verdict: Verification['verdict']
  /** Why not: words such as `waiting` (no seal yet), `key_unknown`, or what does not hold. */
  reasons: string[]
  /** The verifier's lines, safe for a terminal. */
  text: string
}

/**
 * Fetches the receipt of a record and verifies it on this side, without trusting the service.
 *
 * @param trust where the verifier remembers the service, and keys that you know to be its own; without
 *   `pubkeys` the first check ends with `key_unknown` and remembers the key
 * @throws RefusalError and TransportError as the client does
 */
export async function verifyReceipt(options: {
  client: Client
  recordId: string
  trust: SealTrust
}): Promise<VerifiedReceipt> {
  const { client, recordId, trust } = options
  const receipt = await client.receipt(recordId)
  const { result, text } = await check(
    [
      'receipt',
      '--state',
      trust.stateFile,
      '--service',
      client.baseUrl,
      ...(trust.pubkeys ?? []).flatMap((key) => ['--pubkey', key]),
    ],
    {
      receipt: { ...receipt, ok: true },
      consistency: async (from, to) => {
        try {
          return await client.consistency({ from, to })
        } catch (error) {
          if (error instanceof RefusalError || error instanceof TransportError) return undefined
          throw error
        }
      },
    },
  )
  const reasons = [...(result.findings ?? []), ...(result.not_binding ?? [])].map(({ reason }) => reason)
  const isOther = receipt.id !== recordId
  return {
    ok: result.ok && !isOther,
    verdict: isOther ? 'broken' : result.verdict,
    reasons: isOther ? [...reasons, 'wrong_record'] : reasons,
    text,
  }
}
