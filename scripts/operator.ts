import { runOperator } from './operator/run.ts'

process.exitCode = await runOperator({
  argv: process.argv.slice(2),
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
})
// The servers' connections may still be trying; what was written is taken first, also by a slow pipe.
process.stdout.write('', () => process.exit())
