/** One mining thread: searches block after block and reports until it is told to stop. */
import { parentPort, workerData } from 'node:worker_threads'
import { createSearch } from './block-search.ts'
import { BLOCK_NONCES, drawHead } from './block.ts'

/** What a thread is started with. `stop` is shared memory: anything but 0 in it ends the thread after its block. */
export type ThreadOrder = { prefix: string; difficultyBits: number; stop: Int32Array }

/** What a thread did since its last report. */
export type ThreadReport = { hashes: number; nonces: string[] }

const REPORT_MS = 250

/** Searches block after block until `order.stop` is set, and reports each find, and what was searched every 250 ms. */
function mineUntilStopped(order: ThreadOrder, send: (report: ThreadReport) => void): void {
  const searchBlock = createSearch()
  let hashes = 0
  let reportedAt = performance.now()
  const report = (nonces: string[]): void => {
    send({ hashes, nonces })
    hashes = 0
    reportedAt = performance.now()
  }
  while (Atomics.load(order.stop, 0) === 0) {
    const nonces = searchBlock(order.prefix, drawHead(), order.difficultyBits)
    hashes += BLOCK_NONCES
    if (nonces.length > 0 || performance.now() - reportedAt >= REPORT_MS) report(nonces)
  }
  report([])
}

const port = parentPort
if (port === null) throw new Error('miner-thread.ts must be started as a worker thread')
mineUntilStopped(workerData as ThreadOrder, (report) => port.postMessage(report))
