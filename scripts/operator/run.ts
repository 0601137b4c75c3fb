import { setTimeout as sleep } from 'node:timers/promises'
import { hasFlag, parseCommandLine } from '../../client/command/arguments.ts'
import { CommandError } from '../../client/command/command-error.ts'
import { escapeControls, formatJson } from '../../client/command/format.ts'
import { showHelp } from '../../client/command/help.ts'
import { ConfigError, listSecretFiles, readConfig, readFileVariables } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { isOutage } from '../../shared/platform/database.ts'
import { withDeadline } from '../../shared/platform/deadline.ts'
import { messageOf, Refusal } from '../../shared/platform/errors.ts'
import { createLog } from '../../shared/platform/log.ts'
import { StartError } from '../../shared/platform/process.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import { completeEnvironment, readRunning } from '../embedded/running.ts'
import type { VerbOutput } from './verb.ts'
import { OPERATOR } from './verbs.ts'

export interface OperatorWorld {
  argv: readonly string[]
  env: NodeJS.ProcessEnv
  stdout: { columns?: number; write(text: string): unknown }
  stderr: { write(text: string): unknown }
  /** The machine's clock if absent. */
  now?: () => number
  /** Asks the person at the terminal. Absent if no terminal is attached. */
  confirm?: (question: string) => Promise<boolean>
  /** Ends `status --watch`. */
  signal?: AbortSignal
}

const PATIENCE_MS = 10 * SECOND_MS
/** How long a verb may take, such as by waiting for a worker. */
const VERB_LIMIT_MS = 60 * SECOND_MS
/** A connection to a frozen server can't be closed. */
const CLOSE_LIMIT_MS = 200
const REDRAW_EVERY_MS = 5 * SECOND_MS
const CLEAR_SCREEN = '\x1b[H\x1b[2J'

/**
 * Runs one command of the operator and resolves with its exit code. With `--json` stdout gets exactly one
 * JSON object.
 */
export async function runOperator(world: OperatorWorld): Promise<number> {
  const { argv, stdout, stderr } = world
  const asJson = hasFlag(argv, '--json')
  try {
    const shown = await runVerb(world)
    stdout.write(`${asJson ? formatJson(shown.answer) : escapeControls(shown.text)}\n`)
    return shown.exitCode ?? 0
  } catch (error) {
    const { code, message, exitCode, stack } = describeFailure(error)
    if (asJson) stdout.write(`${formatJson({ ok: false, error: code, message })}\n`)
    else stderr.write(`${escapeControls(message)}\n`)
    if (stack !== undefined) stderr.write(`${escapeControls(stack)}\n`)
    return exitCode
  }
}

/**
 * Parses the command line and runs its verb, or shows the help.
 *
 * @throws what the verb throws, and CommandError for a line that is not understood
 */
async function runVerb(world: OperatorWorld): Promise<VerbOutput> {
  const { argv, env, stdout } = world
  const line = parseCommandLine(argv, OPERATOR)
  if (line.help) return showHelp(OPERATOR, line.verb, stdout.columns)
  const { verb, words, options, json } = line
  const call = { words, options, dryRun: options['dry-run'] === true }
  if ('runHere' in verb) return verb.runHere({ ...call, env })
  if (verb.warning !== undefined && !call.dryRun && options['yes'] !== true) {
    const isMeant = (await world.confirm?.(`${verb.warning} Go on? [y/N] `)) ?? true
    if (!isMeant) throw new CommandError('not_confirmed', 'Nothing was done.')
  }
  const ctx = openOperatorContext(world)
  try {
    if (verb.needsDatabase !== false) await withinLimit(ctx.database.whenReady(), PATIENCE_MS)
    const run = () => withinLimit(verb.run({ ...call, ctx, env }), verb.limitMs ?? VERB_LIMIT_MS)
    return options['watch'] === true && !json ? await redraw(run, world) : await run()
  } finally {
    await Promise.race([closeContext(ctx), sleep(CLOSE_LIMIT_MS, undefined, { ref: false })])
  }
}

/**
 * Runs a verb and draws its result on a cleared screen every 5 s.
 *
 * @returns the result after `signal` is aborted
 */
async function redraw(
  run: () => Promise<VerbOutput>,
  { stdout, signal }: OperatorWorld,
): Promise<VerbOutput> {
  for (;;) {
    const shown = await run()
    if (signal?.aborted === true) return shown
    stdout.write(`${CLEAR_SCREEN}${escapeControls(shown.text)}\n`)
    await sleep(REDRAW_EVERY_MS, undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
  }
}

/**
 * Opens a context on the servers and settings of the environment, completed by those of the network that runs
 * from DATA_DIR.
 *
 * @throws StartError if there are no servers in either, ConfigError
 */
function openOperatorContext({ env: given, stderr, now = Date.now }: OperatorWorld): Context {
  const { dataDir } = readConfig(given, 'start')
  const running = readRunning(dataDir)
  const { env } = readFileVariables(given, 'operator')
  if (running === undefined && !env['MONGODB_URL'] && !env['REDIS_URL'])
    throw new StartError(
      `No network was started in DATA_DIR=${dataDir}. Name the folder of "npm start" in DATA_DIR, or servers of your own in MONGODB_URL and REDIS_URL.`,
    )
  const complete = running === undefined ? env : completeEnvironment(env, running)
  const config = { ...readConfig(complete, 'operator'), secretFiles: listSecretFiles(given) }
  const log = createLog('operator', 'error', { write: (line: string) => void stderr.write(line) })
  return openContext(config, log, { now, databaseTimeoutMs: PATIENCE_MS, changesNothing: true })
}

/** Waits for `work`. @throws Refusal `unavailable` after `limitMs` */
const withinLimit = <T>(work: Promise<T>, limitMs: number): Promise<T> =>
  withDeadline(
    work,
    limitMs,
    () =>
      new Refusal(
        'unavailable',
        `MongoDB or Redis did not answer within ${limitMs / SECOND_MS} s; is the network running?`,
      ),
  )

/** What is printed about a failed command; `stack` only for an error that is a bug. */
function describeFailure(error: unknown): {
  code: string
  message: string
  exitCode: number
  stack?: string | undefined
} {
  const message = messageOf(error)
  if (error instanceof Refusal) return { code: error.code, message, exitCode: 1 }
  if (error instanceof CommandError) return { code: error.code, message, exitCode: error.exitCode }
  if (error instanceof ConfigError || error instanceof StartError)
    return { code: 'settings', message, exitCode: 1 }
  if (isOutage(error))
    return {
      code: 'unavailable',
      message: 'MongoDB did not answer; a change may have been stored: look before you do it again.',
      exitCode: 1,
    }
  return { code: 'failed', message, exitCode: 1, stack: error instanceof Error ? error.stack : undefined }
}
