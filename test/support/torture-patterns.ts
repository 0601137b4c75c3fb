import fs from 'node:fs'
import path from 'node:path'
import { stripTypeScriptTypes } from 'node:module'

export interface FoundPattern {
  file: string
  source: string
  flags: string
}

/** Every regular expression that is written out in a folder's programs. */
export function findPatterns(root: string, folders: readonly string[]): FoundPattern[] {
  return folders.flatMap((folder) =>
    fs
      .readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(ts|mjs)$/.test(name) && !name.endsWith('.d.mts'))
      .flatMap((name) => {
        const file = path.join(folder, name)
        const text = fs.readFileSync(path.join(root, file), 'utf8')
        const code = name.endsWith('.ts') ? stripTypeScriptTypes(text) : text
        return findIn(code).map((pattern) => ({ file, ...pattern }))
      }),
  )
}

/** After these a slash divides; after anything else it begins a pattern. */
const ENDS_VALUE = /[\w$)\]}'"`]/
const WORDS_BEFORE_PATTERN =
  /(?:^|[^\w$.])(?:return|typeof|case|in|of|void|delete|await|yield|throw|new|else|do)$/

function findIn(code: string): { source: string; flags: string }[] {
  const found: { source: string; flags: string }[] = []
  if (code.startsWith('#!')) code = code.slice(code.indexOf('\n'))
  let before = ''
  let templates: number[] = []
  let depth = 0
  for (let at = 0; at < code.length; at++) {
    const character = code[at] ?? ''
    const next = code[at + 1] ?? ''
    if (character === '/' && next === '/') at = endOf(code, at, '\n')
    else if (character === '/' && next === '*') at = code.indexOf('*/', at) + 1
    else if (character === "'" || character === '"') {
      at = endOfQuoted(code, at, character)
      before = character
    } else if (character === '`' || (character === '}' && templates.at(-1) === depth)) {
      if (character === '}') templates = templates.slice(0, -1)
      const end = endOfTemplatePart(code, at + 1)
      at = end.at
      if (end.opens) templates = [...templates, depth]
      before = end.opens ? '{' : '`'
    } else if (
      character === '/' &&
      !(ENDS_VALUE.test(before.slice(-1)) && !WORDS_BEFORE_PATTERN.test(before))
    ) {
      const end = endOfPattern(code, at)
      const flags = /^[a-z]*/.exec(code.slice(end + 1, end + 10))?.[0] ?? ''
      found.push({ source: code.slice(at + 1, end), flags })
      at = end + flags.length
      before = ')'
    } else {
      if (character === '{') depth++
      if (character === '}') depth--
      if (!/\s/.test(character)) before = (before + character).slice(-12)
      else if (WORDS_BEFORE_PATTERN.test(before)) continue
      else if (/[\w$]/.test(before.slice(-1)) && /[\w$]/.test(next)) before = `${before} `
    }
  }
  return found
}

const endOf = (code: string, from: number, what: string): number => {
  const at = code.indexOf(what, from)
  return at === -1 ? code.length : at
}

function endOfQuoted(code: string, from: number, quote: string): number {
  for (let at = from + 1; at < code.length; at++) {
    if (code[at] === '\\') at++
    else if (code[at] === quote) return at
  }
  return code.length
}

function endOfTemplatePart(code: string, from: number): { at: number; opens: boolean } {
  for (let at = from; at < code.length; at++) {
    if (code[at] === '\\') at++
    else if (code[at] === '`') return { at, opens: false }
    else if (code[at] === '$' && code[at + 1] === '{') return { at: at + 1, opens: true }
  }
  return { at: code.length, opens: false }
}

function endOfPattern(code: string, from: number): number {
  let inClass = false
  for (let at = from + 1; at < code.length; at++) {
    if (code[at] === '\\') at++
    else if (code[at] === '[') inClass = true
    else if (code[at] === ']') inClass = false
    else if (code[at] === '/' && !inClass) return at
  }
  throw new Error(`a pattern without end: ${code.slice(from, from + 80)}`)
}

/** What hardly any pattern allows at the end of a text. */
const MISFITS = ['!', '', '\n', '\u0000']

/**
 * Texts that make a pattern look for long: what it is made of, many times over, and something at the end that
 * doesn't fit, each of the first so many misfits.
 */
export function* longTexts(source: string, length: number, misfits = MISFITS.length): Generator<string> {
  const own = [...source.matchAll(/\\?([A-Za-z0-9 _:;,."'/%@#$=+*-])/g)].map(
    ([, character]) => character ?? '',
  )
  const seeds = new Set([
    'a',
    'A',
    '0',
    '1',
    ' ',
    '\t',
    '\n',
    '-',
    '.',
    ',',
    '/',
    '"',
    '\\',
    '[',
    '{',
    '%',
    '\u00e9',
    '\ud83e\udd80',
    'a ',
    '0 ',
    'a,',
    'a.',
    'a-',
    '0.',
    ' ,',
    '\r\n',
    ...own,
    ...own.map((one, index) => one + (own[index + 1] ?? 'a')),
  ])
  for (const seed of seeds)
    for (const end of MISFITS.slice(0, misfits)) yield seed.repeat(Math.ceil(length / seed.length)) + end
  // Behind the literal that it begins with.
  const head = /^\^?((?:\\[^\w]|[\w:/ .,=-])+)/.exec(source)?.[1]?.replace(/\\/g, '')
  if (head !== undefined)
    for (const seed of ['a', '0', ' ', '-', '.', head])
      yield head + seed.repeat(Math.ceil(length / seed.length)) + '!'
}
