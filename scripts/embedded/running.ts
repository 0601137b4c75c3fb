import path from 'node:path'
import { z } from 'zod'
import type { VariableName } from '../../shared/foundation/config.ts'
import { readJsonFile, replaceFile } from '../../shared/foundation/durable-file.ts'
import { StartError } from '../../shared/foundation/process.ts'

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
  'XNO_USD',
  'XMR_USD',
  'MONERO_CONFIRMATIONS',
  'PAYMENT_POLL_SECONDS',
  'PAYOUTS',
  'MIN_PAYOUT_XNO',
  'MIN_PAYOUT_XMR',
] as const satisfies readonly VariableName[]

const runningFile = z.object({
  mongodbUrl: z.string(),
  redisUrl: z.string(),
  // Absent or others if another version wrote the file.
  settings: z.partialRecord(z.enum(NOTED), z.string()).catch({}),
})
export type Running = z.output<typeof runningFile>

const fileIn = (dataDir: string): string => path.join(dataDir, 'running.json')

/**
 * Notes where the servers of this start listen and what is set, for the operator's command; mode 600, because
 * Redis's URL holds its password.
 *
 * @param env what the parts of the network are given
 */
export function noteRunning(
  dataDir: string,
  servers: { mongodbUrl: string; redisUrl: string },
  env: NodeJS.ProcessEnv,
): void {
  const settings: Running['settings'] = {}
  for (const name of NOTED) {
    const text = env[name]
    if (isGiven(text)) settings[name] = text
  }
  replaceFile(fileIn(dataDir), `${JSON.stringify({ ...servers, settings } satisfies Running)}\n`)
}

/**
 * What the last start in this folder noted, or undefined if there was none. Its servers may have been stopped
 * since.
 */
export function readRunning(dataDir: string): Running | undefined {
  const file = fileIn(dataDir)
  return readJsonFile(
    file,
    runningFile,
    (cause) => new StartError(`${file} does not hold what "npm start" writes there.`, { cause }),
  )
}

/**
 * An environment, and the running network's servers and settings if it has none of its own. One that names
 * another network's servers is left as it is.
 */
export function completeEnvironment(env: NodeJS.ProcessEnv, running: Running): NodeJS.ProcessEnv {
  const own = Object.fromEntries(Object.entries(env).filter(([, value]) => isGiven(value)))
  const servers = { MONGODB_URL: running.mongodbUrl, REDIS_URL: running.redisUrl }
  const isAnother = Object.entries(servers).some(([name, url]) => isGiven(own[name]) && own[name] !== url)
  return { ...servers, ...(isAnother ? {} : running.settings), ...own }
}

function isGiven(text: string | undefined): text is string {
  return text !== undefined && text !== ''
}
