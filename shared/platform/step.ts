/**
 * Called before and after each write of the sequencer, the sealer and the signer, so that a test can observe,
 * stop or interrupt them there. Production passes none.
 */
export type WatchStep = (write: string, phase: 'before' | 'after') => void | Promise<void>

/**
 * Performs one write, and calls `watch` before and after it, not after a failure.
 *
 * @returns what `perform` returns
 */
export async function performStep<T>(
  watch: WatchStep | undefined,
  write: string,
  perform: () => T | Promise<T>,
): Promise<T> {
  await watch?.(write, 'before')
  const result = await perform()
  await watch?.(write, 'after')
  return result
}
