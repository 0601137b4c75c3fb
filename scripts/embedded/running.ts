import path from 'node:path'
import { z } from 'zod'
import type { VariableName } from '../../shared/platform/config.ts'
import { readJsonFile, replaceFile, textWithSum } from '../../shared/platform/durable-file.ts'
import { StartError } from '../../shared/platform/process.ts'

/**
 * The settings that the operator's command needs to know as the network does. Not one that is a secret, leads
 * to one, or may hold a password, as a URL may.
 */
const NOTED = [
  'QUEUE_PREFIX',
  'SEAL_INTERVAL_SECONDS',
  'SWEEP_SECONDS',
  'SIGNUPS',
  'FREE_UNTIL',
  'REGISTER_BITS',
  'SHARE_BITS',
  'SHARES_PER_DAY',
  'INVOICE_MINUTES',
  'PAY_BY_MINUTES',
  'ACCEPT_HOURS',
  'DISPUTE_HOLD_MINUTES',
  'XNO_USD',
  'XMR_USD',
  'MONERO_CONFIRMATIONS',
  'PAYMENT_POLL_SECONDS',
  'PAYOUTS',
  'MIN_PAYOUT_XNO',
  'MIN_PAYOUT_XMR',
  'MAX_FEE_XMR',
] as const satisfies readonly VariableName[]

const runningFile = z.object({
  mongodbUrl: z.string(),
  redisUrl: z.string(),
  // Absent or others if another version wrote the file.
  settings: z.partialRecord(z.enum(NOTED), z.string()).catch({}),
})
export type Running = z.output<typeof runningFile>

const runningFileIn = (dataDir: string): string => path.join(dataDir, 'running.json')

/**
 * Writes where the servers of this start listen and what is set into a file of mode 600, for the operator's
 * command. The URLs hold passwords.
 *
 * @param env what the processes of the network are given
 */
export function noteRunning(
  dataDir: string,
  servers: { mongodbUrl: string; redisUrl: string },
  env: NodeJS.ProcessEnv,
): void {
  const settings: Running['settings'] = {}
  for (const name of NOTED) {
    const text = env[name]
    if (isSet(text)) settings[name] = text
  }
  replaceFile(runningFileIn(dataDir), textWithSum({ ...servers, settings } satisfies Running))
}

/**
 * Reads what the last start in this folder noted. Its servers may have been stopped since.
 *
 * @returns undefined if there was no start
 * @throws StartError if the file holds something else
 */
export function readRunning(dataDir: string): Running | undefined {
  const file = runningFileIn(dataDir)
  return readJsonFile(
    file,
    runningFile,
    (cause) =>
      new StartError(
        `${file} does not hold what "npm start" writes there; start the network again, or remove the file.`,
        { cause },
      ),
  )
}

/**
 * An environment completed by the running network: its servers' URLs and its settings stand in for those that
 * `env` does not set. If `env` names another network's server, the settings don't.
 */
export function completeEnvironment(env: NodeJS.ProcessEnv, running: Running): NodeJS.ProcessEnv {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => isSet(value)))
  const servers = { MONGODB_URL: running.mongodbUrl, REDIS_URL: running.redisUrl }
  const namesAnotherServer = Object.entries(servers).some(
    ([name, url]) => isSet(given[name]) && given[name] !== url,
  )
  return { ...servers, ...(namesAnotherServer ? {} : running.settings), ...given }
}

function isSet(text: string | undefined): text is string {
  return text !== undefined && text !== ''
}
