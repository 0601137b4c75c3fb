import { ConfigError } from './config.ts'
import { IDLE_DRAIN_MS, STOP_LIMIT_MS } from './limits.ts'

/** The process cannot start, for a reason that its operator can fix; only the message is shown. */
export class StartError extends Error {
  override name = 'StartError'
}

/**
 * Two signals this close together are one: npm hands on the Ctrl-C that the terminal has sent us already, and
 * a service manager signals every process of a unit.
 */
export const SAME_SIGNAL_MS = 750

/** Longest time of a stop, in milliseconds: idle connections, work under way, and closing. */
const STOP_MS = IDLE_DRAIN_MS + STOP_LIMIT_MS + 5_000

/**
 * Runs `run`, a process from reading its settings to closing, and exits: with 0 when it ends; with 1, and
 * the reason on standard error, if it throws or doesn't end in time after a signal.
 *
 * `stopping` resolves at SIGTERM or SIGINT, or when the process that started this one over an IPC channel has
 * ended. A second signal ends the process at once, unless it comes within SAME_SIGNAL_MS. A process that needs
 * longer to stop adds to its time by `allowMs`.
 */
export async function runUntilStopped(
  name: string,
  run: (stopping: Promise<void>, allowMs: (milliseconds: number) => void) => Promise<void>,
): Promise<void> {
  let signalledAt: number | undefined
  let limitMs = STOP_MS
  const stopping = new Promise<void>((resolve) => {
    const stop = (): void => {
      const now = performance.now()
      if (signalledAt !== undefined) {
        if (now - signalledAt < SAME_SIGNAL_MS) return
        process.exit(1)
      }
      signalledAt = now
      setTimeout(() => {
        process.stderr.write(`${name}: did not stop within ${limitMs} ms and is ended\n`)
        process.exit(1)
      }, limitMs).unref()
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    process.once('disconnect', () => {
      if (signalledAt === undefined) stop()
    })
  })
  try {
    await run(stopping, (milliseconds) => (limitMs = STOP_MS + milliseconds))
    process.exit(0)
  } catch (error) {
    process.stderr.write(
      error instanceof ConfigError || error instanceof StartError
        ? `${error.message}\n`
        : `${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    )
    process.exit(1)
  }
}
