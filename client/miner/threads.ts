/**
 * The part of the miner that depends on Node; in browsers, client/browser/threads.ts replaces this file. The package
 * has both, and all others in it import `#threads`.
 */
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { ThreadOrder, ThreadReport } from './miner-thread.ts'

export { createProgramRunner, prepareNativeSearch } from './native-search.ts'

/** Starts a mining thread, and resolves when it has ended. On the signal, it ends after its block. */
export type RunThread = (
  order: Omit<ThreadOrder, 'stop'>,
  signal: AbortSignal,
  onReport: (report: ThreadReport) => void,
) => Promise<void>

export const yieldToEvents = (): Promise<void> => setImmediate()

/** Runs a worker thread; undefined on a platform without threads. */
export const runThread: RunThread | undefined = (order, signal, onReport) =>
  new Promise((resolve, reject) => {
    const stop = new Int32Array(new SharedArrayBuffer(4))
    const stopThread = (): void => void Atomics.store(stop, 0, 1)
    if (signal.aborted) stopThread()
    signal.addEventListener('abort', stopThread, { once: true })
    const workerData: ThreadOrder = { ...order, stop }
    // A worker inherits all options, and Node refuses that of `node --input-type=module -e …` with a file. A
    // list may not name options of V8, such as --max-old-space-size, so it is given only if there is need.
    const isInputType = (argument: string): boolean => argument.startsWith('--input-type')
    const options = process.execArgv.some(isInputType)
      ? { execArgv: process.execArgv.filter((argument) => !isInputType(argument)) }
      : {}
    // .ts in this repository, .js in the package.
    const file = import.meta.url.endsWith('.ts') ? './miner-thread.ts' : './miner-thread.js'
    const worker = new Worker(new URL(file, import.meta.url), { workerData, ...options })
    worker.on('message', (report: ThreadReport) => {
      try {
        onReport(report)
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
