/** The puzzle of a challenge, as {@link solvePuzzle} reads it. */
export type PuzzleQuestion = { kind: string; question: string; answer_format: string }

const SMALL_NUMBER_NAMES =
  'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen'.split(
    ' ',
  )
const TENS_NAMES = 'twenty thirty forty fifty sixty seventy eighty ninety'.split(' ')

/** By the kind of puzzle, the function that reads the question and gives the answer. Each throws if it can't. */
const SOLVERS: Readonly<Record<string, (question: string) => string>> = {
  arithmetic: solveArithmetic,
  'sort-words': sortWords,
  'decode-hex': decodeHex,
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

function decodeHex(question: string): string {
  const digits = find(question, /: ([0-9a-fA-F ]+)$/)[1] ?? ''
  return Buffer.from(digits.replaceAll(' ', ''), 'hex').toString('ascii')
}
