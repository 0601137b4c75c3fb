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
