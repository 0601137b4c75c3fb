/** The puzzle of a challenge, as {@link solvePuzzle} reads it. */
export type PuzzleQuestion = { kind: string; question: string; answer_format: string }

const MONTH_NAMES =
  'january february march april may june july august september october november december'.split(' ')
const WEEKDAY_NAMES = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ')
const ORDINAL_NAMES =
  'first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth'.split(' ')
const SMALL_NUMBER_NAMES =
  'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen'.split(
    ' ',
  )
const TENS_NAMES = 'twenty thirty forty fifty sixty seventy eighty ninety'.split(' ')
const DAY_MS = 86_400_000

/**
 * By the kind of puzzle, the function that reads the question and gives the answer. Each throws if it can't.
 */
const SOLVERS: Readonly<Record<string, (question: string) => string>> = {
  arithmetic: solveArithmetic,
  'sort-words': sortWords,
  'tally-words': tallyWords,
  'count-letters': (question) =>
    readList(question)
      .map((word) => word.length)
      .join('-'),
  'pick-words': pickWords,
  'reverse-words': reverseWords,
  'decode-hex': decodeHex,
  'decode-base64': (question) =>
    Buffer.from(find(question, /: ([A-Za-z0-9+/]+=*)$/)[1] ?? '', 'base64').toString('ascii'),
  'days-between': daysBetween,
  'date-after': dateAfter,
  ordering: findOrder,
  'truth-tellers': findTruthTellers,
}

/**
 * Solves the puzzle of a registration challenge by reading its question.
 *
 * @returns the text to send as `answer`
 * @throws Error if the kind is unknown or the question is worded in a way this version can't read; the
 *   sentence holds the question, so that whoever runs the agent can answer it by hand
 */
export function solvePuzzle({ kind, question, answer_format: answerFormat }: PuzzleQuestion): string {
  const solve = Object.hasOwn(SOLVERS, kind) ? SOLVERS[kind] : undefined
  if (solve === undefined) {
    throw new Error(
      `this client can't solve puzzles of kind "${kind}" (it knows ${Object.keys(SOLVERS).join(', ')}). ` +
        `The question: ${question} The answer must be ${answerFormat}.`,
    )
  }
  // A service that gives no puzzle but a flood of text must not keep the agent searching it.
  if (question.length > MAX_QUESTION_LENGTH)
    throw new Error(
      `this client reads questions of at most ${MAX_QUESTION_LENGTH} characters, and this one has ${question.length}`,
    )
  return solve(question)
}

const MAX_QUESTION_LENGTH = 2_000

/** The first match of the pattern. @throws Error with the text if there is none */
function find(text: string, pattern: RegExp): RegExpExecArray {
  const match = pattern.exec(text)
  if (match === null)
    throw new Error(`this client can't read the question, it looked for ${String(pattern)} in: ${text}`)
  return match
}

/** The comma-separated words after the question's last colon. */
function readList(question: string): string[] {
  return (find(question, /: ([a-z, ]+)$/)[1] ?? '').split(', ')
}

/** A number in words, below a thousand: `two hundred twenty-one` → 221. @throws Error for another word */
function readNumber(words: string): number {
  let value = 0
  for (const word of words.split(/[ -]/)) {
    const small = SMALL_NUMBER_NAMES.indexOf(word)
    const tens = TENS_NAMES.indexOf(word)
    if (word === 'hundred') value *= 100
    else if (small >= 0) value += small
    else if (tens >= 0) value += (tens + 2) * 10
    else throw new Error(`this client can't read "${word}" as a part of a number`)
  }
  return value
}

/**
 * Computes either a chain of steps, "Start with five, then add two, then multiply by three.", or an
 * expression, "What is five plus two times three?", in which times comes before plus and minus.
 */
function solveArithmetic(question: string): string {
  if (question.startsWith('Start with')) {
    let result = readNumber(find(question, /^Start with ([a-z -]+),/)[1] ?? '')
    for (const [, verb, operand] of question.matchAll(/then (add|subtract|multiply by) ([a-z -]+)[,.]/g)) {
      const value = readNumber(operand ?? '')
      if (verb === 'add') result += value
      else if (verb === 'subtract') result -= value
      else result *= value
    }
    return String(result)
  }
  const expression = find(question, /^(?:What is|Work out) ([a-z -]+)[?.]/)[1] ?? ''
  const result = expression
    .replaceAll(' minus ', ' plus minus ')
    .split(' plus ')
    .map((term) => {
      const sign = term.startsWith('minus ') ? -1 : 1
      const factors = term.replace(/^minus /, '').split(' times ')
      return factors.map(readNumber).reduce((product, factor) => product * factor, sign)
    })
    .reduce((sum, term) => sum + term, 0)
  return String(result)
}

/** The listed words in the order that the question asks for, joined by `-`. */
function sortWords(question: string): string {
  const words = readList(question).sort()
  if (/reverse alphabetical/.test(question)) words.reverse()
  else if (/by their number of letters, shortest first/.test(question))
    words.sort((a, b) => a.length - b.length)
  else find(question, /alphabetical/)
  return words.join('-')
}

/** How often each of the words that are asked for stands in the list, joined by `-`. */
function tallyWords(question: string): string {
  const asked = (find(question, /words ([a-z, ]+?) (?:stand )?in the list/)[1] ?? '').split(', ')
  const list = readList(question)
  return asked.map((word) => list.filter((listed) => listed === word).length).join('-')
}

/** The words at the places that the question names, in words or in figures, joined by `-`. */
function pickWords(question: string): string {
  const list = readList(question)
  const [, ordinals, figures] = find(question, /take the (?:([a-z, ]+) word,|words number ([\d, ]+) of)/)
  const places =
    ordinals === undefined
      ? (figures ?? '').split(', ').map(Number)
      : ordinals.split(', ').map((ordinal) => ORDINAL_NAMES.indexOf(ordinal) + 1)
  return places
    .map((place) => {
      const word = list[place - 1]
      if (word === undefined) throw new Error(`this client can't find word number ${place} in: ${question}`)
      return word
    })
    .join('-')
}

/** Each listed word backwards, in the list's order or the opposite one, joined by `-`. */
function reverseWords(question: string): string {
  const words = readList(question)
  find(question, /words backwards/)
  if (/opposite order/.test(question)) words.reverse()
  return words.map((word) => [...word].reverse().join('')).join('-')
}

function decodeHex(question: string): string {
  const digits = find(question, /: ([0-9a-fA-F ]+)$/)[1] ?? ''
  return Buffer.from(digits.replaceAll(' ', ''), 'hex').toString('ascii')
}

/** Every date in the text, in order, as days since 1970-01-01. */
function readDates(text: string): number[] {
  return [...text.matchAll(/(\d{4})-(\d\d)-(\d\d)|(\d{1,2}) ([A-Z][a-z]+) (\d{4})/g)].map((match) => {
    const [, isoYear, isoMonth, isoDate, longDate, monthName = '', longYear] = match
    if (isoYear !== undefined)
      return Date.UTC(Number(isoYear), Number(isoMonth) - 1, Number(isoDate)) / DAY_MS
    return Date.UTC(Number(longYear), MONTH_NAMES.indexOf(monthName.toLowerCase()), Number(longDate)) / DAY_MS
  })
}

/** How many days the second date of the question is after the first. */
function daysBetween(question: string): string {
  const [first, last] = readDates(question)
  if (first === undefined || last === undefined)
    throw new Error(`this client can't find two dates in: ${question}`)
  return String(last - first)
}

/**
 * The date that the question asks for, some days after or before the one in it, with its weekday: `2030-01-31
 * thursday`.
 */
function dateAfter(question: string): string {
  const [start] = readDates(question)
  const [, span, direction] = find(question, /is (\d+) days (after|before)/)
  if (start === undefined) throw new Error(`this client can't find a date in: ${question}`)
  const date = new Date((direction === 'after' ? start + Number(span) : start - Number(span)) * DAY_MS)
  return `${date.toISOString().slice(0, 10)} ${WEEKDAY_NAMES[date.getUTCDay()]}`
}

/**
 * Orders things by clues such as "The red box is heavier than the blue box.": repeatedly takes the one that
 * no clue puts below another that remains.
 *
 * @returns the things' words, joined by `-`
 */
function findOrder(question: string): string {
  const [, scaleTop, scaleBottom] = find(question, /from the ([a-z]+)est to the ([a-z]+)est/)
  const clues = [...question.matchAll(/The ([a-z]+) [a-z]+ is ([a-z]+)r than the ([a-z]+) [a-z]+\./g)].map(
    ([, subject = '', comparison = '', other = '']) => {
      const stem = comparison.replace(/e$/, '')
      if (stem === scaleTop) return { upper: subject, lower: other }
      if (stem === scaleBottom) return { upper: other, lower: subject }
      throw new Error(`this client can't place "${comparison}r" in: ${question}`)
    },
  )
  const remaining = new Set(clues.flatMap(({ upper, lower }) => [upper, lower]))
  const order: string[] = []
  while (remaining.size > 0) {
    const tops = [...remaining].filter(
      (thing) => !clues.some(({ upper, lower }) => lower === thing && remaining.has(upper)),
    )
    const [top] = tops
    if (top === undefined || tops.length > 1)
      throw new Error(`this client finds no single order in: ${question}`)
    remaining.delete(top)
    order.push(top)
  }
  return order.join('-')
}

/**
 * Finds out who lies and who tells the truth, from one whose nature is given and from what each says of
 * another.
 *
 * @returns those that the question asks for, in lower case and sorted, joined by `-`; `none` if there is none
 */
function findTruthTellers(question: string): string {
  const [, root = '', rootNature] = find(question, /([A-Z]) always (lies|tells the truth)\. Which/)
  const statements = [...question.matchAll(/([A-Z]) says that ([A-Z]) (lies|tells the truth)\./g)]
  const truthful = new Map([[root, rootNature !== 'lies']])
  for (let known = 0; known < truthful.size;) {
    known = truthful.size
    for (const [, speaker = '', about = '', nature] of statements) {
      const speakerIsTruthful = truthful.get(speaker)
      if (speakerIsTruthful !== undefined) truthful.set(about, (nature !== 'lies') === speakerIsTruthful)
    }
  }
  const wanted = find(question, /Which robots (lie|tell the truth)\?/)[1] !== 'lie'
  const names = [...truthful]
    .filter(([, isTruthful]) => isTruthful === wanted)
    .map(([name]) => name.toLowerCase())
  return names.length === 0 ? 'none' : names.sort().join('-')
}
