/*
 * Loaded into the API by a benchmark (`node --import`). It writes the processor time of the main thread to the
 * file THREAD_SAMPLES whenever that has grown, so that the benchmark can tell how much of it lies between a
 * question and its answer. Some systems count processor time in steps of 4 or 10 ms.
 */
import fs from 'node:fs'
import { isMainThread } from 'node:worker_threads'

const { THREAD_SAMPLES: file } = process.env
if (isMainThread && file !== undefined) {
  const fd = fs.openSync(file, 'a')
  let lastMs = -1
  setInterval(() => {
    const { user, system } = process.threadCpuUsage()
    const cpuMs = (user + system) / 1_000
    if (cpuMs === lastMs) return
    lastMs = cpuMs
    fs.writeSync(fd, Float64Array.of(performance.timeOrigin + performance.now(), cpuMs))
  }, 1).unref()
}
