import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ChildTracker } from '../../../scripts/embedded/children.ts'
import { TimeoutError, waitFor } from '../../../scripts/embedded/wait.ts'
import { compileCacheDir } from '../../../scripts/prepare.mjs'
import { keepProcess, type KeptProcess } from './kept-process.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const CLOCK = fileURLToPath(new URL('shifted-clock.ts', import.meta.url))
const UP_LIMIT_MS = 180_000
const STOP_LIMIT_MS = 40_000
const KEPT_LINES = 8
/** pino's number for an error. */
const ERROR_LEVEL = 50

/** A process of the service; a supervisor restarts it when it dies. */
export interface Part {
  readonly name: string
  readonly child: KeptProcess
  /** Sets by how much its clock is wrong, in this life and those after a restart. */
  shiftClock(shiftMs: number): void
  /** From its next start on it runs the code in this folder, or the present one again. */
  useCode(root: string | undefined): void
  /** From its next start on it has these settings besides its own, and lacks those that are undefined. */
  useSettings(changed: Readonly<Record<string, string | undefined>>): void
  /** Lines that it logged as an error or worse, and output that isn't a log line. */
  readonly errors: readonly string[]
  /**
   * When it last logged that it is up (performance.now()); undefined if it never did. It changes with each
   * restart.
   */
  upAtMs(): number | undefined
  /** Waits until it is up after a start later than `upAtMs`. @throws TimeoutError with its last lines */
  whenUpAgain(upAtMs: number | undefined): Promise<void>
  /** Stops it in order and starts it again, and waits until it is up. @throws TimeoutError if it doesn't come up */
  restart(): Promise<void>
  /** The last lines that it logged. */
  lastLines(): readonly string[]
}

export interface PartOptions {
  name: string
  /** Its path in the project. */
  script: string
  args: readonly string[]
  env: Readonly<Record<string, string>>
  /** Where NAME.log is. */
  folder: string
  children: ChildTracker
  /** Called with what the supervisor says of it. */
  report: (line: string) => void
}

/**
 * Starts a process of the service under supervision, with a clock that can be shifted, and appends what it
 * prints to NAME.log in `folder`. It does not wait until the process is up.
 */
export function startPart({ name, script, args, env, folder, children, report }: PartOptions): Part {
  const clockFile = path.join(folder, `${name}.clock`)
  const log = fs.createWriteStream(path.join(folder, `${name}.log`), { flags: 'a' })
  const errors: string[] = []
  const lastLines: string[] = []
  let upAtMs: number | undefined
  const onLine = (line: string): void => {
    log.write(`${line}\n`)
    lastLines.push(line.slice(0, 400))
    if (lastLines.length > KEPT_LINES) lastLines.shift()
    if (isErrorLine(line)) errors.push(line)
    if (line.includes('"msg":"the API listens"') || line.includes('"msg":"the workers work"'))
      upAtMs = performance.now()
  }
  const scriptIn = (root = ROOT): string => path.join(root, script)
  const words = ['--import', CLOCK, scriptIn(), ...args]
  const settings: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    NODE_COMPILE_CACHE: compileCacheDir(process.env),
    CLOCK_FILE: clockFile,
    ...env,
  }
  const child = keepProcess(
    {
      name,
      command: process.execPath,
      args: words,
      env: settings,
      onLine,
      onErrorLine: onLine,
      stopLimitMs: STOP_LIMIT_MS,
    },
    report,
    children,
  )
  const part: Part = {
    name,
    child,
    errors,
    upAtMs: () => upAtMs,
    lastLines: () => lastLines,
    useCode: (root) => void words.splice(2, 1, scriptIn(root)),
    useSettings: (changed) => void Object.assign(settings, changed),
    shiftClock(shiftMs) {
      fs.writeFileSync(clockFile, String(shiftMs))
      const pid = child.pid()
      if (pid !== undefined) process.kill(pid, 'SIGUSR2')
    },
    async whenUpAgain(beforeMs) {
      const isUp = () => (upAtMs === beforeMs ? undefined : true)
      try {
        await waitFor(`the next start of ${name}`, isUp, { limitMs: UP_LIMIT_MS, everyMs: 20 })
      } catch (error) {
        if (!(error instanceof TimeoutError)) throw error
        const life = child.pid() === undefined ? 'it is dead' : `it runs, with pid ${child.pid()}`
        throw new TimeoutError(`${error.message}: ${life}, and last logged\n${lastLines.join('\n')}`)
      }
    },
    async restart() {
      const beforeMs = upAtMs
      await child.stop()
      child.start()
      await part.whenUpAgain(beforeMs)
    },
  }
  return part
}

/** Whether a line is logged as an error or worse, or is no log line, such as a stack trace. */
function isErrorLine(line: string): boolean {
  if (!line.startsWith('{'))
    return line.trim() !== '' && !/ExperimentalWarning|Use `node --trace-warnings/.test(line)
  try {
    return (JSON.parse(line) as { level: number }).level >= ERROR_LEVEL
  } catch {
    return false // incomplete: the process was killed while it wrote the line
  }
}
