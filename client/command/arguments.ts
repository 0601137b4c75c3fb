import { parseArgs } from 'node:util'
import { usageError } from './command-error.ts'
import { suggest } from './did-you-mean.ts'
import {
  flagOption,
  textOption,
  type DescribedVerb,
  type OptionSpec,
  type OptionSpecs,
  type Verb,
} from './verb.ts'

/** What every verb takes. */
export const COMMON_OPTIONS = {
  url: textOption('URL', 'the service; AGENT_URL, or http://127.0.0.1:3000, if absent'),
  as: textOption('NAME', 'as which of your agents; each NAME has files of its own'),
  json: flagOption("print the service's answer as one JSON object, and nothing else"),
  help: flagOption('say what the verb does'),
  insecure: flagOption('allow http:// to another machine than this one, as AGENT_INSECURE=1 does'),
} as const satisfies OptionSpecs

export interface CommandLine<V extends DescribedVerb = Verb> {
  /** Undefined if only help was asked for. */
  verb: V | undefined
  words: readonly (string | undefined)[]
  options: Readonly<Record<string, unknown>>
  url: string | undefined
  as: string | undefined
  insecure: boolean
  json: boolean
  help: boolean
}

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number]

/**
 * Parses `VERB [words] [--flags]`; the common flags may stand before the verb.
 *
 * @param common the flags that every verb of this command takes; `json` and `help` are among them
 * @throws CommandError `usage` with one sentence
 */
export function parseCommandLine<V extends DescribedVerb>(
  argv: readonly string[],
  verbs: readonly V[],
  common: OptionSpecs = COMMON_OPTIONS,
  command = 'agent',
): CommandLine<V> {
  const nameTokens = tokenize(argv, common).filter((token) => token.kind === 'positional')
  if (nameTokens.length === 0) {
    const options = readOptions(tokenize(argv, common), common, command)
    if (options['help'] !== true) throw usageError('No verb was given; "help" lists them all.')
    return {
      verb: undefined,
      words: [],
      options: {},
      url: undefined,
      as: undefined,
      insecure: false,
      json: options['json'] === true,
      help: true,
    }
  }
  const verb = findVerb(
    nameTokens.map(({ value }) => value),
    verbs,
  )
  const nameAt = new Set(nameTokens.slice(0, verb.name.split(' ').length).map(({ index }) => index))
  const specs = { ...verb.options, ...common }
  const tokens = tokenize(
    argv.filter((_, index) => !nameAt.has(index)),
    specs,
  )
  const { url, as, insecure, json, help, ...options } = readOptions(tokens, specs, verb.name)
  const words = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []))
  if (help !== true) checkWords(words, verb)
  return {
    verb,
    words,
    options,
    url: url as string | undefined,
    as: as as string | undefined,
    insecure: insecure === true,
    json: json === true,
    help: help === true,
  }
}

/**
 * The verb whose name the words begin with.
 *
 * @throws CommandError `usage` if there is none
 */
export function findVerb<V extends DescribedVerb>(words: readonly string[], verbs: readonly V[]): V {
  const verb = verbs.find(({ name }) => name.split(' ').every((part, index) => part === words[index]))
  if (verb !== undefined) return verb
  const [first = ''] = words
  const longer = verbs
    .filter(({ name }) => name.startsWith(`${first} `))
    .map(({ name }) => JSON.stringify(name.slice(first.length + 1)))
  throw usageError(
    longer.length === 0
      ? `There is no verb ${JSON.stringify(first)};${suggest(first, firstWords(verbs))} "help" lists them all.`
      : `${JSON.stringify(first)} is followed by ${longer.join(' or ')}; "help" says more.`,
  )
}

const firstWords = (verbs: readonly DescribedVerb[]): string[] =>
  verbs.map(({ name }) => name.split(' ')[0] ?? '')

/** Whether the command line has `--json`, even if it can't be parsed. */
export function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--')
  return argv.slice(0, end === -1 ? argv.length : end).includes('--json')
}

/** How a verb is written: `NAME WORD [WORD] [--flags]`. */
export function formatUsage(verb: DescribedVerb): string {
  const flags = Object.entries(verb.options).map(
    ([name, spec]) => `[${formatFlag(name, spec)}]${spec.kind === 'list' ? '…' : ''}`,
  )
  return [verb.name, ...verb.words, ...flags].join(' ')
}

export function formatFlag(name: string, spec: OptionSpec): string {
  return spec.kind === 'flag' ? `--${name}` : `--${name} ${spec.value}`
}

/** Splits a command line into words and options; nothing is refused here. */
function tokenize(argv: readonly string[], specs: OptionSpecs): Token[] {
  const options = Object.fromEntries(
    Object.entries(specs).map(([name, { kind }]) => [
      name,
      {
        type: kind === 'flag' ? ('boolean' as const) : ('string' as const),
        multiple: true,
        ...(name === 'help' ? { short: 'h' } : {}),
      },
    ]),
  )
  return parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true }).tokens
}

/**
 * The values of the options among the tokens, by name: flags are true or false, lists are arrays, options
 * that are absent are missing.
 *
 * @throws CommandError `usage` for an unknown option, one that stands twice, or a wrong value
 */
function readOptions(
  tokens: readonly Token[],
  specs: OptionSpecs,
  verbName: string,
): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const [name, { kind }] of Object.entries(specs)) if (kind === 'flag') values[name] = false
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const spec = Object.hasOwn(specs, token.name) ? specs[token.name] : undefined
    if (spec === undefined) {
      const known = Object.keys(specs).map((name) => `--${name}`)
      throw usageError(
        `"${verbName}" takes no ${token.rawName};${suggest(token.rawName, known)} it takes ${known.join(', ')}; a word that begins with - goes after --.`,
      )
    }
    const before = values[token.name]
    if (spec.kind !== 'list' && before !== undefined && before !== false)
      throw usageError(`${token.rawName} stands there twice.`)
    const value = readValue(token, spec)
    values[token.name] = spec.kind === 'list' ? [...((before as unknown[] | undefined) ?? []), value] : value
  }
  return values
}

/**
 * The value of one option: true for a flag, a number for a whole number, else text.
 *
 * @throws CommandError `usage`
 */
function readValue(token: Token & { kind: 'option' }, spec: OptionSpec): boolean | string | number {
  const { rawName, value, inlineValue } = token
  if (spec.kind === 'flag') {
    if (value !== undefined) throw usageError(`${rawName} takes no value.`)
    return true
  }
  if (value === undefined) throw usageError(`${rawName} needs a value: ${rawName} ${spec.value}.`)
  if (!inlineValue && /^-./.test(value))
    throw usageError(
      `${rawName} needs a value, and ${value} looks like a flag; if it is the value, write ${rawName}=${value}.`,
    )
  if (spec.kind !== 'whole') return value
  if (!/^\d{1,9}$/.test(value) || Number(value) < spec.min)
    throw usageError(`${rawName} expected a whole number from ${spec.min}, got ${JSON.stringify(value)}.`)
  return Number(value)
}

/** @throws CommandError `usage` if a verb has too few words or too many */
function checkWords(words: readonly string[], verb: DescribedVerb): void {
  const needed = verb.words.filter((word) => !word.startsWith('['))
  const missing = needed[words.length]
  if (missing !== undefined) throw usageError(`"${verb.name}" needs ${missing}: ${formatUsage(verb)}.`)
  const extra = words[verb.words.length]
  if (extra !== undefined)
    throw usageError(
      `"${verb.name}" takes ${verb.words.length === 0 ? 'no words' : verb.words.join(' ')}, and ${JSON.stringify(extra)} is one too many; quote a text that has spaces.`,
    )
}
