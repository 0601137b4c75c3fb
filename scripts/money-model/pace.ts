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
  close(): void
}

/**
 * Begins to measure, each second until close(). The services that this process has started have its priority,
 * so they are as slow as it is.
 */
export function measurePace(): Pace {
  const samples: number[] = []
  const timer = setInterval(() => {
    samples.push(measureOnce())
    if (samples.length > SAMPLES) samples.shift()
  }, EVERY_MS).unref()
  return {
    slowdown: () =>
      Math.max(1, samples.reduce((total, sample) => total + sample, 0) / Math.max(1, samples.length)),
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
