import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { StartError } from '../../shared/platform/process.ts'
import { signalProcess, type ChildTracker } from './children.ts'
import { waitFor } from './wait.ts'

/**
 * How long a dead child stays dead: doubling from the first delay to the longest, from the start again after
 * a steady life.
 */
export const BACK_OFF = { firstDelayMs: 500, longestDelayMs: 10_000, steadyMs: 30_000 } as const
export type BackOff = { readonly [Name in keyof typeof BACK_OFF]: number }

const KEPT_ERROR_LINES = 20
/** A dying child's last output may arrive after its exit; this long is waited for it. */
const LAST_OUTPUT_MS = 300

export interface ChildSpec {
  name: string
  command: string
  args: readonly string[]
  env: NodeJS.ProcessEnv
  cwd?: string
  onLine?: (line: string) => void
  onErrorLine?: (line: string) => void
  /**
   * What it wrote elsewhere before it died, such as the end of its log; shown instead of its standard error.
   */
  readLastWords?: () => string[]
  /** From SIGTERM to SIGKILL. */
  stopLimitMs: number
  backOff?: BackOff | undefined
}

export interface SupervisedChild {
  readonly name: string
  /** Its process id; undefined while it is dead. */
  pid(): number | undefined
  /** How often it ended without being asked to. */
  deaths(): number
  /** SIGTERM, then SIGKILL after the limit; resolves when it is gone, and it stays gone. */
  stop(): Promise<void>
  /** SIGKILL now, without waiting. */
  kill(): void
}

/**
 * Starts a child process and starts it again, after a pause, whenever it ends. It leads a process group of
 * its own: a terminal sends Ctrl-C to every process of the group in front, and children must end in order,
 * not all at once.
 *
 * @param report takes one line for each death and each new start
 */
export function supervise(
  spec: ChildSpec,
  report: (line: string) => void,
  children: ChildTracker,
): SupervisedChild {
  const backOff = spec.backOff ?? BACK_OFF
  let child: ChildProcess | undefined
  let timer: NodeJS.Timeout | undefined
  let delayMs = backOff.firstDelayMs
  let deaths = 0
  let stopping = false
  let whenGone: Promise<void> = Promise.resolve()

  function start(): void {
    const startedAt = performance.now()
    const errorLines: string[] = []
    const started = spawn(spec.command, spec.args, {
      env: spec.env,
      ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    child = started
    if (started.pid !== undefined) children.add(spec.name, started.pid)
    readLines(started.stdout, (line) => spec.onLine?.(line))
    readLines(started.stderr, (line) => {
      errorLines.push(line)
      if (errorLines.length > KEPT_ERROR_LINES) errorLines.shift()
      spec.onErrorLine?.(line)
    })
    whenGone = new Promise((resolve) => {
      started.once('error', (error) => {
        // With a pid the error is a signal that could not be sent, and the child lives on.
        if (started.pid !== undefined) return report(`${spec.name}: ${error.message}`)
        child = undefined
        resolve()
        onDeath(`could not be started (${error.message})`, [], startedAt)
      })
      started.once('exit', (code, signal) => {
        if (started.pid !== undefined) children.remove(started.pid)
        child = undefined
        let isFinished = false
        /**
         * Does once, with the last output or LAST_OUTPUT_MS after the exit, what follows an exit: whoever
         * waits for the end goes on, and onDeath() is called.
         */
        const finishExit = () => {
          if (isFinished) return
          isFinished = true
          clearTimeout(limit)
          resolve()
          onDeath(
            signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`,
            errorLines,
            startedAt,
          )
        }
        started.once('close', finishExit)
        const limit = setTimeout(finishExit, LAST_OUTPUT_MS)
      })
    })
  }

  /** Reports a death and starts the child again after a pause, unless it was asked to stop. */
  function onDeath(how: string, errorLines: readonly string[], startedAt: number): void {
    if (stopping) return
    deaths += 1
    if (performance.now() - startedAt >= backOff.steadyMs) delayMs = backOff.firstDelayMs
    const pauseMs = delayMs
    delayMs = Math.min(delayMs * 2, backOff.longestDelayMs)
    report(`${spec.name} ${how}; starting it again in ${pauseMs / 1000} s`)
    for (const line of spec.readLastWords?.() ?? errorLines) report(`  ${spec.name}: ${line}`)
    timer = setTimeout(start, pauseMs)
  }

  function kill(): void {
    stopping = true
    clearTimeout(timer)
    if (child?.pid !== undefined) signalProcess(-child.pid, 'SIGKILL')
  }

  start()
  return {
    name: spec.name,
    pid: () => child?.pid,
    deaths: () => deaths,
    kill,
    async stop() {
      stopping = true
      clearTimeout(timer)
      if (child === undefined) return
      const limit = setTimeout(() => {
        report(`${spec.name} did not end within ${spec.stopLimitMs / 1000} s and is killed`)
        kill()
      }, spec.stopLimitMs)
      child.kill('SIGTERM')
      await whenGone
      clearTimeout(limit)
    },
  }
}

/** A child that died so often before its first answer is taken to be broken. */
const DEATH_LIMIT = 3

/**
 * Waits until `isUp` gives true for a child that was just started.
 *
 * @param title the child at the beginning of a sentence
 * @throws StartError if it has ended three times before; what {@link waitFor} throws
 */
export async function whenUp(
  child: SupervisedChild,
  title: string,
  isUp: () => Promise<true | undefined>,
  options: Parameters<typeof waitFor>[2],
): Promise<void> {
  const check = (): Promise<true | undefined> => {
    if (child.deaths() < DEATH_LIMIT) return isUp()
    throw new StartError(
      `${title} ended ${child.deaths()} times before it answered; its last words are above.`,
    )
  }
  await waitFor(`an answer of ${child.name}`, check, options)
}

function readLines(stream: Readable, onLine: (line: string) => void): void {
  createInterface({ input: stream, crlfDelay: Infinity }).on('line', onLine)
}
