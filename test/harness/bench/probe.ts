/*
 * Loaded into a process of the service by a benchmark (`node --import`). On SIGUSR2 it collects garbage and
 * writes a line of JSON to standard output: the process's memory, its handles, and the delay of its event
 * loop since the last time.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Vitals } from './processes.ts'

const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()

process.on('SIGUSR2', () => {
  const lagP99Ms = delay.percentile(99) / 1e6
  delay.reset()
  // 'last-resort' also returns the heap's reserve to the system, so that rss is what is in use.
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
