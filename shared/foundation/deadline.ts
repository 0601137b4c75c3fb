/**
 * What `work` comes to, or `makeError()` if it takes longer than `limitMs`. The work itself goes on: what it
 * does may still be done after the error.
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
