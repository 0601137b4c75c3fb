/**
 * Waits for `work` and returns its result, but no longer than `limitMs`.
 *
 * @throws `makeError()` if it takes longer; the work isn't stopped then, and its effects may still happen
 */
export async function withDeadline<T>(work: Promise<T>, limitMs: number, makeError: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(makeError()), limitMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Waits for work that goes on, and returns its result, unless `signal` is aborted before.
 *
 * @throws the reason of `signal` as soon as that is aborted; the work itself goes on
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    const forget = (): void => signal.removeEventListener('abort', stop)
    work.then(
      (result) => {
        forget()
        resolve(result)
      },
      (error: unknown) => {
        forget()
        reject(error)
      },
    )
  })
}
