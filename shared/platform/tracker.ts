/** Work that is under way in a process, so that its stop can wait for it. */
export interface Tracker {
  /** How much is under way. */
  size(): number
  /** Tracks a piece of work until it ends, and gives its result or error. */
  track<T>(work: Promise<T>): Promise<T>
  /** Resolves once nothing is under way; what is added meanwhile is waited for too. */
  whenIdle(): Promise<void>
}

/** Creates a tracker with nothing under way. */
export function createTracker(): Tracker {
  const underWay = new Set<Promise<unknown>>()
  return {
    size: () => underWay.size,
    track(work) {
      underWay.add(work)
      const forget = (): void => void underWay.delete(work)
      work.then(forget, forget)
      return work
    },
    async whenIdle() {
      while (underWay.size > 0) await Promise.allSettled(underWay)
    },
  }
}
