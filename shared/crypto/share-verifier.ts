import {
  assertDifficultyBits,
  assertPrefix,
  findShares,
  isShare,
  MAX_NONCE_LENGTH,
  NONCE_FORM,
} from './pow.ts'
import { createSearchNonces, type SearchNonces } from './share-vector.ts'
import { canRunSimd } from './wasm-module.ts'

/** Fewer nonces are hashed as fast one by one. */
const MIN_VECTOR_NONCES = 16
/** How many leading bits the vector code checks. */
const VECTOR_BITS = 32

/** Compiled at the first use; null if this runtime has no vectors. */
let searchNonces: SearchNonces | null | undefined

/**
 * Returns those of `nonces` that are shares, in the order given, repetitions included: the same as
 * findShares(), but hashes four nonces at once if there are many and this runtime has vectors.
 *
 * @param text the nonces as one text with a character between two of them, if the caller has it: to make it
 *   takes a fifth of the time
 * @throws Error for a malformed `prefix` or `difficultyBits`
 */
export function verifyShares(
  prefix: string,
  nonces: readonly string[],
  difficultyBits: number,
  text?: string,
): string[] {
  assertPrefix(prefix)
  assertDifficultyBits(difficultyBits)
  if (searchNonces === undefined) searchNonces = canRunSimd() ? createSearchNonces() : null
  const search = searchNonces
  if (nonces.length < MIN_VECTOR_NONCES || search === null) return findShares(prefix, nonces, difficultyBits)
  // The vector code takes nonces of one length, and checks neither their characters nor more than 32 bits.
  const isFound = (nonce: string): boolean =>
    difficultyBits > VECTOR_BITS ? isShare(prefix, nonce, difficultyBits) : NONCE_FORM.test(nonce)
  const { length } = nonces[0] ?? ''
  if (isNonceLength(length) && nonces.every((nonce) => nonce.length === length)) {
    const shares: string[] = []
    for (const place of search(prefix, text ?? nonces.join(' '), length, difficultyBits)) {
      const nonce = nonces[place] ?? ''
      if (isFound(nonce)) shares.push(nonce)
    }
    return shares
  }
  const placesByLength = Map.groupBy(nonces.keys(), (place) => nonces[place]?.length ?? 0)
  const sharePlaces: number[] = []
  for (const [nonceLength, places] of placesByLength) {
    if (!isNonceLength(nonceLength)) continue
    const sameLength = places.map((place) => nonces[place] ?? '')
    for (const index of search(prefix, sameLength.join(' '), nonceLength, difficultyBits))
      if (isFound(sameLength[index] ?? '')) sharePlaces.push(places[index] ?? 0)
  }
  return sharePlaces.sort((a, b) => a - b).map((place) => nonces[place] ?? '')
}

const isNonceLength = (length: number): boolean => length >= 1 && length <= MAX_NONCE_LENGTH
