import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hexToBytes } from '@noble/hashes/utils.js'
import { describe, expect, it } from 'vitest'
import { solvePuzzle } from '../../client/puzzle-solver.ts'
import { createSeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import { WORDS } from '../../shared/crypto/puzzle/word-list.ts'
import {
  isRightAnswer,
  makePuzzle,
  makePuzzleOfKind,
  PUZZLE_KINDS,
  PUZZLE_VERSION,
  type Puzzle,
  type PuzzleKind,
} from '../../shared/crypto/puzzle.ts'
import { FULL } from '../support/full.ts'

const SEEDS_PER_KIND = FULL ? 100_000 : 2_000

const ANSWER_FORMS: Readonly<Record<PuzzleKind, RegExp>> = {
  arithmetic: /^[1-9]\d{2,4}$/,
  'sort-words': /^[a-z]+(-[a-z]+){6}$/,
  'decode-hex': /^[a-z]+-[a-z]+-\d{3}$/,
}

function seedFor(label: string, index: number): Uint8Array {
  return hash('sha256', `${label} ${index}`, 'buffer')
}

type VectorFile = { version: number; cases: (Puzzle & { seed: string })[] }
const vectors = JSON.parse(
  readFileSync(new URL('../vectors/valid/puzzle-v2.json', import.meta.url), 'utf8'),
) as VectorFile

describe('a puzzle', () => {
  it('is the one on file for each seed of the vectors, so the generator can not drift without a new version', () => {
    expect(vectors.version).toBe(PUZZLE_VERSION)
    expect(new Set(vectors.cases.map(({ kind }) => kind))).toEqual(new Set(PUZZLE_KINDS))
    for (const { seed, ...puzzle } of vectors.cases) {
      expect(makePuzzle(hexToBytes(seed))).toEqual(puzzle)
    }
  })

  it('is of each kind about equally often', () => {
    const counts = new Map<string, number>()
    for (let i = 0; i < 3_000; i++) {
      const { kind } = makePuzzle(seedFor('kinds', i))
      counts.set(kind, (counts.get(kind) ?? 0) + 1)
    }
    for (const kind of PUZZLE_KINDS) {
      expect(counts.get(kind), kind).toBeGreaterThan(850)
      expect(counts.get(kind), kind).toBeLessThan(1_150)
    }
  })

  // holds: rules.registration.statements.post_register_hands_in_challenge_id
  it('forgives white space around the answer and its case, and nothing else', () => {
    const puzzle = { answer: 'amber-birch' }
    expect(isRightAnswer(puzzle, 'amber-birch')).toBe(true)
    expect(isRightAnswer(puzzle, ' \tAmber-BIRCH\r\n')).toBe(true)
    for (const wrong of ['', 'amber birch', 'amber-birch.', 'amber -birch', 'amber', 'birch-amber']) {
      expect(isRightAnswer(puzzle, wrong), wrong).toBe(false)
    }
  })

  it('asks for a seed of exactly 32 bytes', () => {
    expect(() => makePuzzle(new Uint8Array(31))).toThrow('"seed" expected 32 bytes, got 31')
    expect(() => makePuzzleOfKind('arithmetic', new Uint8Array(33))).toThrow(
      '"seed" expected 32 bytes, got 33',
    )
  })
})

describe.each(PUZZLE_KINDS)('puzzles of kind %s', (kind) => {
  it(`are solved from their text, have one answer of the stated form, and differ from seed to seed (${SEEDS_PER_KIND} seeds)`, () => {
    const questions = new Set<string>()
    const timesAnswered = new Map<string, number>()
    for (let i = 0; i < SEEDS_PER_KIND; i++) {
      const { answer, ...shown } = makePuzzleOfKind(kind, seedFor(kind, i))
      const solved = solvePuzzle(shown)
      // Plain comparisons first: an expectation object each time would cost more than the puzzle.
      if (solved !== answer) expect(solved, shown.question).toBe(answer)
      if (!ANSWER_FORMS[kind].test(answer)) expect(answer, shown.question).toMatch(ANSWER_FORMS[kind])
      if (!/^[\x20-\x7e]{20,700}$/.test(shown.question))
        expect(shown.question).toBe('20 to 700 printable ASCII characters')
      questions.add(shown.question)
      timesAnswered.set(answer, (timesAnswered.get(answer) ?? 0) + 1)
    }
    expect(questions.size).toBeGreaterThanOrEqual(SEEDS_PER_KIND * 0.999)
    expect(timesAnswered.size).toBeGreaterThan(1_000)
    expect(Math.max(...timesAnswered.values())).toBeLessThanOrEqual(SEEDS_PER_KIND * 0.005)
  }, 600_000)

  it('show an example answer that has the stated form without being an answer', () => {
    const { answer_format: answerFormat, answer } = makePuzzleOfKind(kind, seedFor(kind, 0))
    expect(answerFormat).toMatch(/such as \S+/)
    expect(answerFormat).not.toContain(answer)
  })
})

describe('the solver', () => {
  it.each([
    [
      'arithmetic',
      'What is seventeen plus four times nine minus two? Multiplication comes before addition.',
      '51',
    ],
    [
      'arithmetic',
      'Start with nine hundred, then subtract one hundred one, then multiply by twenty-two, then add forty. What is it?',
      '17618',
    ],
    ['decode-hex', 'Decode these hexadecimal bytes as ASCII text: 6F 61 6b', 'oak'],
  ])('reads a hand-written question of kind %s: %s', (kind, question, answer) => {
    expect(solvePuzzle({ kind, question, answer_format: '' })).toBe(answer)
  })

  it('says that it does not know a kind, and gives the question for somebody who does', () => {
    const riddle = { question: 'What has keys and opens nothing?', answer_format: 'one word' }
    for (const kind of ['riddle', 'toString', '__proto__', '']) {
      expect(() => solvePuzzle({ kind, ...riddle })).toThrow(
        `this client can't solve puzzles of kind "${kind}"`,
      )
    }
    expect(() => solvePuzzle({ kind: 'riddle', ...riddle })).toThrow('What has keys and opens nothing?')
  })

  it('refuses wording that it can not read, instead of guessing', () => {
    for (const kind of PUZZLE_KINDS) {
      expect(
        () => solvePuzzle({ kind, question: 'Please do something else entirely.', answer_format: '' }),
        kind,
      ).toThrow(/^this client can't/)
    }
  })
})

describe('the word list', () => {
  it('holds plain words, none of them the beginning of another, in alphabetical order', () => {
    expect(WORDS.filter((word) => !/^[a-z]{3,9}$/.test(word))).toEqual([])
    expect(WORDS.filter((word, i) => WORDS[i + 1]?.startsWith(word))).toEqual([])
    expect([...new Set(WORDS)].sort()).toEqual(WORDS)
  })
})

describe('seeded numbers', () => {
  it('are even over a bound that does not divide 2^32', () => {
    const numbers = createSeededNumbers('test:', new Uint8Array(32))
    const counts = [0, 0, 0]
    // 3 * 2^30: without throwing words away, the lowest third would come twice as often as the others.
    for (let i = 0; i < 9_000; i++) {
      const third = Math.floor(numbers.below(3 * 2 ** 30) / 2 ** 30)
      counts[third] = (counts[third] ?? 0) + 1
    }
    for (const count of counts) expect(Math.abs(count - 3_000)).toBeLessThan(200)
  })

  it('refuse a bound that they can not serve', () => {
    const numbers = createSeededNumbers('test:', new Uint8Array(32))
    for (const bound of [0, -1, 1.5, 2 ** 32 + 1, Number.NaN])
      expect(() => numbers.below(bound)).toThrow('"bound" expected')
    expect(() => numbers.pick([])).toThrow('expected at least one item')
    expect(() => numbers.take([1, 2], 3)).toThrow('expected at most 2, got 3')
  })
})
