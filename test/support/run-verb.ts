import { runOperator } from '../../scripts/operator/run.ts'

/** What an operator's verb answers on the servers of a test, with --json. */
export async function runVerb(
  servers: { readonly [name: string]: string | undefined },
  argv: readonly string[],
  now?: () => number,
): Promise<{ exitCode: number; json: Record<string, unknown> }> {
  const { MONGODB_URL, REDIS_URL, QUEUE_PREFIX } = servers
  let stdout = ''
  const exitCode = await runOperator({
    argv: [...argv, '--json'],
    env: { MONGODB_URL, REDIS_URL, QUEUE_PREFIX, DATA_DIR: '/nonexistent' },
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: () => undefined },
    ...(now === undefined ? {} : { now }),
  })
  return { exitCode, json: JSON.parse(stdout) as Record<string, unknown> }
}
