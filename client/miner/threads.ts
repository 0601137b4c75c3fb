/** What of the miner rests on the platform: threads, and turns for other events. browser/threads.ts stands in. */
import { availableParallelism } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { ThreadOrder, ThreadReport } from './miner-thread.ts'

export { runProgram } from './native-search.ts'

/** Starts a mining thread, and resolves when it has ended: on the signal, within a block. */
export type RunThread = (
  order: Omit<ThreadOrder, 'stop'>,
  signal: AbortSignal,
  take: (report: ThreadReport) => void,
) => Promise<void>

export const countCores = (): number => availableParallelism()
export const yieldToEvents = (): Promise<void> => setImmediate()

/** Undefined on a platform without threads. */
export const runThread: RunThread | undefined = (order, signal, take) =>
  new Promise((resolve, reject) => {
    const stop = new Int32Array(new SharedArrayBuffer(4))
    const stopThread = (): void => void Atomics.store(stop, 0, 1)
    if (signal.aborted) stopThread()
    signal.addEventListener('abort', stopThread, { once: true })
    const workerData: ThreadOrder = { ...order, stop }
    // A caller run as `node --input-type=module -e …` hands that option down, and Node refuses it beside a
    // file.
    const execArgv = process.execArgv.filter((argument) => !argument.startsWith('--input-type'))
    // As source, and as the package has it.
    const file = import.meta.url.endsWith('.ts') ? './miner-thread.ts' : './miner-thread.js'
    const worker = new Worker(new URL(file, import.meta.url), { workerData, execArgv })
    worker.on('message', (report: ThreadReport) => {
      try {
        take(report)
      } catch (error) {
        reject(error)
      }
    })
    worker.once('error', reject)
    worker.once('exit', (code) => {
      signal.removeEventListener('abort', stopThread)
      if (code === 0) resolve()
      else reject(new Error(`a mining thread ended with ${code}`))
    })
  })
