import type { Config } from '../../shared/platform/config.ts'
import { runOperator, type OperatorWorld } from '../../scripts/operator/run.ts'

export interface Ran {
  exitCode: number
  stdout: string
  stderr: string
}

/** Runs a command of the operator with these settings, and gives what it printed. */
export async function runCommand(
  env: NodeJS.ProcessEnv,
  argv: readonly string[],
  more: Pick<OperatorWorld, 'confirm' | 'now'> = {},
): Promise<Ran> {
  let [stdout, stderr] = ['', '']
  const exitCode = await runOperator({
    argv,
    env,
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
    ...more,
  })
  return { exitCode, stdout, stderr }
}

/** The operator's settings for the servers of a test; there is no data folder of `npm start`. */
export const operatorEnv = ({ mongodbUrl, redisUrl, queuePrefix }: Config): NodeJS.ProcessEnv => ({
  MONGODB_URL: mongodbUrl,
  REDIS_URL: redisUrl,
  QUEUE_PREFIX: queuePrefix,
  DATA_DIR: '/nonexistent',
  DISPUTE_HOLD_MINUTES: '0',
})

/** Runs a command with --json on the servers of a test, and gives its answer. */
export async function runVerb(
  { MONGODB_URL, REDIS_URL, QUEUE_PREFIX }: { readonly [name: string]: string | undefined },
  argv: readonly string[],
  now?: () => number,
): Promise<{ exitCode: number; json: Record<string, unknown> }> {
  const env = { MONGODB_URL, REDIS_URL, QUEUE_PREFIX, DATA_DIR: '/nonexistent', DISPUTE_HOLD_MINUTES: '0' }
  const { exitCode, stdout } = await runCommand(env, [...argv, '--json'], now === undefined ? {} : { now })
  return { exitCode, json: JSON.parse(stdout) as Record<string, unknown> }
}
