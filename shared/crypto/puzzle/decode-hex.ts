import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import type { Task } from '../puzzle.ts'
import type { SeededNumbers } from './seeded-numbers.ts'
import { WORDS } from './word-list.ts'

/** Makes the task to decode a text in hexadecimal: two words and a number joined by hyphens. */
export function makeDecodeHex(numbers: SeededNumbers): Task {
  const text = `${numbers.take(WORDS, 2).join('-')}-${numbers.between(100, 999)}`
  const hex = bytesToHex(utf8ToBytes(text))
  const written = numbers.pick([hex, hex.toUpperCase(), (hex.match(/../g) ?? []).join(' ')])
  const question = numbers.pick([
    'Decode these hexadecimal bytes as ASCII text',
    'Which ASCII text is written here in hexadecimal, two digits a character',
  ])
  return {
    question: `${question}: ${written}`,
    answer_format:
      'the decoded text exactly: lower-case words and a number joined by hyphens, such as amber-birch-207',
    answer: text,
  }
}
