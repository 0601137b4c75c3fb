import { ConfigError } from './config.ts'
import { IDLE_DRAIN_MS, STOP_LIMIT_MS } from './limits.ts'

/** A process that cannot start for a reason its operator can mend: shown as its sentence alone. */
export class StartError extends Error {
  override name = 'StartError'
}

/**
 * npm hands on the Ctrl-C that the terminal has sent us already, and so it is with a service manager's signal
 * to all of a unit: two signals this close together are one.
 */
export const SAME_SIGNAL_MS = 750

/** What a stop can take: idle connections, work under way, and closing. */
const LAST_MS = IDLE_DRAIN_MS + STOP_LIMIT_MS + 5_000

/**
 * Runs a process's one story, from reading its settings to closing. `stopping` resolves at SIGTERM, SIGINT,
 * or when the process that started this one over an IPC channel is gone; a second signal ends at once, unless
 * it is the first one's echo. A story that throws, or one that does not end in time after it was told to
 * stop, ends the process with 1 and says why. A story that means to go on for a while after it was told says
 * so by `allowMs`.
 */
export async function runUntilStopped(
  name: string,
  story: (stopping: Promise<void>, allowMs: (milliseconds: number) => void) => Promise<void>,
): Promise<void> {
  let toldAt: number | undefined
  let lastMs = LAST_MS
  const stopping = new Promise<void>((resolve) => {
    const stop = (): void => {
      const now = performance.now()
      if (toldAt !== undefined) {
        if (now - toldAt < SAME_SIGNAL_MS) return
        process.exit(1)
      }
      toldAt = now
      setTimeout(() => {
        process.stderr.write(`${name}: did not stop within ${lastMs} ms and is ended\n`)
        process.exit(1)
      }, lastMs).unref()
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    process.once('disconnect', () => {
      if (toldAt === undefined) stop()
    })
  })
  try {
    await story(stopping, (milliseconds) => (lastMs = LAST_MS + milliseconds))
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
