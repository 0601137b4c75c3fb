import { usageError } from './command-error.ts'
import { createProgram, listFlags, type CommandSpec } from './program.ts'
import { defineVerb, type Verb } from './verb.ts'

/** The script for bash. */
const BASH = (spec: CommandSpec): string => {
  const { program } = createProgram(spec)
  const lines = program.commands.map((command) => {
    const second = command.commands.flatMap((below) => [
      below.name(),
      ...below.options.map(({ long }) => long),
    ])
    return `    ${command.name()}) words="${[...second, ...listFlags(command)].join(' ')}" ;;`
  })
  return `_agent_network() {
  local words
  case "\${COMP_WORDS[1]}" in
${lines.join('\n')}
    *) words="" ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="${program.commands.map((command) => command.name()).join(' ')}"
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _agent_network agent-network`
}

/** The script for zsh, which loads the one for bash. */
const ZSH = (spec: CommandSpec): string => `#compdef agent-network
autoload -Uz bashcompinit && bashcompinit
${BASH(spec)}`

const SHELLS: Readonly<Record<string, (spec: CommandSpec) => string>> = { bash: BASH, zsh: ZSH }

/** Makes the verb that prints the script by which a shell completes the command's words. */
export const completionVerb = (specOf: () => CommandSpec): Verb =>
  defineVerb({
    name: 'completion',
    words: ['SHELL'],
    options: {},
    help: 'What bash or zsh completes by: eval "$(agent-network completion bash)"',
    async run({ words: [shell] }) {
      const write = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined
      if (write === undefined) throw usageError(`completion knows ${Object.keys(SHELLS).join(' and ')}.`)
      const script = write(specOf())
      return { answer: { ok: true, script }, text: script }
    },
  })
