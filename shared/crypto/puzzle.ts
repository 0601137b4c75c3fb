import { makeArithmetic } from './puzzle/arithmetic.ts'
import { makeDateAfter, makeDaysBetween } from './puzzle/dates.ts'
import { makeDecodeBase64, makeDecodeHex } from './puzzle/decoding.ts'
import { makeOrdering, makeTruthTellers } from './puzzle/logic.ts'
import { seedNumbers, type SeededNumbers } from './puzzle/seeded-numbers.ts'
import {
  makeCountLetters,
  makePickWords,
  makeReverseWords,
  makeSortWords,
  makeTallyWords,
} from './puzzle/words.ts'

/**
 * Version of the generator. It goes up with any change by which a seed could give another question or answer:
 * a challenge names the version that made it, and test/vectors/valid/puzzle-v1.json holds this one in place.
 */
export const PUZZLE_VERSION = 1

const SEED_BYTES = 32

/**
 * What a maker gives: the task in English, the form of its answer, and the one right answer (trimmed
 * lower-case ASCII).
 */
export type Task = { question: string; answer_format: string; answer: string }

export type Puzzle = Task & { kind: PuzzleKind }

/** The order is part of the version: a kind is drawn by its place. */
const MAKERS = {
  arithmetic: makeArithmetic,
  'sort-words': makeSortWords,
  'tally-words': makeTallyWords,
  'count-letters': makeCountLetters,
  'pick-words': makePickWords,
  'reverse-words': makeReverseWords,
  'decode-hex': makeDecodeHex,
  'decode-base64': makeDecodeBase64,
  'days-between': makeDaysBetween,
  'date-after': makeDateAfter,
  ordering: makeOrdering,
  'truth-tellers': makeTruthTellers,
} satisfies Record<string, (numbers: SeededNumbers) => Task>

export type PuzzleKind = keyof typeof MAKERS

export const PUZZLE_KINDS = Object.keys(MAKERS) as readonly PuzzleKind[]

/**
 * The puzzle of a seed, the same for the same seed: `{kind, question, answer_format, answer}`. Everything but
 * `answer` may be shown; it tells nothing about the seed.
 * @param seed 32 bytes that nobody can predict, an HMAC of the challenge's bytes
 * @throws when the seed is not 32 bytes
 * Source: decisions.md, "Registration".
 */
export function makePuzzle(seed: Uint8Array): Puzzle {
  const numbers = startNumbers(seed)
  return make(numbers.pick(PUZZLE_KINDS), numbers)
}

/** The puzzle of a kind and a seed; not the one that {@link makePuzzle} makes of the same seed. */
export function makePuzzleOfKind(kind: PuzzleKind, seed: Uint8Array): Puzzle {
  return make(kind, startNumbers(seed))
}

/** Compares after trimming and lower-casing; nothing else is forgiven. */
export function isRightAnswer(puzzle: Pick<Puzzle, 'answer'>, answer: string): boolean {
  return answer.trim().toLowerCase() === puzzle.answer
}

function startNumbers(seed: Uint8Array): SeededNumbers {
  if (!(seed instanceof Uint8Array) || seed.length !== SEED_BYTES) {
    throw new Error(
      `"seed" expected ${SEED_BYTES} bytes, got ${seed instanceof Uint8Array ? seed.length : typeof seed}`,
    )
  }
  return seedNumbers(`puzzle-v${PUZZLE_VERSION}:`, seed)
}

function make(kind: PuzzleKind, numbers: SeededNumbers): Puzzle {
  return { kind, ...MAKERS[kind](numbers) }
}
