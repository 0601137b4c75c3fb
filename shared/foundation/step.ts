/**
 * A look into the order of writes. The sequencer and the sealer call it around each write, so that whoever
 * runs them can watch, stop or interrupt them at that place. Production passes none.
 */
export type WatchStep = (write: string, phase: 'before' | 'after') => void | Promise<void>

/** Performs one write of an argued order between the two calls of its watcher. */
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
