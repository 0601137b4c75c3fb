import type { Task } from '../puzzle.ts'
import type { SeededNumbers } from './seeded-numbers.ts'
import { listWords, WORDS } from './word-list.ts'

const HYPHENATED_WORDS = 'lower-case words joined by hyphens, such as amber-birch-copper'
const HYPHENATED_NUMBERS = 'decimal integers joined by hyphens, such as 4-1-7'

/** Makes the task to sort seven words: alphabetically, in reverse, or by length. */
export function makeSortWords(numbers: SeededNumbers): Task {
  const words = numbers.take(WORDS, 7)
  const sorted = [...words].sort()
  const forms: readonly { question: string; order: string[] }[] = [
    { question: 'Sort these words alphabetically from a to z', order: sorted },
    { question: 'Put these words into alphabetical order, a first', order: sorted },
    { question: 'Sort these words in reverse alphabetical order, from z to a', order: [...sorted].reverse() },
    {
      question:
        'Sort these words by their number of letters, shortest first, and those of equal length alphabetically from a to z',
      order: [...sorted].sort((x, y) => x.length - y.length),
    },
  ]
  const { question, order } = numbers.pick(forms)
  return {
    question: `${question}, and join them with hyphens: ${listWords(words)}`,
    answer_format: HYPHENATED_WORDS,
    answer: order.join('-'),
  }
}

/**
 * Makes the task to count four words in a list. Each count is drawn evenly from 1 to 7, so the 2,401 answers
 * are equally likely.
 */
export function makeTallyWords(numbers: SeededNumbers): Task {
  const counted = numbers.take(WORDS, 4)
  const counts = counted.map(() => numbers.between(1, 7))
  const list = numbers.shuffle(counted.flatMap((word, i) => Array<string>(counts[i] ?? 0).fill(word)))
  const asked = listWords(counted)
  const question = numbers.pick([
    `How often does each of the words ${asked} stand in the list below? Give the four counts in that order, joined by hyphens.`,
    `Count the words ${asked} in the list below, and send the four counts in that order, joined by hyphens.`,
  ])
  return {
    question: `${question} The list: ${listWords(list)}`,
    answer_format: HYPHENATED_NUMBERS,
    answer: counts.join('-'),
  }
}

/** Makes the task to count the letters of eight words. */
export function makeCountLetters(numbers: SeededNumbers): Task {
  const words = numbers.take(WORDS, 8)
  const question = numbers.pick([
    'How many letters has each of these words? Give the numbers in the order of the words, joined by hyphens',
    'Replace each of these words by the number of its letters, keep the order, and join the numbers with hyphens',
  ])
  return {
    question: `${question}: ${listWords(words)}`,
    answer_format: HYPHENATED_NUMBERS,
    answer: words.map((word) => word.length).join('-'),
  }
}

/** Makes the task to pick five words from a list of twelve by their places. */
export function makePickWords(numbers: SeededNumbers): Task {
  const ordinals = 'first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth'.split(
    ' ',
  )
  const words = numbers.take(WORDS, ordinals.length)
  const places = numbers.take(
    ordinals.map((_, i) => i),
    5,
  )
  const spelled = places.map((place) => ordinals[place] ?? '')
  const question = numbers.pick([
    `From this list take the ${listWords(spelled)} word, in that order, and join them with hyphens`,
    `Counting from 1, take the words number ${places.map((place) => place + 1).join(', ')} of this list, in that order, and join them with hyphens`,
  ])
  return {
    question: `${question}: ${listWords(words)}`,
    answer_format: HYPHENATED_WORDS,
    answer: places.map((place) => words[place]).join('-'),
  }
}

/** Makes the task to spell four words backwards, in their order or the opposite one. */
export function makeReverseWords(numbers: SeededNumbers): Task {
  const words = numbers.take(WORDS, 4)
  const spelledBackwards = words.map((word) => [...word].reverse().join(''))
  const forms: readonly { question: string; result: string[] }[] = [
    {
      question:
        'Spell each of these words backwards, keep the words in their order, and join them with hyphens',
      result: spelledBackwards,
    },
    {
      question:
        'Spell each of these words backwards, put the words into the opposite order, last word first, and join them with hyphens',
      result: [...spelledBackwards].reverse(),
    },
  ]
  const { question, result } = numbers.pick(forms)
  return {
    question: `${question}: ${listWords(words)}`,
    answer_format: 'lower-case letters, the spelled-backwards words joined by hyphens, such as rebma-hcrib',
    answer: result.join('-'),
  }
}
