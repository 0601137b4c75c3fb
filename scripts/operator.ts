import { parseArgs } from 'node:util'
import { ConfigError, readConfig } from '../shared/config.ts'
import { openContext } from '../shared/context.ts'
import { withDeadline } from '../shared/deadline.ts'
import { Refusal } from '../shared/errors.ts'
import { createLog } from '../shared/log.ts'
import { SECOND_MS } from '../shared/time.ts'
import { readRunning } from './embedded/running.ts'
import { OPERATOR_VERBS } from './operator/verbs.ts'

const PATIENCE_MS = 10 * SECOND_MS

/** One command of the operator: what it did, as text or with `--json` as one object. */
async function run(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
      adopt: { type: 'boolean', default: false },
    },
  })
  const [name, ...words] = positionals
  const verb = name === undefined ? undefined : OPERATOR_VERBS[name]
  if (verb === undefined || values.help) {
    process.stdout.write(`${describeVerbs(verb === undefined ? undefined : name)}\n`)
    return values.help || name === undefined || name === 'help' ? 0 : 2
  }
  const checked = verb.words.safeParse(words)
  if (!checked.success) {
    process.stderr.write(
      `It is "npm run operator -- ${name} ${verb.usage}": ${checked.error.issues[0]?.message ?? 'the words do not fit'}.\n`,
    )
    return 2
  }
  const ctx = openOperatorContext()
  try {
    await withinPatience(ctx.database.whenReady())
    const done = { ok: true, ...(await withinPatience(verb.run(ctx, words, { adopt: values.adopt }))) }
    process.stdout.write(values.json ? `${JSON.stringify(done)}\n` : `${describeDone(done)}\n`)
    return 0
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    process.stdout.write(
      values.json ? `${JSON.stringify({ ok: false, error: error.code, message: error.message })}\n` : `${error.message}\n`,
    )
    return 1
  } finally {
    await ctx.close()
  }
}

/** The servers of the environment; without them, those of the network that runs from DATA_DIR. */
function openOperatorContext() {
  const running = readRunning(readConfig(process.env, 'start').dataDir)
  const env = running === undefined ? process.env : { MONGODB_URL: running.mongodbUrl, REDIS_URL: running.redisUrl, ...process.env }
  const config = readConfig(env, 'operator')
  return openContext(config, createLog('operator', 'warn', process.stderr), { databaseTimeoutMs: PATIENCE_MS })
}

/** The same of MongoDB and of Redis: one that is not there would be waited for without end. */
const withinPatience = <T>(work: Promise<T>): Promise<T> =>
  withDeadline(
    work,
    PATIENCE_MS,
    () => new Refusal('unavailable', `MongoDB or Redis did not answer within ${PATIENCE_MS / SECOND_MS} s; is the network running?`),
  )

function describeVerbs(name: string | undefined): string {
  const verbs = Object.entries(OPERATOR_VERBS).filter(([key]) => name === undefined || key === name)
  return [
    'npm run operator -- VERB [words] [--json]',
    '',
    ...verbs.map(([key, { usage, help }]) => `  ${`${key} ${usage}`.padEnd(30)} ${help}`),
  ].join('\n')
}

function describeDone(done: object): string {
  return Object.entries(done)
    .filter(([key]) => key !== 'ok')
    .map(([key, value]) => `${key}: ${String(value)}`)
    .join('\n')
}

try {
  process.exitCode = await run()
} catch (error) {
  process.stderr.write(
    `${error instanceof ConfigError || (error instanceof TypeError && 'code' in error) ? error.message : error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  )
  process.exitCode = 2
}
process.exit()
