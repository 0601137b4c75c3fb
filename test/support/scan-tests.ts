/**
 * Finds the tests in the text of a test file, by name, each with the heading of the `describe` that it stands
 * in. A name is as it is written: with the `%s` or `$name` of `it.each`, and with `${…}` of a template. Tests
 * that are always skipped are left out.
 */
export function scanTests(source: string): Map<string, string> {
  const tests = new Map<string, string>()
  const headings: { indent: number; name: string }[] = []
  for (const { index, 1: indent = '', 2: word, 3: modifier } of source.matchAll(CALL)) {
    while ((headings.at(-1)?.indent ?? -1) >= indent.length) headings.pop()
    const name = nameAfter(source, index + indent.length)
    if (name === undefined || SKIPPED.has(modifier ?? '')) continue
    if (word === 'describe') headings.push({ indent: indent.length, name })
    else tests.set(name, headings.map((heading) => heading.name).join(' › '))
  }
  return tests
}

/** A test or a heading stands at the beginning of a line. */
const CALL = /^([ ]*)(it|test|describe)(?:\.(\w+))?(?=[.(])/gm
const SKIPPED = new Set(['skip', 'todo'])
const QUOTES = `'"\``

/** The text that is the first argument of the last of the calls that begin here, as of `it.each(…)('…')`. */
function nameAfter(source: string, start: number): string | undefined {
  let at = start
  for (;;) {
    at = source.indexOf('(', at)
    if (at === -1) return undefined
    const first = at + 1 + (/^\s*/.exec(source.slice(at + 1))?.[0].length ?? 0)
    if (QUOTES.includes(source[first] ?? ' '))
      return unescape(source.slice(first + 1, endOfText(source, first)))
    at = endOfBrackets(source, at)
    // After the arguments of `each` or `skipIf` the call goes on at once.
    if (source[at] !== '(' && source[at] !== '.') return undefined
  }
}

const unescape = (text: string): string => text.replaceAll(/\\(['"`\\])/g, '$1')

/** The index of the quote that ends the text which begins with the quote at `start`. */
function endOfText(source: string, start: number): number {
  let at = start + 1
  while (at < source.length && source[at] !== source[start]) at += source[at] === '\\' ? 2 : 1
  return at
}

/**
 * The index behind the bracket that closes the one at `start`; brackets in texts and comments don't count.
 */
function endOfBrackets(source: string, start: number): number {
  let depth = 0
  for (let at = start; at < source.length; at++) {
    const letter = source[at] ?? ''
    if (source.startsWith('//', at)) at = source.indexOf('\n', at)
    else if (QUOTES.includes(letter)) at = endOfText(source, at)
    else if ('([{'.includes(letter)) depth++
    else if (')]}'.includes(letter) && --depth === 0) return at + 1
  }
  return source.length
}
