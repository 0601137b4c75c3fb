import type { Task } from '../puzzle.ts'
import type { SeededNumbers } from './seeded-numbers.ts'

const COLOURS = 'red blue green yellow black white grey brown orange purple pink'.split(' ')
const SCALES = [
  { thing: 'box', things: 'boxes', more: 'heavier', less: 'lighter', most: 'heaviest', least: 'lightest' },
  { thing: 'tower', things: 'towers', more: 'taller', less: 'shorter', most: 'tallest', least: 'shortest' },
  { thing: 'boat', things: 'boats', more: 'faster', less: 'slower', most: 'fastest', least: 'slowest' },
  { thing: 'clock', things: 'clocks', more: 'older', less: 'newer', most: 'oldest', least: 'newest' },
] as const

/**
 * Makes the task to put seven things in order from eight comparisons: the six of neighbours, which determine
 * the order, and two that follow from them.
 */
export function makeOrdering(numbers: SeededNumbers): Task {
  const scale = numbers.pick(SCALES)
  const order = numbers.take(COLOURS, 7)
  const pairs = order.flatMap((_, upper) =>
    order.slice(upper + 1).map((_, i) => [upper, upper + 1 + i] as const),
  )
  const neighbours = pairs.filter(([upper, lower]) => lower === upper + 1)
  const implied = pairs.filter(([upper, lower]) => lower > upper + 1)
  const clues = numbers
    .shuffle([...neighbours, ...numbers.take(implied, 2)])
    .map(([upper, lower]) =>
      numbers.below(2) === 0
        ? `The ${order[upper]} ${scale.thing} is ${scale.more} than the ${order[lower]} ${scale.thing}.`
        : `The ${order[lower]} ${scale.thing} is ${scale.less} than the ${order[upper]} ${scale.thing}.`,
    )
  const task = numbers.pick([
    { ask: `from the ${scale.most} to the ${scale.least}`, answer: order },
    { ask: `from the ${scale.least} to the ${scale.most}`, answer: [...order].reverse() },
  ])
  return {
    question: `${clues.join(' ')} List the colours of the seven ${scale.things} ${task.ask}, joined by hyphens.`,
    answer_format: 'lower-case colours joined by hyphens, such as red-blue-green',
    answer: task.answer.join('-'),
  }
}

/**
 * Makes the task to tell which of twelve robots tell the truth: each always lies or always tells the truth.
 * One's nature is given, and that of the others follows from eleven statements that robots make about each
 * other. All 4,096 cases are equally likely.
 */
export function makeTruthTellers(numbers: SeededNumbers): Task {
  const names = [...'ABCDEFGHIJKL']
  const root = numbers.pick(names)
  const truthful = new Map<string, boolean>([[root, numbers.below(2) === 0]])
  const statements = numbers.shuffle(names.filter((name) => name !== root)).map((about) => {
    const [speaker, speakerIsTruthful] = numbers.pick([...truthful])
    const claimsTruthful = numbers.below(2) === 0
    truthful.set(about, claimsTruthful === speakerIsTruthful)
    return `${speaker} says that ${about} ${claimsTruthful ? 'tells the truth' : 'lies'}.`
  })
  const wantTruthful = numbers.below(2) === 0
  const answer = names.filter((name) => truthful.get(name) === wantTruthful).map((name) => name.toLowerCase())
  return {
    question:
      `Twelve robots are called A to L. Each of them either always tells the truth or always lies. ${numbers.shuffle(statements).join(' ')} ` +
      `${root} ${truthful.get(root) === true ? 'always tells the truth' : 'always lies'}. ` +
      `Which robots ${wantTruthful ? 'tell the truth' : 'lie'}? Send their letters in alphabetical order, joined by hyphens, or the word none.`,
    answer_format: 'letters in alphabetical order joined by hyphens, such as a-d-k, or the word none',
    answer: answer.length === 0 ? 'none' : answer.join('-'),
  }
}
