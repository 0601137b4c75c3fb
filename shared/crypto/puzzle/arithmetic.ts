import type { Task } from '../puzzle.ts'
import type { SeededNumbers } from './seeded-numbers.ts'

const UNITS =
  'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen'.split(
    ' ',
  )
const TENS = ['', '', 'twenty', 'thirty', 'forty', 'fifty', 'sixty', 'seventy', 'eighty', 'ninety']

/**
 * Spells a number from 0 to 999 in English words: 317 is "three hundred seventeen", without "and", which
 * would read like a plus.
 */
function spellNumber(value: number): string {
  if (value >= 100) {
    const rest = value % 100
    return `${UNITS[Math.floor(value / 100)]} hundred${rest === 0 ? '' : ` ${spellNumber(rest)}`}`
  }
  if (value < 20) return UNITS[value] ?? ''
  const unit = value % 10
  return `${TENS[Math.floor(value / 10)]}${unit === 0 ? '' : `-${UNITS[unit]}`}`
}

/**
 * Makes a calculation with four spelled-out numbers and one multiplication. Results lie between 105 and
 * 15,090.
 */
export function makeArithmetic(numbers: SeededNumbers): Task {
  const a = numbers.between(100, 799)
  const b = numbers.between(21, 99)
  const c = numbers.between(4, 19)
  const d = numbers.between(10, 79)
  const [wordA, wordB, wordC, wordD] = [a, b, c, d].map(spellNumber)
  const precedence = numbers.pick([
    'Multiplication comes before addition and subtraction.',
    'Multiply first, then add and subtract from left to right.',
  ])
  const forms: readonly { question: string; result: number }[] = [
    {
      question: `What is ${wordA} plus ${wordB} times ${wordC} minus ${wordD}? ${precedence}`,
      result: a + b * c - d,
    },
    {
      question: `Work out ${wordB} times ${wordC} plus ${wordA} minus ${wordD}. ${precedence}`,
      result: b * c + a - d,
    },
    {
      question: `What is ${wordA} minus ${wordD} plus ${wordC} times ${wordB}? ${precedence}`,
      result: a - d + c * b,
    },
    {
      question:
        `Start with ${wordA}, then subtract ${wordD}, then multiply by ${wordC}, then add ${wordB}. ` +
        'Each step works on the result of the step before it. What is the last result?',
      result: (a - d) * c + b,
    },
    {
      question:
        `Start with ${wordB}, then add ${wordD}, then multiply by ${wordC}, then add ${wordA}. ` +
        'Each step works on the result of the step before it. What is the last result?',
      result: (b + d) * c + a,
    },
  ]
  const { question, result } = numbers.pick(forms)
  return { question, answer_format: 'a decimal integer in digits, such as 1204', answer: String(result) }
}
