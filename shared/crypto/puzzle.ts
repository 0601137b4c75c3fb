import { makeArithmetic } from './puzzle/arithmetic.ts'
import { makeDecodeHex } from './puzzle/decode-hex.ts'
import { createSeededNumbers, type SeededNumbers } from './puzzle/seeded-numbers.ts'
import { makeSortWords } from './puzzle/sort-words.ts'

/**
 * Version of the generator, which each challenge names. It goes up with any change by which a seed could give
 * another question or answer; test/vectors/valid/puzzle-v2.json fixes this version's.
 */
export const PUZZLE_VERSION = 2

const SEED_BYTES = 32

/**
 * What a maker gives: the task in English, the form of its answer, and the one right answer (trimmed
 * lower-case ASCII).
 */
export type Task = { question: string; answer_format: string; answer: string }

export type Puzzle = Task & { kind: PuzzleKind }

/** The order is part of the version: a kind is drawn by its index. */
const MAKERS = {
  arithmetic: makeArithmetic,
  'sort-words': makeSortWords,
  'decode-hex': makeDecodeHex,
} satisfies Record<string, (numbers: SeededNumbers) => Task>

export type PuzzleKind = keyof typeof MAKERS

export const PUZZLE_KINDS = Object.keys(MAKERS) as readonly PuzzleKind[]

/**
 * Makes the puzzle of a seed, always the same for the same seed. Everything but `answer` may be shown: it
 * reveals nothing about the seed.
 *
 * @param seed 32 bytes that nobody can predict, an HMAC of the challenge's bytes
 * @throws Error if the seed is not 32 bytes
 */
export function makePuzzle(seed: Uint8Array): Puzzle {
  const numbers = startNumbers(seed)
  return make(numbers.pick(PUZZLE_KINDS), numbers)
}

/**
 * Makes a puzzle of the given kind. It isn't the one that {@link makePuzzle} makes from this seed, even if
 * that has the same kind.
 */
export function makePuzzleOfKind(kind: PuzzleKind, seed: Uint8Array): Puzzle {
  return make(kind, startNumbers(seed))
}

/** Whether an answer is right. It is trimmed and lower-cased first; nothing else is forgiven. */
export function isRightAnswer(puzzle: Pick<Puzzle, 'answer'>, answer: string): boolean {
  return answer.trim().toLowerCase() === puzzle.answer
}

/** The stream of numbers that a seed gives. @throws Error if the seed is not 32 bytes */
function startNumbers(seed: Uint8Array): SeededNumbers {
  if (!(seed instanceof Uint8Array) || seed.length !== SEED_BYTES) {
    throw new Error(
      `"seed" expected ${SEED_BYTES} bytes, got ${seed instanceof Uint8Array ? seed.length : typeof seed}`,
    )
  }
  return createSeededNumbers(`puzzle-v${PUZZLE_VERSION}:`, seed)
}

function make(kind: PuzzleKind, numbers: SeededNumbers): Puzzle {
  return { kind, ...MAKERS[kind](numbers) }
}
