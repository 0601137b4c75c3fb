import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import type { Task } from '../puzzle.ts'
import type { SeededNumbers } from './seeded-numbers.ts'
import { WORDS } from './word-list.ts'

const DECODED_TEXT =
  'the decoded text exactly: lower-case words and a number joined by hyphens, such as amber-birch-207'

/** Draws the text to decode: two words and a number joined by hyphens. */
function drawText(numbers: SeededNumbers): string {
  return `${numbers.take(WORDS, 2).join('-')}-${numbers.between(100, 999)}`
}

/** Makes the task to decode a text in hexadecimal. */
export function makeDecodeHex(numbers: SeededNumbers): Task {
  const text = drawText(numbers)
  const hex = bytesToHex(utf8ToBytes(text))
  const written = numbers.pick([hex, hex.toUpperCase(), (hex.match(/../g) ?? []).join(' ')])
  const question = numbers.pick([
    'Decode these hexadecimal bytes as ASCII text',
    'Which ASCII text is written here in hexadecimal, two digits a character',
  ])
  return { question: `${question}: ${written}`, answer_format: DECODED_TEXT, answer: text }
}

/** Makes the task to decode a text in Base64. */
export function makeDecodeBase64(numbers: SeededNumbers): Task {
  const text = drawText(numbers)
  const question = numbers.pick([
    'Decode this Base64 (RFC 4648, section 4) as ASCII text',
    'Which ASCII text is encoded here in standard Base64',
  ])
  return { question: `${question}: ${btoa(text)}`, answer_format: DECODED_TEXT, answer: text }
}
