import { runOperator } from './operator/run.ts'

process.exitCode = await runOperator({
  argv: process.argv.slice(2),
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
})
// Connections to servers may still be retrying. Exits once the output is written, even to a slow pipe.
process.stdout.write('', () => process.exit())
