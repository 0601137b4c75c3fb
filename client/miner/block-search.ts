/** Searches blocks in WebAssembly with 128-bit vectors, if the runtime supports them. */
import { isShare } from '../../shared/crypto/pow.ts'
import { assertArguments, formatNonce, searchBlockPlainly, type SearchBlock } from './block.ts'
import { BLOCK_PASSES, generateSearchModule, HITS, LANES, writeBlock, writeTables } from './sha256-simd.ts'
import { canRunSimd, instantiate } from './wasm-module.ts'

type SearchExports = {
  memory: { buffer: ArrayBuffer }
  search: (firstPass: number, endPass: number) => number
}

/** Makes a search by WebAssembly with 128-bit vectors if this runtime has them, else by plain hashing. */
export const createSearch = (): SearchBlock => (canRunSimd() ? createSimdSearch() : searchBlockPlainly)

/** Makes a search by WebAssembly. What it finds is hashed again by node:crypto. */
export function createSimdSearch(): SearchBlock {
  const { memory, search } = instantiate<SearchExports>(generateSearchModule())
  const words = new Uint32Array(memory.buffer)
  writeTables(words)
  return (prefix, head, difficultyBits) => {
    assertArguments(prefix, head, difficultyBits)
    writeBlock(words, prefix, head, difficultyBits)
    const candidates = readHits(words.subarray(HITS / 4, search(0, BLOCK_PASSES) / 4), head)
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
