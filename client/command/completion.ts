import { COMMON_OPTIONS } from './arguments.ts'
import { usageError } from './command-error.ts'
import { defineVerb, type DescribedVerb, type Verb } from './verb.ts'

/** What can come next on a command line. */
interface Tree {
  /** First words of verbs. */
  first: string[]
  /** By the first word: second words and options. */
  after: Map<string, string[]>
}

/** Collects from the verbs what can come next after each word. */
function buildTree(verbs: readonly DescribedVerb[]): Tree {
  const after = new Map<string, Set<string>>()
  const common = Object.keys(COMMON_OPTIONS).map((name) => `--${name}`)
  for (const { name, options } of verbs) {
    const [first = '', second] = name.split(' ')
    const next = after.get(first) ?? new Set<string>()
    if (second !== undefined) next.add(second)
    for (const option of [...Object.keys(options).map((key) => `--${key}`), ...common]) next.add(option)
    after.set(first, next)
  }
  return {
    first: [...after.keys()].toSorted(),
    after: new Map([...after].map(([first, next]) => [first, [...next]])),
  }
}

/** The script for bash. */
const BASH = ({ first, after }: Tree): string => `_agent_network() {
  local words
  case "\${COMP_WORDS[1]}" in
${[...after].map(([verb, next]) => `    ${verb}) words="${next.join(' ')}" ;;`).join('\n')}
    *) words="" ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="${first.join(' ')}"
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _agent_network agent-network`

/** The script for zsh, which loads the one for bash. */
const ZSH = (tree: Tree): string => `#compdef agent-network
autoload -Uz bashcompinit && bashcompinit
${BASH(tree)}`

const SHELLS: Readonly<Record<string, (tree: Tree) => string>> = { bash: BASH, zsh: ZSH }

/** Makes the verb that prints the script by which a shell completes the command's words. */
export const completionVerb = (listVerbs: () => readonly DescribedVerb[]): Verb =>
  defineVerb({
    name: 'completion',
    words: ['SHELL'],
    options: {},
    help: 'What bash or zsh completes by: eval "$(agent-network completion bash)"',
    async run({ words: [shell] }) {
      const write = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined
      if (write === undefined) throw usageError(`completion knows ${Object.keys(SHELLS).join(' and ')}.`)
      const script = write(buildTree(listVerbs()))
      return { answer: { ok: true, script }, text: script }
    },
  })
