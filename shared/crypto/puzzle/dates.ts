import type { Task } from '../puzzle.ts'
import type { SeededNumbers } from './seeded-numbers.ts'

const DAY_MS = 86_400_000
const MONTHS = 'January February March April May June July August September October November December'.split(
  ' ',
)
const WEEKDAYS = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ')
const CALENDAR = 'Use the (proleptic) Gregorian calendar.'

/** Draws a day from the 300 years after 1 January 1850, as days since 1970-01-01. */
function drawDay(numbers: SeededNumbers): number {
  const firstDay = Date.UTC(1850, 0, 1) / DAY_MS
  return firstDay + numbers.below(109_570)
}

/** Writes a day, in days since 1970-01-01, in the form of 2031-02-07. */
function writeIsoDate(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

/** Writes a day, in days since 1970-01-01, in the form of 7 February 2031. */
function writeLongDate(day: number): string {
  const date = new Date(day * DAY_MS)
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`
}

/** Makes the task to count the days between two dates. */
export function makeDaysBetween(numbers: SeededNumbers): Task {
  const from = drawDay(numbers)
  const span = numbers.between(200, 2999)
  const write = numbers.pick([writeIsoDate, writeLongDate])
  const [first, last] = [write(from), write(from + span)]
  const question = numbers.pick([
    `How many days after ${first} is ${last}? The very next day counts as 1 day after.`,
    `How many days must be added to ${first} to reach ${last}? From one day to the very next it is 1.`,
  ])
  return {
    question: `${question} ${CALENDAR}`,
    answer_format: 'a decimal integer in digits, such as 1204',
    answer: String(span),
  }
}

/** Makes the task to find the date and weekday some days after or before a date. */
export function makeDateAfter(numbers: SeededNumbers): Task {
  const from = drawDay(numbers)
  const span = numbers.between(100, 1999)
  const start = numbers.pick([writeIsoDate, writeLongDate])(from)
  const forms: readonly { question: string; day: number }[] = [
    {
      question: `Which date is ${span} days after ${start}, and which day of the week is it?`,
      day: from + span,
    },
    {
      question: `Which date is ${span} days before ${start}, and which day of the week is it?`,
      day: from - span,
    },
  ]
  const { question, day } = numbers.pick(forms)
  const weekday = WEEKDAYS[new Date(day * DAY_MS).getUTCDay()] ?? ''
  return {
    question: `${question} ${CALENDAR} Send the date as YYYY-MM-DD, one space, and the weekday's English name in lower case.`,
    answer_format: 'YYYY-MM-DD, one space, the weekday in lower case, such as 2000-02-29 tuesday',
    answer: `${writeIsoDate(day)} ${weekday}`,
  }
}
