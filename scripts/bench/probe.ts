/*
 * Loaded into a process of the service by a benchmark (`node --import`), which asks with SIGUSR2: one line of
 * JSON on standard output, after a full collection, with what the process holds and how late its event loop
 * ran since last asked.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Vitals } from './processes.ts'

const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()

process.on('SIGUSR2', () => {
  const lagP99Ms = delay.percentile(99) / 1e6
  delay.reset()
  // Of the last resort: it gives back what the heap keeps in reserve, so that what is left is what is held.
  ;(globalThis as { gc?: (options: { flavor: 'last-resort' }) => void }).gc?.({ flavor: 'last-resort' })
  const { rss, heapUsed } = process.memoryUsage()
  const vitals: Vitals = {
    rssBytes: rss,
    heapBytes: heapUsed,
    handles: process.getActiveResourcesInfo().length,
    lagP99Ms,
  }
  process.stdout.write(`${JSON.stringify({ msg: 'vitals', vitals })}\n`)
})
