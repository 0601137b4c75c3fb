/*
 * Loaded into the processes of a run whose memory is measured (node --expose-gc --import): collects garbage
 * regularly. Otherwise V8 may leave a hundred MiB of it for an hour, the longer the less a process has to do,
 * and nobody could tell that from a leak.
 */
const { COLLECT_EVERY_MS } = process.env
const { gc } = globalThis
if (gc === undefined || COLLECT_EVERY_MS === undefined)
  throw new Error('--expose-gc or COLLECT_EVERY_MS is missing')
setInterval(() => void gc(), Number(COLLECT_EVERY_MS)).unref()
