/** Runs `work` once all earlier work of the same key in this process has ended; gives its result or error. */
export type Serialize = <T>(key: string, work: () => Promise<T>) => Promise<T>

/**
 * Creates a function that runs work of the same key one after the other, in the order of its calls. Nothing
 * relies on it for correctness: between processes a unique index or a conditional update decides. It keeps
 * transactions on one document from conflicting, because each conflict costs a pause and a retry.
 */
export function createSerializer(): Serialize {
  const lastByKey = new Map<string, Promise<unknown>>()
  return (key, work) => {
    const last = lastByKey.get(key)
    const current = last === undefined ? work() : last.then(work, work)
    lastByKey.set(key, current)
    const forget = (): void => {
      if (lastByKey.get(key) === current) lastByKey.delete(key)
    }
    current.then(forget, forget)
    return current
  }
}
