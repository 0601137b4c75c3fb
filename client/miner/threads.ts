/** What of the miner rests on the platform: threads, and turns for other events. browser/threads.ts stands in. */
import { availableParallelism } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { ThreadOrder, ThreadReport } from './miner-thread.ts'

/** Starts a mining thread, and resolves when it has ended. */
type RunThread = (order: ThreadOrder, take: (report: ThreadReport) => void) => Promise<void>

export const countCores = (): number => availableParallelism()
export const yieldToEvents = (): Promise<void> => setImmediate()

/** Undefined on a platform without threads. */
export const runThread: RunThread | undefined = (order, take) =>
  new Promise((resolve, reject) => {
    // A caller run as `node --input-type=module -e …` hands that option down, and Node refuses it beside a
    // file.
    const execArgv = process.execArgv.filter((argument) => !argument.startsWith('--input-type'))
    // As source, and as the package has it.
    const file = import.meta.url.endsWith('.ts') ? './miner-thread.ts' : './miner-thread.js'
    const worker = new Worker(new URL(file, import.meta.url), { workerData: order, execArgv })
    worker.on('message', (report: ThreadReport) => {
      try {
        take(report)
      } catch (error) {
        reject(error)
      }
    })
    worker.once('error', reject)
    worker.once('exit', (code) =>
      code === 0 ? resolve() : reject(new Error(`a mining thread ended with ${code}`)),
    )
  })
