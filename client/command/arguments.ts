import { CommanderError, type Command } from 'commander'
import { usageError } from './command-error.ts'
import {
  createProgram,
  fullName,
  HELP_VERB,
  listFlags,
  plainFlags,
  shownWords,
  type CommandSpec,
} from './program.ts'
import type { DescribedVerb, Verb } from './verb.ts'

/** The values of the common flags; a command that takes fewer lacks some. */
interface CommonValues {
  json: boolean
  url?: string
  as?: string
  insecure?: boolean
}

type Line = CommonValues & {
  words: readonly string[]
  /** The verb's own. */
  options: Readonly<Record<string, unknown>>
}

export type CommandLine<V extends DescribedVerb = Verb> =
  | (Line & { help: false; verb: V })
  /** Of all verbs if `verb` is undefined. */
  | (Line & { help: true; verb: DescribedVerb | undefined })

/** Whether a flag is given; it may stand anywhere before `--`, even if the line can't be parsed. */
export function hasFlag(argv: readonly string[], flag: string): boolean {
  const end = argv.indexOf('--')
  return argv.slice(0, end === -1 ? argv.length : end).includes(flag)
}

/**
 * Parses `VERB [words] [--flags]`; the common flags may stand before the verb. `help VERB` is `VERB --help`.
 *
 * @throws CommandError `usage` with one sentence
 */
export function parseCommandLine<V extends DescribedVerb>(
  argv: readonly string[],
  spec: CommandSpec<V>,
): CommandLine<V> {
  const { program, commands } = createProgram(spec, argv)
  const isHelp = hasFlag(argv, '--help') || hasFlag(argv, '-h')
  let verb: DescribedVerb | undefined
  let ran = program
  for (const [command, known] of commands) {
    command.action(() => {
      verb = known
      ran = command
    })
    // Who asks what a verb takes need not give it.
    if (isHelp) command.allowExcessArguments().registeredArguments.forEach((word) => word.argOptional())
  }
  let endedBy = program
  for (const command of listCommands(program))
    command.exitOverride((error) => {
      endedBy = command
      throw error
    })
  try {
    program.parse(argv, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    const isHelpOfAll = isHelp && endedBy === program && error.code === NO_VERB
    if (!isHelpOfAll) throw usageError(explain(endedBy, error))
  }
  const line = { words: ran.args, options: ran.opts(), ...program.opts<CommonValues>() }
  if (isHelp) return { ...line, help: true, verb }
  if (verb === HELP_VERB) return { ...line, help: true, verb: findVerb(line.words, spec) }
  return { ...line, help: false, verb: verb as V }
}

/**
 * Finds the verb of this name.
 *
 * @returns undefined if no words are given
 * @throws CommandError `usage` if no verb has the name
 */
function findVerb(words: readonly string[], spec: CommandSpec<DescribedVerb>): DescribedVerb | undefined {
  if (words.length === 0) return undefined
  const { verb } = parseCommandLine([...words, '--help'], spec)
  const name = words.join(' ')
  if (verb?.name !== name && verb?.formerly !== name)
    throw usageError(`There is no verb ${quote(name)}; "help" lists them all.`)
  return verb
}

/** Commander's code for a command that ends because no subcommand was named. */
const NO_VERB = 'commander.help'

const listCommands = (command: Command): Command[] => [command, ...command.commands.flatMap(listCommands)]

/**
 * Says in one sentence what commander could not understand.
 *
 * @param command the one at which it stopped
 */
function explain(command: Command, { code, message }: CommanderError): string {
  const name = fullName(command)
  const [, named = ''] = /'([^]*)'/.exec(message) ?? []
  const [, meant] = /^\(Did you mean (?:one of )?(.+)\?\)$/m.exec(message) ?? []
  const suggestion = meant === undefined ? '' : ` did you mean ${meant.split(', ').map(quote).join(' or ')}?`
  switch (code) {
    case 'commander.missingArgument':
      return `"${name}" needs ${named}: ${command.usage()}.`
    case 'commander.excessArguments': {
      const known = shownWords(command)
      const extra = quote(command.args[known.length])
      return `"${name}" takes ${known.join(' ') || 'no words'}, and ${extra} is one too many; quote a text that has spaces.`
    }
    case 'commander.optionMissingArgument':
      return `${named.replace(/ .*/, '')} needs a value: ${plainFlags(named)}.`
    case 'commander.unknownOption': {
      const known = listFlags(command)
      const [flag = ''] = named.split('=')
      if (known.includes(flag)) return `${flag} takes no value.`
      const where = command.commands.length > 0 ? ' before the verb' : ''
      return `"${name}" takes no ${flag}${where};${suggestion} it takes ${known.join(', ')}; a word that begins with - goes after --.`
    }
  }
  if (command.parent !== null) {
    const next = command.commands.map((below) => quote(below.name()))
    return `"${name}" is followed by ${next.join(' or ')}; "help" says more.`
  }
  return code === NO_VERB
    ? 'No verb was given; "help" lists them all.'
    : `There is no verb ${quote(command.args[0])};${suggestion} "help" lists them all.`
}

const quote = (text: string | undefined): string => JSON.stringify(text ?? '')
