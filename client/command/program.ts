import { Command, Option } from 'commander'
import { usageError } from './command-error.ts'
import type { DescribedVerb, OptionSpec, OptionSpecs, Verb, VerbGroup } from './verb.ts'

/** A command with all its verbs, from which its commander program is made. */
export interface CommandSpec<V extends DescribedVerb = Verb> {
  /** What the command is called in its own messages. */
  name: string
  usage: string
  groups: readonly VerbGroup<V>[]
  /** What every verb takes; `json` and `help` are among them. */
  common: OptionSpecs
  /** Lines below the list of verbs. */
  notes: readonly string[]
  /** The example that the help of each verb gives is made of these: a value by the name of a word, or of an option. */
  examples?: Readonly<Record<string, string>>
}

/** Every command has it, so it is no entry of a list of verbs; the parser resolves it. */
export const HELP_VERB: DescribedVerb = {
  name: 'help',
  words: ['[VERB]', '[WORD]'],
  options: {},
  help: 'List the verbs, or say what one does',
}

/** The groups of verbs as the help lists them. */
export const allGroups = (spec: CommandSpec<DescribedVerb>): VerbGroup<DescribedVerb>[] => [
  ...spec.groups,
  { title: 'Help', verbs: [HELP_VERB] },
]

/** Keeps its value under the name that it is written by. To commander `--no-native` would be `native: false`. */
class NamedOption extends Option {
  override negate = false
  override attributeName(): string {
    return this.name()
  }
}

/**
 * Makes the commander program: a verb is a subcommand, the first word of a verb of two words is one that has
 * more of them below it.
 *
 * @param argv what is to be parsed by it
 */
export function createProgram(spec: CommandSpec<DescribedVerb>, argv: readonly string[] = []) {
  const program = new Command(spec.name)
    .usage(spec.usage)
    .helpOption(false)
    .helpCommand(false)
    .configureOutput({ writeErr: () => undefined, outputError: () => undefined })
  addOptions(program, spec.common, argv)
  const commands = new Map<Command, DescribedVerb>()
  /** Adds a verb under a name of one word or two. */
  const add = (verb: DescribedVerb, name: string, group?: string): void => {
    const [first = '', second] = name.split(' ')
    const one = findOrAdd(program, first, group)
    const command = second === undefined ? one : findOrAdd(one, second, group)
    command.summary(verb.help).description(`${verb.help}.`).usage(formatUsage(verb))
    for (const word of verb.words) command.argument(word)
    addOptions(command, verb.options, argv)
    commands.set(command, verb)
  }
  for (const { title, verbs } of allGroups(spec)) for (const verb of verbs) add(verb, verb.name, `${title}:`)
  // After all others: a former name may be the first word of a new one, and keeps its words beside what is below it.
  for (const { verbs } of allGroups(spec))
    for (const verb of verbs) if (verb.formerly !== undefined) add(verb, verb.formerly)
  return { program, commands }
}

/** How a verb is written: `NAME WORD [WORD] [--flags]`. */
export function formatUsage(verb: DescribedVerb): string {
  const flags = Object.entries(verb.options).map(
    ([name, spec]) => `[${plainFlags(formatFlags(name, spec))}]${spec.kind === 'list' ? '…' : ''}`,
  )
  return [verb.name, ...verb.words, ...flags].join(' ')
}

/** A command's name, of two words if it is below another one. */
export const fullName = (command: Command): string =>
  command.parent?.parent ? `${fullName(command.parent)} ${command.name()}` : command.name()

/** The words of a command as they are shown; `[NAME]` may be left out. */
export const shownWords = (command: Command): string[] =>
  command.registeredArguments.map((word) => (word.required ? word.name() : `[${word.name()}]`))

/** The flags that a command takes, its own first. */
export const listFlags = (command: Command): string[] => [
  ...command.options.map(({ long }) => long ?? ''),
  ...(command.parent === null ? [] : listFlags(command.parent)),
]

/** The flags of a commander option as they are shown: `--days N`. */
export const plainFlags = (flags: string): string => flags.replace(/[<>]/g, '')

/** An option's flags as commander reads them: `--days <N>`. */
const formatFlags = (name: string, spec: OptionSpec): string =>
  `${name === 'help' ? '-h, ' : ''}--${name}${spec.kind === 'flag' ? '' : ` <${spec.value}>`}`

/** The command of this name below another one; it may have words of its own and more of them below it. */
function findOrAdd(above: Command, name: string, group?: string): Command {
  const known = above.commands.find((command) => command.name() === name)
  if (known !== undefined) return known
  const added = above.command(name).helpCommand(false)
  return group === undefined ? added : added.helpGroup(group)
}

/** Adds options to a command; those that are not given are false if they are flags, else undefined. */
function addOptions(command: Command, specs: OptionSpecs, argv: readonly string[]): void {
  for (const [name, spec] of Object.entries(specs)) {
    const option = new NamedOption(formatFlags(name, spec), spec.help)
    command.addOption(
      option.argParser<unknown>((value, before) => readValue(`--${name}`, spec, value, before, argv)),
    )
    command.setOptionValue(name, spec.kind === 'flag' ? false : undefined)
  }
}

/**
 * The value of an option: true for a flag, a number for a whole number, else text.
 *
 * @param before its value so far
 * @throws CommandError `usage`
 */
function readValue(
  flag: string,
  spec: OptionSpec,
  value: string,
  before: unknown,
  argv: readonly string[],
): unknown {
  if (spec.kind !== 'list' && before !== undefined && before !== false)
    throw usageError(`${flag} stands there twice.`)
  if (spec.kind === 'flag') return true
  if (/^-./.test(value) && !argv.includes(`${flag}=${value}`))
    throw usageError(
      `${flag} needs a value, and ${value} looks like a flag; if it is the value, write ${flag}=${value}.`,
    )
  if (spec.kind === 'list') return [...((before as string[] | undefined) ?? []), value]
  if (spec.kind === 'text') return value
  if (!/^\d{1,9}$/.test(value) || Number(value) < spec.min)
    throw usageError(`${flag} expected a whole number from ${spec.min}, got ${JSON.stringify(value)}.`)
  return Number(value)
}
