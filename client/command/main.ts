#!/usr/bin/env node
import { stoppedError } from './command-error.ts'
import { runAgent } from './run.ts'

const stop = new AbortController()
const onSignal = () => stop.abort(stoppedError('Stopped.'))
// Once: a second Ctrl-C ends the process as if nobody listened.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, onSignal)
// Whoever read the output has gone, such as "head".
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
})

const exitCode = await runAgent({
  argv: process.argv.slice(2),
  env: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
})
// Not process.exit: it would cut off what a pipe has not taken yet.
process.exitCode = exitCode
