import type { Readable } from 'node:stream'
import { CodedError, RefusalError } from '../errors.ts'
import { adviseOn, type Surface } from './advice.ts'
import { hasFlag, parseCommandLine, type CommandLine } from './arguments.ts'
import { CommandError, usageError } from './command-error.ts'
import { escapeControls, formatJson, toOneLine } from './format.ts'
import { showHelp } from './help.ts'
import { createProgressLine, type ProgressStream } from './progress-line.ts'
import { Session } from './session.ts'
import type { VerbOutput, Verb } from './verb.ts'
import { AGENT, mcpVerb, VERBS } from './verbs.ts'
import packageJson from '../package.json' with { type: 'json' }

const { version: VERSION } = packageJson
const SHOWN_VERSION: VerbOutput = { answer: { ok: true, version: VERSION }, text: VERSION }

export interface World {
  argv: readonly string[]
  env: NodeJS.ProcessEnv
  stdin: Readable
  stdout: { columns?: number; write(text: string): unknown }
  stderr: ProgressStream
  /** Aborted with a CommandError when the command is to stop. */
  signal: AbortSignal
}

/**
 * Runs one command and resolves with its exit code. With `--json` stdout gets exactly one JSON object: the
 * service's answer, its refusal, or `{ok:false, error, message}` if there is neither.
 */
export async function runAgent(world: World): Promise<number> {
  const { argv, stdout, stderr } = world
  const json = hasFlag(argv, '--json')
  const progress = createProgressLine(stderr, stderr.isTTY === true || !json)
  let line: CommandLine | undefined
  try {
    line = asksVersion(argv) ? undefined : parseCommandLine(argv, AGENT)
    const shown = line === undefined ? SHOWN_VERSION : await runLine(line, world, progress)
    progress.end()
    if (json || shown.text !== '')
      stdout.write(`${json ? formatJson(shown.answer) : escapeControls(shown.text)}\n`)
    shown.afterPrinting?.()
    return shown.exitCode ?? 0
  } catch (error) {
    progress.end()
    const failure = describeFailure(
      world.signal.aborted && !(error instanceof CommandError) ? world.signal.reason : error,
      'command',
      line?.verb?.name,
    )
    if (json) stdout.write(`${formatJson(failure.body)}\n`)
    else stderr.write(`${escapeControls(toOneLine(failure.text))}\n`)
    if (failure.stack !== undefined) stderr.write(`${escapeControls(failure.stack)}\n`)
    return failure.exitCode
  }
}

/** Whether the version is asked for, and nothing else. */
const asksVersion = (argv: readonly string[]): boolean =>
  argv.includes('--version') && argv.every((word) => /^--(version|json)$/.test(word))

/**
 * Runs the verb of a command line, then warns of what the ledger newly says of this agent.
 *
 * @returns what is to be printed
 */
async function runLine(
  line: CommandLine,
  { env, stdin, stdout, stderr, signal }: World,
  progress: ReturnType<typeof createProgressLine>,
): Promise<VerbOutput> {
  if (line.help) return showHelp(AGENT, line.verb, stdout.columns)
  const { verb, words, options, url, as, insecure = false } = line
  if (verb === mcpVerb) {
    const { serveNetwork } = await import('../mcp/server.ts')
    await serveNetwork({
      version: VERSION,
      verbs: VERBS,
      open: (callSignal, progress) =>
        // Stdin carries the protocol.
        new Session({ url, as, insecure, env, stdout, signal: callSignal, progress }),
      describe: (error, failed) => describeFailure(error, 'tools', failed),
      streams: { stdin, stdout, signal },
    })
    return { answer: {}, text: '' }
  }
  const session = new Session({ url, as, insecure, env, stdin, stdout, signal, progress })
  const shown = await verb.run({ ...resolveMe(verb, words, options, session), session })
  for (const change of await session.takeForeignChangeWarnings()) {
    progress.end()
    stderr.write(`${escapeControls(change)}\n`)
  }
  return shown
}

/**
 * The words and options of a verb, with `me` replaced by this agent's id wherever an agent is named.
 *
 * @throws CommandError `usage` for an empty id
 */
function resolveMe(
  verb: Verb,
  words: readonly (string | undefined)[],
  options: CommandLine['options'],
  session: Session,
): Pick<Parameters<Verb['run']>[0], 'words' | 'options'> {
  /** @param what the name of the word or the option's value in the help */
  const resolve = (what: string | undefined, text: string | undefined): string | undefined => {
    if (text === '' && what?.includes('ID')) throw usageError(`${what} expected an id, got nothing.`)
    return (text === 'me' || text === '@me') && what === 'AGENT_ID'
      ? session.requireIdentity().agent_id
      : text
  }
  const resolvedOptions: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(options)) {
    const spec = verb.options[name]
    resolvedOptions[name] =
      spec?.kind === 'text' && typeof value === 'string' ? resolve(spec.value, value) : value
  }
  return { words: words.map((word, place) => resolve(verb.words[place], word)), options: resolvedOptions }
}

interface Failure {
  body: object
  text: string
  exitCode: number
  /** Of a defect of this command. */
  stack?: string | undefined
}

/** What is printed about a failed command, as text and as JSON, and its exit code. */
function describeFailure(error: unknown, surface: Surface, failedVerb?: string): Failure {
  if (error instanceof RefusalError)
    return { body: error.body, text: `Refused (${error.error}): ${error.message}`, exitCode: 1 }
  const message = adviseOn(error, surface, failedVerb)
  const code = error instanceof CodedError ? error.code : 'failed'
  const isDefect =
    code === 'failed' &&
    (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError)
  return {
    body: { ok: false, error: code, message },
    text: message,
    exitCode: error instanceof CommandError ? error.exitCode : 1,
    ...(isDefect ? { stack: error.stack } : {}),
  }
}
