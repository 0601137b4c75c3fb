import { COMMON_OPTIONS, findVerb, formatFlag, formatUsage } from './arguments.ts'
import { usageError } from './command-error.ts'
import { defineVerb, type DescribedVerb, type OptionSpecs, type VerbOutput, type VerbGroup } from './verb.ts'

/** What a command's help says around its list of verbs. */
export interface HelpFrame {
  usage: string
  common: OptionSpecs
  notes: readonly string[]
}

const AGENT_FRAME: HelpFrame = {
  usage: 'agent-network VERB [words] [--url URL] [--as NAME] [--json]',
  common: COMMON_OPTIONS,
  notes: [
    'VERB --help says what a verb takes, --version which version this is. In the repository: npm run --silent agent -- VERB.',
    'The token is kept in AGENT_HOME, or ~/.agent-network: one file for each service, for each NAME in a folder of its own.',
    'Exit codes: 0 done, 1 refused or not reached, 2 not understood, 130 stopped.',
  ],
}

/** The groups of verbs, and one more with the verb "help", which lists all of them. */
export function withHelp(groups: readonly VerbGroup[]): VerbGroup[] {
  const all = [...groups]
  const help = defineVerb({
    name: 'help',
    words: ['[VERB]', '[WORD]'],
    options: {},
    help: 'List the verbs, or say what one does',
    run: async ({ words }) =>
      showHelp(
        all,
        words[0] === undefined ? undefined : words.filter((word) => word !== undefined).join(' '),
      ),
  })
  all.push({ title: 'Help', verbs: [help] })
  return all
}

/**
 * The help: of all verbs, or of one.
 *
 * @param name the verb's; undefined for all
 * @throws CommandError `usage` if there is no such verb
 */
export function showHelp<V extends DescribedVerb>(
  groups: readonly VerbGroup<V>[],
  name: string | undefined,
  frame: HelpFrame = AGENT_FRAME,
): VerbOutput {
  const verbs = groups.flatMap((group) => group.verbs)
  if (name === undefined)
    return {
      answer: {
        ok: true,
        verbs: groups.flatMap(({ title, verbs: own }) =>
          own.map((verb) => ({ group: title, ...describe(verb) })),
        ),
        count: verbs.length,
      },
      text: formatOverview(groups, frame),
    }
  const verb = findVerb(name.split(' '), verbs)
  if (verb.name !== name) throw usageError(`There is no verb ${JSON.stringify(name)}; "help" lists them all.`)
  const flags = formatOptions({ ...verb.options, ...frame.common })
  return {
    answer: { ok: true, verb: describe(verb) },
    text: `${formatUsage(verb)}\n\n${verb.help}.\n\n${flags}`,
  }
}

function describe(verb: DescribedVerb): object {
  return { name: verb.name, usage: formatUsage(verb), help: verb.help }
}

/** The usage, all verbs with one line each, the common options and the notes. */
function formatOverview<V extends DescribedVerb>(groups: readonly VerbGroup<V>[], frame: HelpFrame): string {
  const width = Math.max(
    ...groups.flatMap(({ verbs }) => verbs.map(({ name, words }) => [name, ...words].join(' ').length)),
  )
  return [
    frame.usage,
    '',
    ...groups.flatMap(({ title, verbs }) => [
      `${title}:`,
      ...verbs.map(({ name, words, help }) => `  ${[name, ...words].join(' ').padEnd(width)}  ${help}`),
      '',
    ]),
    formatOptions(frame.common),
    '',
    ...frame.notes,
  ].join('\n')
}

function formatOptions(specs: OptionSpecs): string {
  const rows = Object.entries(specs).map(([name, spec]) => [formatFlag(name, spec), spec.help] as const)
  const width = Math.max(...rows.map(([flag]) => flag.length))
  return rows.map(([flag, help]) => `  ${flag.padEnd(width)}  ${help}`).join('\n')
}
