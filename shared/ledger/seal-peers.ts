import { readBounded } from '../platform/http.ts'
import { z } from 'zod'
import type { Config } from '../platform/config.ts'
import { sealPayloadHash, verifySealSignature, type Seal } from '../crypto/seal-payload.ts'
import { MAX_PEER_ANSWER_BYTES, PEER_PAUSE_MS, PEER_TIMEOUT_MS } from '../platform/limits.ts'

/*
 * A host that was restored as a whole, database and seal memory from one copy, has forgotten what it signed
 * since; others have not. Before the first signature after a start, the signer reads what they remember.
 */

/**
 * A service outside this host that publishes the chain; after each start it is asked until it has answered.
 */
export interface SealPeer {
  readonly url: string
  /** Named in SEAL_PEERS: nothing is signed before it has answered. */
  readonly isNamed: boolean
  /** True once its answer was found to agree with the database: then it isn't asked again. */
  readonly hasAgreed: boolean
  /** Whether it didn't answer when it was asked last. */
  readonly isAway: boolean
  /** Whether it may be asked now: not during the pause after a failure, which doubles each time. */
  canBeAsked(): boolean
  /**
   * Fetches the seals of its `GET /seal`. Only their `seq` is checked here.
   *
   * @throws Error if it doesn't answer in time and in form; then it is given a pause
   */
  ask(): Promise<Seal[]>
  /** Sets `hasAgreed`. */
  markAgreed(): void
}

const answerForm = z.object({ seals: z.array(z.looseObject({ seq: z.int().min(1) })) })

/** The peers of SEAL_PEERS, after this service's own public URL if that is set and not among them. */
export function createSealPeers({
  publicUrl,
  sealPeers,
}: Pick<Config, 'publicUrl' | 'sealPeers'>): SealPeer[] {
  const named = sealPeers.map((url) => createPeer(url, true))
  if (publicUrl === undefined || sealPeers.includes(publicUrl)) return named
  return [createPeer(publicUrl, false), ...named]
}

/** A peer that was not asked yet. @param isNamed whether SEAL_PEERS names it */
function createPeer(url: string, isNamed: boolean): SealPeer {
  let hasAgreed = false
  let isAway = false
  let pauseMs: number = PEER_PAUSE_MS.first
  let dueAt = -Infinity
  return {
    url,
    isNamed,
    get hasAgreed() {
      return hasAgreed
    },
    get isAway() {
      return isAway
    },
    canBeAsked: () => performance.now() >= dueAt,
    async ask() {
      try {
        const { seals } = answerForm.parse(JSON.parse(await readText(`${url}/seal`)))
        isAway = false
        return seals as unknown as Seal[]
      } catch (error) {
        isAway = true
        dueAt = performance.now() + pauseMs
        pauseMs = Math.min(2 * pauseMs, PEER_PAUSE_MS.longest)
        throw error
      }
    },
    markAgreed() {
      hasAgreed = true
    },
  }
}

/**
 * Fetches a text.
 *
 * @throws Error if there is no answer in time, its status is no success, or it is too long
 */
async function readText(url: string): Promise<string> {
  const answer = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(PEER_TIMEOUT_MS) })
  if (!answer.ok || answer.body === null) throw new Error(`it answered ${answer.status}`)
  return readBounded(
    answer,
    MAX_PEER_ANSWER_BYTES,
    () => new Error(`its answer is longer than ${MAX_PEER_ANSWER_BYTES} bytes`),
  )
}

/**
 * Returns those of a peer's seals that the key `pubkey` (hex) has signed and that aren't known here. Seals
 * without a valid signature are left out: anyone can make them up.
 *
 * @param ours gives the payload hash that is known here for a seq; undefined if there is none
 */
export function findUnknownSeals(
  theirs: readonly Seal[],
  ours: (seq: number) => string | undefined,
  pubkey: string,
): Seal[] {
  return theirs.filter((seal) => {
    if (!seal.signed || seal.pubkey !== pubkey) return false
    try {
      // The hash first: verifying the signature takes longer.
      return sealPayloadHash(seal) !== ours(seal.seq) && verifySealSignature(seal).ok
    } catch {
      return false
    }
  })
}
