/** Text for people. What others wrote may hold anything, and must not reach the terminal as a command. */

/** Control characters, and those that turn the direction of text. */
const UNSAFE = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** Makes control and direction characters, except line feed and tab, visible: `\u{1b}`. */
export function escapeControls(text: string): string {
  return text.replace(UNSAFE, (char) =>
    char === '\n' || char === '\t' ? char : `\\u{${char.codePointAt(0)?.toString(16)}}`,
  )
}

/** One line of JSON, in which control characters are JSON's own escapes, so that it parses to the same value. */
export function formatJson(value: object): string {
  return JSON.stringify(value).replace(
    UNSAFE,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** The text on one line, each run of white space as one space. */
export function toOneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}

/** The text with each line indented by two spaces, so that no line that another agent wrote looks like one of ours. */
export function indent(text: string): string {
  return text
    .split(/\r\n|[\n\r\u2028\u2029]/)
    .map((line) => `  ${line}`)
    .join('\n')
}

/** Unix seconds → `2030-01-31 12:00:00 UTC`. */
export function formatTime(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}

export function formatRate(hashesPerSecond: number): string {
  const [divisor, unit] = hashesPerSecond >= 1e6 ? [1e6, 'MH/s'] : [1e3, 'kH/s']
  return `${(hashesPerSecond / divisor).toFixed(1)} ${unit}`
}

/** A duration in seconds, minutes or hours; `unknown time` if it is not finite. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return 'unknown time'
  if (seconds < 90) return `${Math.ceil(seconds)} s`
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`
  return `${(seconds / 3_600).toFixed(1)} h`
}

/** `2.5 h left`, `3 days left`; `its time is over` from 0 down. */
export function formatTimeLeft(seconds: number): string {
  if (seconds <= 0) return 'its time is over'
  return seconds < 172_800 ? `${formatDuration(seconds)} left` : `${Math.floor(seconds / 86_400)} days left`
}

/** Decimal places of each coin's smallest unit. */
const DECIMALS: Readonly<Record<string, number>> = { xno: 30, xmr: 12 }
const SHOWN_DECIMALS = 8

/**
 * An amount for people, with at most 8 decimals, the rest cut off; a smaller one is "less than …", not 0.
 *
 * @param raw in the coin's smallest unit
 */
export function formatCoins(raw: string, currency: string): string {
  const decimals = DECIMALS[currency]
  if (decimals === undefined || !/^\d+$/.test(raw)) return `${raw} of the smallest unit of ${currency}`
  const digits = raw.padStart(decimals + 1, '0')
  const shown = `${digits.slice(0, -decimals)}.${digits.slice(-decimals, -decimals + SHOWN_DECIMALS)}`
  const least = `0.${'0'.repeat(SHOWN_DECIMALS - 1)}1`
  if (!/[1-9]/.test(shown)) return /[1-9]/.test(raw) ? `less than ${least} ${currency}` : `0 ${currency}`
  let end = shown.length
  while (shown[end - 1] === '0') end--
  if (shown[end - 1] === '.') end--
  return `${shown.slice(0, end)} ${currency}`
}

/** `name: value` lines, without those whose value is undefined. */
export function formatFields(
  fields: Readonly<Record<string, string | number | boolean | undefined>>,
): string {
  const shown = Object.entries(fields).filter(([, value]) => value !== undefined)
  const width = Math.max(0, ...shown.map(([name]) => name.length))
  return shown.map(([name, value]) => `${`${name}:`.padEnd(width + 1)} ${value}`).join('\n')
}

/** Formats each item on lines of its own; for an empty list, returns the sentence given for that. */
export const formatList = <T>(items: readonly T[], format: (item: T) => string, none: string): string =>
  items.length === 0 ? none : items.map(format).join('\n')
