import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { waitFor } from '../../scripts/embedded/wait.ts'

export interface RunningProcess {
  readonly pid: number
  /** Everything it wrote, both streams, a line each. */
  logged(): string
  /**
   * The first line that it writes or wrote with `part` in it, or the `nth`. @throws Error if it ends before that
   */
  waitForLine(part: string | RegExp, nth?: number): Promise<string>
  /** Sends a signal to this process by its number. */
  kill(signal: NodeJS.Signals): void
  /** Resolves with its exit code, or the signal that ended it, once all that it wrote is in `logged()`. */
  readonly ended: Promise<number | NodeJS.Signals>
  /** SIGTERM, and resolves when it is gone. */
  stop(): Promise<void>
}

/** All that a process of a test is given of this one's environment. */
const GIVEN_ENV = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] }
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const READY_LIMIT_MS = 100_000

/**
 * Runs one of the project's programs as `node script …` does, in a process of its own with no environment but
 * `env`. It ends by itself when this process is gone, because the channel between them breaks.
 *
 * @param openFiles the limit of descriptors that its operator gives it
 * @param root where the program lies, if it is not this one
 */
export function startProcess(
  script: string,
  env: NodeJS.ProcessEnv,
  args: readonly string[] = [],
  openFiles?: number,
  root: string = ROOT,
): RunningProcess {
  const limit = openFiles === undefined ? '' : `ulimit -n ${openFiles} && `
  const child = spawn('/bin/sh', ['-c', `${limit}exec "$@"`, 'sh', process.execPath, script, ...args], {
    cwd: root,
    env: { ...GIVEN_ENV, ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const { pid } = child
  if (pid === undefined) throw new Error(`${script} could not be started`)
  const lines: string[] = []
  for (const stream of [child.stdout, child.stderr])
    if (stream !== null) createInterface({ input: stream }).on('line', (line) => void lines.push(line))
  let isGone = false
  const ended = new Promise<number | NodeJS.Signals>((resolve) => {
    // Not `exit`, which may come before its last words have been read.
    child.once('close', (code: number | null, signal: NodeJS.Signals | null) => {
      isGone = true
      resolve(code ?? signal ?? 0)
    })
  })
  return {
    pid,
    ended,
    logged: () => lines.join('\n'),
    waitForLine: (part, nth = 1) =>
      waitFor(
        `"${part}" from ${script}`,
        () => {
          const isIt = (text: string) => (part instanceof RegExp ? part.test(text) : text.includes(part))
          const line = lines.filter(isIt)[nth - 1]
          if (line === undefined && isGone)
            throw new Error(`${script} ended without saying "${part}":\n${lines.join('\n')}`)
          return line
        },
        { limitMs: READY_LIMIT_MS, everyMs: 10 },
      ),
    kill: (signal) => void child.kill(signal),
    async stop() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** `node api/main.ts` on a free port; resolves with its URL once it listens. */
export async function startApiProcess(
  env: Record<string, string>,
  openFiles?: number,
): Promise<RunningProcess & { url: string }> {
  const api = startProcess('api/main.ts', { ...env, PORT: '0' }, [], openFiles)
  const { port } = JSON.parse(await api.waitForLine('the API listens')) as { port: number }
  return { ...api, url: `http://127.0.0.1:${port}` }
}

/** Waits until `url` of an API that has just been started is answered 200. */
export const whenAnswering = (url: string): Promise<true> =>
  waitFor(
    `an answer at ${url}`,
    () =>
      fetch(url).then(
        ({ status }) => (status === 200 ? true : undefined),
        () => undefined, // it doesn't listen yet
      ),
    { limitMs: 120_000 },
  )

/** `node workers/main.ts`; resolves once it takes jobs. */
export async function startWorkersProcess(
  env: Record<string, string>,
  args: readonly string[] = [],
): Promise<RunningProcess> {
  const workers = startProcess('workers/main.ts', { ...env, OPERATOR_PORT: '0' }, args)
  await workers.waitForLine('the workers work')
  return workers
}

/**
 * Runs a script that is a part of a test, in a process of its own. `ended`: the signal that ended it, or its
 * exit code.
 */
export function startChild(
  script: URL,
  env: Record<string, string>,
): { child: ChildProcess; ended: Promise<string | number> } {
  const child = spawn(process.execPath, [fileURLToPath(script)], {
    env: { ...GIVEN_ENV, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = new Promise<string | number>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(signal ?? code ?? 'unknown'))
  })
  return { child, ended }
}
