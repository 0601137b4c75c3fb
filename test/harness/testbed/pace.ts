/* Measures how much slower this process is than on an idle machine. */

const EVERY_MS = 1_000
const WORK_MICROSECONDS = 4_000
/** How many of the last samples count. */
const SAMPLES = 30

export interface Pace {
  /**
   * How many times as long work takes now as on an idle machine; at least 1, the mean of the last samples.
   */
  slowdown(): number
  /** The most that a sample said from one time to another, on the clock of performance.now(); at least 1. */
  worstBetween(fromMs: number, toMs: number): number
  close(): void
}

/**
 * Begins to measure, each second until close(). The services that this process has started have its priority,
 * so they are as slow as it is.
 */
export function measurePace(): Pace {
  const samples: { fromMs: number; toMs: number; times: number }[] = []
  const timer = setInterval(() => {
    const fromMs = performance.now()
    samples.push({ fromMs, times: measureOnce(), toMs: performance.now() })
  }, EVERY_MS).unref()
  return {
    slowdown() {
      const last = samples.slice(-SAMPLES)
      return Math.max(1, last.reduce((total, { times }) => total + times, 0) / Math.max(1, last.length))
    },
    worstBetween: (fromMs, toMs) =>
      Math.max(
        1,
        ...samples.filter((sample) => sample.toMs > fromMs && sample.fromMs < toMs).map(({ times }) => times),
      ),
    close: () => clearInterval(timer),
  }
}

/** Computes for WORK_MICROSECONDS of processor time. @returns the time that passed, as a multiple of that */
function measureOnce(): number {
  const [fromMs, before] = [performance.now(), process.threadCpuUsage()]
  for (;;) {
    const { user, system } = process.threadCpuUsage(before)
    const usedMicroseconds = user + system
    if (usedMicroseconds >= WORK_MICROSECONDS)
      return ((performance.now() - fromMs) * 1_000) / usedMicroseconds
  }
}
