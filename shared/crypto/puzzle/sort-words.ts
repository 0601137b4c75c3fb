import type { Task } from '../puzzle.ts'
import type { SeededNumbers } from './seeded-numbers.ts'
import { listWords, WORDS } from './word-list.ts'

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
    answer_format: 'lower-case words joined by hyphens, such as amber-birch-copper',
    answer: order.join('-'),
  }
}
