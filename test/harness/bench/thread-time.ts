import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** Tells how long a process's main thread was on a processor, from samples that thread-probe.ts writes. */
export interface ThreadTime {
  /** The environment of the process. */
  env: Record<string, string>
  /** Reads what was written so far. @returns milliseconds of the thread between two times of `epochMs` */
  read(): (fromMs: number, toMs: number) => number
  close(): void
}

/** The time by the clock of the samples. */
export const epochMs = (): number => performance.timeOrigin + performance.now()

/** Makes a file for the samples of one process. */
export function openThreadTime(): ThreadTime {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bench-thread-'))
  const file = path.join(folder, 'samples')
  return {
    env: {
      NODE_OPTIONS: `--import ${new URL('thread-probe.ts', import.meta.url).href}`,
      THREAD_SAMPLES: file,
    },
    read() {
      const bytes = fs.readFileSync(file)
      // Times and processor times by turns.
      const samples = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
      return (fromMs, toMs) => cpuMsAt(samples, toMs) - cpuMsAt(samples, fromMs)
    },
    close: () => fs.rmSync(folder, { recursive: true }),
  }
}

/** The processor time at a moment, which lies between two samples on a straight line. */
export function cpuMsAt(samples: Float64Array, atMs: number): number {
  let low = 0
  let high = samples.length / 2
  while (low < high) {
    const middle = (low + high) >> 1
    if ((samples[2 * middle] ?? 0) <= atMs) low = middle + 1
    else high = middle
  }
  const [beforeMs = atMs, before = samples[1] ?? 0] = low === 0 ? [] : samples.subarray(2 * low - 2, 2 * low)
  const [afterMs = beforeMs, after = before] = samples.subarray(2 * low, 2 * low + 2)
  const part = afterMs > beforeMs ? (atMs - beforeMs) / (afterMs - beforeMs) : 0
  return before + part * (after - before)
}
