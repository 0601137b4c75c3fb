import { sha256 } from '@noble/hashes/sha2.js'
import { concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'

/**
 * An endless, reproducible stream of unbiased integers. The order of the draws is part of a puzzle's version.
 */
export type SeededNumbers = {
  /** An integer from 0 to `bound` - 1; `bound` is 1 to 2^32. */
  below(bound: number): number
  /** An integer from `low` to `high`, both included. */
  between(low: number, high: number): number
  /** One of the items. */
  pick<T>(items: readonly T[]): T
  /** `count` items from different indexes of the list, in random order. */
  take<T>(items: readonly T[], count: number): T[]
  /** All items in random order. */
  shuffle<T>(items: readonly T[]): T[]
}

const WORD_RANGE = 2 ** 32

/**
 * Creates the stream of a seed. It is SHA-256 in counter mode: block i is SHA-256(UTF-8(label) || seed ||
 * uint32be(i)), read as eight big-endian 32-bit words. Words that would bias a remainder are skipped.
 */
export function createSeededNumbers(label: string, seed: Uint8Array): SeededNumbers {
  const counter = new Uint8Array(4)
  const input = (blockIndex: number): Uint8Array => {
    new DataView(counter.buffer).setUint32(0, blockIndex)
    return concatBytes(utf8ToBytes(label), seed, counter) // label of up to 19 bytes: one SHA-256 block
  }
  let blockIndex = 0
  let words: number[] = []

  const nextWord = (): number => {
    if (words.length === 0) {
      const block = sha256(input(blockIndex++))
      const view = new DataView(block.buffer, block.byteOffset, block.byteLength)
      words = Array.from({ length: 8 }, (_, i) => view.getUint32(i * 4)).reverse()
    }
    return words.pop() ?? 0
  }

  const below = (bound: number): number => {
    if (!Number.isInteger(bound) || bound < 1 || bound > WORD_RANGE) {
      throw new Error(`"bound" expected an integer from 1 to 2^32, got ${bound}`)
    }
    const fair = WORD_RANGE - (WORD_RANGE % bound)
    for (;;) {
      const word = nextWord()
      if (word < fair) return word % bound
    }
  }

  const between = (low: number, high: number): number => low + below(high - low + 1)

  const pick = <T>(items: readonly T[]): T => {
    if (items.length === 0) throw new Error('"items" expected at least one item, got none')
    return items[below(items.length)] as T
  }

  const take = <T>(items: readonly T[], count: number): T[] => {
    if (count > items.length) throw new Error(`"count" expected at most ${items.length}, got ${count}`)
    const rest = [...items]
    return Array.from({ length: count }, () => rest.splice(below(rest.length), 1)[0] as T)
  }

  return { below, between, pick, take, shuffle: (items) => take(items, items.length) }
}
