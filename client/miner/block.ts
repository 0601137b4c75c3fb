/**
 * A block is 65,536 nonces that share their first 15 characters, the head, and differ in the last four, which are hex
 * digits.
 */
import { randomInt } from 'node:crypto'
import { assertDifficultyBits, assertPrefix, findShares } from '../../shared/crypto/pow.ts'

export const HEAD_LENGTH = 15
export const TAIL_LENGTH = 4
export const BLOCK_NONCES = 16 ** TAIL_LENGTH
const HEAD_FORM = /^[0-9a-z]{15}$/

/**
 * Every share among the block's nonces, in ascending order.
 *
 * @throws Error for a malformed prefix or difficulty, or a head that is not 15 characters of 0-9 a-z
 */
export type SearchBlock = (prefix: string, head: string, difficultyBits: number) => string[]

/**
 * The head of a block at random, out of 1.7e21, so that two threads or runs hardly ever search the same one. Its last 6
 * characters are hex digits: the native search counts on from there.
 */
export const drawHead = (): string =>
  Array.from({ length: HEAD_LENGTH }, (_, place) => {
    const base = place < HEAD_LENGTH - 6 ? 36 : 16
    return randomInt(base).toString(base)
  }).join('')

/** Nonce number `index` of the head's block. */
export const formatNonce = (head: string, index: number): string =>
  head + index.toString(16).padStart(TAIL_LENGTH, '0')

export function assertArguments(prefix: string, head: string, difficultyBits: number): void {
  assertPrefix(prefix)
  assertDifficultyBits(difficultyBits)
  if (!HEAD_FORM.test(head)) throw new Error(`"head" must be ${HEAD_LENGTH} characters of 0-9 a-z`)
}

/** Searches a block with the platform's hash, one nonce after the other. */
export const searchBlockPlainly: SearchBlock = (prefix, head, difficultyBits) => {
  assertArguments(prefix, head, difficultyBits)
  const nonces = Array.from({ length: BLOCK_NONCES }, (_, index) => formatNonce(head, index))
  return findShares(prefix, nonces, difficultyBits)
}
