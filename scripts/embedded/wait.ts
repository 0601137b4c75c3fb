import { StartError } from '../../shared/platform/process.ts'

export class TimeoutError extends StartError {
  override readonly name = 'TimeoutError'
}

/** A handler for `catch` that gives `value` for a TimeoutError, and throws any other error. */
export const orIfLate =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof TimeoutError) return value
    throw error
  }

/**
 * Calls `check` again and again until it gives something other than undefined, which is returned.
 *
 * @param what is waited for, at the beginning of a sentence
 * @throws TimeoutError once `limitMs` have passed, the signal's reason once it is aborted, and what `check`
 *   throws
 */
export async function waitFor<T>(
  what: string,
  check: () => Promise<T | undefined> | T | undefined,
  options: { limitMs: number; everyMs?: number | undefined; signal?: AbortSignal | undefined },
): Promise<T> {
  const deadline = performance.now() + options.limitMs
  for (;;) {
    options.signal?.throwIfAborted()
    const result = await check()
    if (result !== undefined) return result
    if (performance.now() >= deadline)
      throw new TimeoutError(`${what} did not come within ${Math.round(options.limitMs / 1000)} s`)
    await new Promise((resolve) => setTimeout(resolve, options.everyMs ?? 50))
  }
}
