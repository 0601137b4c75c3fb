import { readBounded } from '../foundation/http.ts'
import { z } from 'zod'
import type { Config } from '../foundation/config.ts'
import { sealPayloadHash, verifySealSignature, type Seal } from '../crypto/seal-payload.ts'
import { MAX_PEER_ANSWER_BYTES, PEER_PAUSE_MS, PEER_TIMEOUT_MS } from '../foundation/limits.ts'

/*
 * A host that was restored as a whole, database and seal memory from one copy, has forgotten what it signed
 * since; others have not. Before the first signature after a start, the signer reads what they remember.
 */

/** A service outside this host that publishes the chain; after each start it is asked until it has answered. */
export interface SealPeer {
  readonly url: string
  /** Named in SEAL_PEERS: nothing is signed before it has answered. */
  readonly isNamed: boolean
  /** True once settle() was called. */
  readonly isSettled: boolean
  /** False during the pause after a try that failed. */
  isDue(): boolean
  /**
   * Its `GET /seal`.
   *
   * @throws Error if it doesn't answer in time and in form; then it is not due for a while
   */
  ask(): Promise<Seal[]>
  /** Notes that its answer agrees with the database: it isn't asked again. */
  settle(): void
}

const answerForm = z.object({ seals: z.array(z.looseObject({ seq: z.int().min(1) })) })

export function createSealPeers({
  publicUrl,
  sealPeers,
}: Pick<Config, 'publicUrl' | 'sealPeers'>): SealPeer[] {
  const own = publicUrl === undefined || sealPeers.includes(publicUrl) ? [] : [createPeer(publicUrl, false)]
  return [...own, ...sealPeers.map((url) => createPeer(url, true))]
}

function createPeer(url: string, isNamed: boolean): SealPeer {
  let isSettled = false
  let pauseMs: number = PEER_PAUSE_MS.first
  let dueAt = -Infinity
  return {
    url,
    isNamed,
    get isSettled() {
      return isSettled
    },
    isDue: () => performance.now() >= dueAt,
    async ask() {
      try {
        return answerForm.parse(JSON.parse(await readText(`${url}/seal`))).seals as unknown as Seal[]
      } catch (error) {
        dueAt = performance.now() + pauseMs
        pauseMs = Math.min(2 * pauseMs, PEER_PAUSE_MS.longest)
        throw error
      }
    },
    settle() {
      isSettled = true
    },
  }
}

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
 * A peer's seals that this key has signed and that are not the ones stored here. Seals without a good
 * signature don't count: anyone can make them up.
 *
 * @param ours the payload hash that is stored here for a seq
 */
export function findUnknownSeals(
  theirs: readonly Seal[],
  ours: (seq: number) => string | undefined,
  pubkey: string,
): Seal[] {
  return theirs.filter((seal) => {
    if (!seal.signed || seal.pubkey !== pubkey) return false
    try {
      // The signature, which takes longer, only if it matters.
      return sealPayloadHash(seal) !== ours(seal.seq) && verifySealSignature(seal).ok
    } catch {
      return false
    }
  })
}
