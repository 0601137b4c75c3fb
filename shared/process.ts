import { ConfigError } from './config.ts'
import { STOP_LIMIT_MS } from './limits.ts'

/** A process that cannot start for a reason its operator can mend: shown as its sentence alone. */
export class StartError extends Error {
  override name = 'StartError'
}

/**
 * Runs a process's one story, from reading its settings to closing. `stopping` resolves at SIGTERM, SIGINT, or when the
 * process that started this one over an IPC channel is gone; a second signal ends at once. A story that throws, or one
 * that does not end in time after it was told to stop, ends the process with 1 and says why.
 */
export async function runUntilStopped(name: string, story: (stopping: Promise<void>) => Promise<void>): Promise<void> {
  let told = false
  const stopping = new Promise<void>((resolve) => {
    const stop = (): void => {
      if (told) process.exit(1)
      told = true
      setTimeout(() => {
        process.stderr.write(`${name}: did not stop within ${STOP_LIMIT_MS + 5_000} ms and is ended\n`)
        process.exit(1)
      }, STOP_LIMIT_MS + 5_000).unref()
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    process.once('disconnect', () => {
      if (!told) stop()
    })
  })
  try {
    await story(stopping)
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
