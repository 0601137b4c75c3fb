import { spawn } from 'node:child_process'

/**
 * Runs a line of the shell, whose output goes where this program's does.
 *
 * @param input what it gets on stdin
 * @param signal ends it
 * @returns its exit code; null if a signal ended it. Rejects if it can't be run, or the signal comes
 */
export const runShell = (
  line: string,
  { input = '', signal }: { input?: string; signal?: AbortSignal } = {},
): Promise<number | null> =>
  new Promise((resolve, reject) => {
    const child = spawn(line, {
      shell: true,
      stdio: ['pipe', 'inherit', 'inherit'],
      ...(signal === undefined ? {} : { signal }),
    })
    child.once('error', reject)
    child.once('close', resolve)
    // A command that reads nothing may have ended already.
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(input)
  })
