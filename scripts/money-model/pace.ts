/* How much slower everything is than on an idle machine, as measured by a piece of work now and then. */

const EVERY_MS = 1_000
const WORK_MICROSECONDS = 4_000
/** A burst of somebody else's work is over in that time. */
const LOOKED_BACK = 30

export interface Pace {
  /** At least 1: by so much longer may everything take that the services do. */
  stretch(): number
  close(): void
}

/** The services that this process has started have its priority, so that they are as slow as it is. */
export function measurePace(): Pace {
  const samples: number[] = []
  const timer = setInterval(() => {
    samples.push(work())
    if (samples.length > LOOKED_BACK) samples.shift()
  }, EVERY_MS).unref()
  return {
    stretch: () =>
      Math.max(1, samples.reduce((total, sample) => total + sample, 0) / Math.max(1, samples.length)),
    close: () => clearInterval(timer),
  }
}

/** @returns the time that a piece of work took, in terms of the time that it was at work */
function work(): number {
  const [fromMs, before] = [performance.now(), process.threadCpuUsage()]
  for (;;) {
    const { user, system } = process.threadCpuUsage(before)
    const usedMicroseconds = user + system
    if (usedMicroseconds >= WORK_MICROSECONDS)
      return ((performance.now() - fromMs) * 1_000) / usedMicroseconds
  }
}
