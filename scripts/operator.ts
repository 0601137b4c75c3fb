import { createInterface } from 'node:readline/promises'
import { runOperator } from './operator/run.ts'

/** Asks the person at the terminal. @returns whether the answer is yes */
async function confirm(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await terminal.question(question)
  terminal.close()
  return /^y(es)?$/i.test(answer.trim())
}

process.exitCode = await runOperator({
  argv: process.argv.slice(2),
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  ...(process.stdin.isTTY && process.stderr.isTTY ? { confirm } : {}),
})
// Connections to servers may still be retrying. Exits once the output is written, even to a slow pipe.
process.stdout.write('', () => process.exit())
