/** Searches blocks in WebAssembly with 128-bit vectors, if the runtime supports them. */
import { hash } from 'node:crypto'
import { findShares, isShare } from '../../shared/crypto/pow.ts'
import { assertArguments, formatNonce, HEAD_LENGTH, searchBlockPlainly, type SearchBlock } from './block.ts'
import { BLOCK_PASSES, generateSearchModule, HITS, LANES, writeBlock, writeTables } from './sha256-simd.ts'
import { canRunSimd, instantiate } from './wasm-module.ts'

type SearchExports = {
  memory: { buffer: ArrayBuffer }
  search: (firstPass: number, endPass: number) => number
}

const SELF_CHECK_PASSES = 64
const SELF_CHECK_BITS = 4

/** Makes a search by WebAssembly with 128-bit vectors if this runtime has them, else by plain hashing. */
export const createSearch = (): SearchBlock => (canRunSimd() ? createSimdSearch() : searchBlockPlainly)

/**
 * Makes a search by WebAssembly: compiles the vector code and compares it with node:crypto.
 *
 * @throws Error if the two differ
 */
export function createSimdSearch(): SearchBlock {
  const { memory, search } = instantiate<SearchExports>(generateSearchModule())
  const words = new Uint32Array(memory.buffer)
  writeTables(words)
  const findCandidates = (prefix: string, head: string, bits: number, endPass: number): string[] => {
    writeBlock(words, prefix, head, bits)
    return readHits(words.subarray(HITS / 4, search(0, endPass) / 4), head)
  }
  checkAgainstPlatform(findCandidates)
  return (prefix, head, difficultyBits) => {
    assertArguments(prefix, head, difficultyBits)
    const candidates = findCandidates(prefix, head, difficultyBits, BLOCK_PASSES)
    // The vectors check no more than the first 32 bits.
    return candidates.filter((nonce) => isShare(prefix, nonce, difficultyBits))
  }
}

/** The nonces that the hits stand for; each hit is a pass with a bit for each of its four nonces. */
function readHits(hits: Uint32Array, head: string): string[] {
  const nonces: string[] = []
  for (const hit of hits)
    for (let lane = 0; lane < LANES; lane++)
      if ((hit >> lane) & 1) nonces.push(formatNonce(head, (hit >> LANES) * LANES + lane))
  return nonces
}

/**
 * Compares a search of 256 nonces with node:crypto's, so that a faulty vector unit or compiler doesn't mine
 * in vain.
 *
 * @throws Error if they differ
 */
function checkAgainstPlatform(
  find: (prefix: string, head: string, bits: number, endPass: number) => string[],
): void {
  const prefix = hash('sha256', '', 'hex').slice(0, 32)
  const head = '0'.repeat(HEAD_LENGTH)
  const nonces = Array.from({ length: SELF_CHECK_PASSES * LANES }, (_, index) => formatNonce(head, index))
  const expected = findShares(prefix, nonces, SELF_CHECK_BITS)
  const found = find(prefix, head, SELF_CHECK_BITS, SELF_CHECK_PASSES)
  if (found.join() !== expected.join())
    throw new Error('the vector search and node:crypto disagree about SHA-256')
}
