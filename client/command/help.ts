import type { Command } from 'commander'
import {
  allGroups,
  createProgram,
  formatUsage,
  fullName,
  plainFlags,
  shownWords,
  type CommandSpec,
} from './program.ts'
import type { DescribedVerb, VerbOutput } from './verb.ts'

/**
 * The help: of all verbs, or of one.
 *
 * @param columns how wide the terminal is; undefined if the output isn't one, and then no line is broken
 */
export function showHelp(
  spec: CommandSpec<DescribedVerb>,
  verb: DescribedVerb | undefined,
  columns = Infinity,
): VerbOutput {
  const { program, commands } = createProgram(spec)
  const isOf = (command: Command): boolean => {
    const of = commands.get(command)
    return of !== undefined && of.name === fullName(command)
  }
  const named = [...commands.keys()].filter(isOf)
  const command = named.find((known) => commands.get(known) === verb) ?? program
  const text = command
    .configureHelp({
      helpWidth: columns,
      showGlobalOptions: true,
      commandUsage: (shown) => shown.usage(),
      optionTerm: ({ flags }) => plainFlags(flags),
      // A verb of two words is listed as such.
      visibleCommands: () => (command === program ? named : []),
      subcommandTerm: (shown) => [fullName(shown), ...shownWords(shown)].join(' '),
    })
    .helpInformation()
    .trimEnd()
  if (verb !== undefined) {
    const example = exampleOf(spec, verb)
    const answer = { ok: true, verb: { ...describe(verb), example } }
    return { answer, text: example === undefined ? text : `${text}\n\nExample:\n  ${example}` }
  }
  const verbs = allGroups(spec).flatMap(({ title, verbs: own }) =>
    own.map((one) => ({ group: title, ...describe(one) })),
  )
  return {
    answer: { ok: true, verbs, count: verbs.length },
    text: [text, '', ...spec.notes].join('\n'),
  }
}

function describe(verb: DescribedVerb): object {
  return { name: verb.name, usage: formatUsage(verb), help: verb.help }
}

/** How a verb may be called; undefined if the command has no examples. */
function exampleOf({ usage, examples }: CommandSpec<DescribedVerb>, verb: DescribedVerb): string | undefined {
  if (examples === undefined) return undefined
  const [name] = usage.split(' ')
  const words = verb.words.flatMap((word) => examples[word.replace(/\W/g, '')] ?? [])
  const options = Object.keys(verb.options).flatMap((option) => {
    const value = examples[`--${option}`]
    return value === undefined ? [] : [`--${option} ${value}`]
  })
  return [name, verb.name, ...words, ...options].join(' ')
}
