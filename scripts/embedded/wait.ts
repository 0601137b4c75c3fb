import { StartError } from '../../shared/foundation/process.ts'

export class TimeoutError extends StartError {
  override readonly name = 'TimeoutError'
}

/** For `catch`: gives `value` if a wait took too long, and throws any other error. */
export const orIfLate =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof TimeoutError) return value
    throw error
  }

/**
 * Asks `check` again and again until it gives something other than undefined; what it throws ends the wait.
 *
 * @throws TimeoutError naming `what` once `limitMs` have passed; the signal's reason once it is aborted
 */
export async function waitFor<T>(
  what: string,
  check: () => Promise<T | undefined> | T | undefined,
  options: { limitMs: number; everyMs?: number; signal?: AbortSignal | undefined },
): Promise<T> {
  const deadline = performance.now() + options.limitMs
  for (;;) {
    options.signal?.throwIfAborted()
    const found = await check()
    if (found !== undefined) return found
    if (performance.now() >= deadline)
      throw new TimeoutError(`${what} did not come within ${Math.round(options.limitMs / 1000)} s`)
    await new Promise((resolve) => setTimeout(resolve, options.everyMs ?? 50))
  }
}
