import { get } from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  ConfigError,
  FREE_PERIOD_MS,
  readConfig,
  readFileVariables,
  toUrlHost,
  type Config,
} from '../shared/platform/config.ts'
import { readTracedShare } from '../shared/platform/start-tracing.ts'
import { HOST_USERS, type HostUser } from './embedded/access.ts'
import { stopLeftovers, trackChildren } from './embedded/children.ts'
import { lockDataDir, ensureFirstStart } from './embedded/data-dir.ts'
import { startMongod } from './embedded/mongod.ts'
import { startPart } from './embedded/parts.ts'
import { assertPortFree, PortError } from './embedded/ports.ts'
import { claimDataDir, startSandbox, type Sandbox } from './embedded/sandbox.ts'
import { requireMongod, requireRedis } from './embedded/programs.ts'
import { startRedis } from './embedded/redis.ts'
import { noteRunning } from './embedded/running.ts'
import { SAME_SIGNAL_MS, StartError } from '../shared/platform/process.ts'
import { openSetup } from './embedded/setup.ts'
import { whenUp, type SupervisedChild } from './embedded/supervise.ts'
import { compileCacheDir } from './prepare.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const SCRIPTS = { api: path.join(ROOT, 'api', 'main.ts'), workers: path.join(ROOT, 'workers', 'main.ts') }
const READY_LIMIT_MS = 120_000
const PARENT_CHECK_MS = 250

export interface Network {
  readonly config: Config
  readonly operatorTokenFile: string | undefined
  /** Stops everything, the last started first. */
  stop(): Promise<void>
  /** Kills everything, now. */
  kill(): void
}

/**
 * Starts the whole network on this machine: MongoDB and Redis unless their URLs are given, the API and the
 * workers. Resolves once it answers. If it fails or `signal` is aborted, it stops what it has started.
 *
 * @param scripts the main files of the two parts
 * @throws ConfigError or StartError with a sentence for the operator
 */
export async function startNetwork(options: {
  env: NodeJS.ProcessEnv
  report: (line: string) => void
  scripts?: typeof SCRIPTS
  signal?: AbortSignal
  /** Called as soon as there is something to stop. */
  onStarting?: (network: Network) => void
  /** Whether to use a stand-in for the Nano network, with play money. */
  sandbox?: boolean
}): Promise<Network> {
  const { report, scripts = SCRIPTS, signal } = options
  const config = readConfig(options.env, 'start')
  // Its parts would be started again for ever.
  readTracedShare(options.env)
  const given = readFileVariables(options.env, 'start').env
  assertPortsSet(config)
  const { dataDir } = config
  const lock = lockDataDir(dataDir)
  const running: SupervisedChild[] = []
  const children = trackChildren(dataDir, report)
  let stopping: Promise<void> | undefined
  let sandbox: Sandbox | undefined
  const setup = openSetup()
  const network = {
    config,
    operatorTokenFile: undefined as string | undefined,
    stop() {
      stopping ??= (async () => {
        // Children stay in the list, so that kill() still reaches one that doesn't end.
        setup.close()
        for (const child of running.toReversed()) await child.stop()
        await sandbox?.close()
        children.close()
        lock.release()
      })()
      return stopping
    },
    kill() {
      for (const child of running) child.kill()
    },
  }
  options.onStarting?.(network)
  const onStarted = (child: SupervisedChild) => {
    running.push(child)
    signal?.throwIfAborted()
  }

  try {
    claimDataDir(dataDir, options.sandbox === true)
    if (options.sandbox === true) sandbox = await startSandbox(dataDir)
    const env: NodeJS.ProcessEnv = { ...given, ...sandbox?.env }
    await stopLeftovers(dataDir, report)
    await assertPortFree('PORT', config.port, config.host)
    if (config.operatorPort !== 0)
      await assertPortFree('OPERATOR_PORT', config.operatorPort, config.operatorHost)
    signal?.throwIfAborted()
    const first = ensureFirstStart(dataDir, Date.now())
    if (config.secrets.operatorToken === undefined) network.operatorTokenFile = first.operatorTokenFile

    // A URL given in the settings is used by all processes; on servers started here each process has its own
    // user.
    const server = { dataDir, users: HOST_USERS, children, report, onStarted, setup }
    const mongodbUrls = urlsForAll(config.mongodbUrl)
    const redisUrls = urlsForAll(config.redisUrl)
    const { queuePrefix } = config
    const keys = setup.prepareKeys(options.env)
    await allOrNone(signal, [
      () => keys.then(() => undefined),
      async (until) => {
        if (config.mongodbUrl !== undefined) return
        const mongod = await startMongod({ ...server, signal: until, binary: requireMongod(env) })
        Object.assign(mongodbUrls, mongod.urls)
      },
      async (until) => {
        if (config.redisUrl !== undefined) return
        const redis = await startRedis({ ...server, signal: until, binary: requireRedis(env), queuePrefix })
        Object.assign(redisUrls, redis.urls)
      },
    ])
    const { sealKeyFile, sealMemoryFile } = await keys
    setup.close()
    const shared: NodeJS.ProcessEnv = {
      NODE_COMPILE_CACHE: compileCacheDir(env),
      CHALLENGE_SECRET: first.challengeSecret,
      OPERATOR_TOKEN: first.operatorToken,
      METRICS_TOKEN: first.metricsToken,
      FREE_UNTIL: new Date(first.firstStartMs + FREE_PERIOD_MS).toISOString().replace('Z', '+00:00'),
      SEAL_KEY_FILE: sealKeyFile,
      SEAL_MEMORY_FILE: sealMemoryFile,
      ...Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')),
      DATA_DIR: dataDir,
    }
    const envOf = (user: HostUser): NodeJS.ProcessEnv => ({
      ...shared,
      MONGODB_URL: mongodbUrls[user],
      REDIS_URL: redisUrls[user],
    })
    noteRunning(dataDir, { mongodbUrl: mongodbUrls.operator, redisUrl: redisUrls.operator }, shared)
    const part = { dataDir, children, report }
    const api = startPart({ ...part, part: 'api', script: scripts.api, env: envOf('api') })
    onStarted(api)
    // The workers' metrics are on the operator's port, so they need none of their own.
    const workersEnv = { ...envOf('workers'), METRICS_PORT: '0' }
    const workers = startPart({ ...part, part: 'workers', script: scripts.workers, env: workersEnv })
    onStarted(workers)
    await whenAnswering(api, `${apiUrlOf(config)}/api/v1/challenge`, signal)
    if (config.operatorPort !== 0) await whenAnswering(workers, `${operatorUrlOf(config)}/healthz`, signal)
    // What connects to hosts that strangers name is a process of its own, with a user of its own. Nobody waits for it
    // to be up, so it takes no processor from those two while they start.
    if (config.doorbells.isOn)
      onStarted(
        startPart({
          ...part,
          part: 'doorbells',
          script: scripts.workers,
          args: ['--queues', 'doorbells,slow-doorbells'],
          env: { ...envOf('doorbells'), METRICS_PORT: '0', OPERATOR_PORT: '0' },
        }),
      )
    return network
  } catch (error) {
    await network.stop()
    throw error
  }
}

/**
 * Does pieces of work at once. If one fails, the others are told by their signal, and waited for.
 *
 * @param signal ends all of them
 * @throws what the first one that failed threw
 */
async function allOrNone(
  signal: AbortSignal | undefined,
  pieces: readonly ((until: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const failed = new AbortController()
  const until = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal])
  await Promise.allSettled(pieces.map((piece) => piece(until).catch((error: unknown) => failed.abort(error))))
  failed.signal.throwIfAborted()
}

/** @throws PortError if PORT is 0, or the operator's port is the same */
function assertPortsSet({ port, host, operatorPort, operatorHost }: Config): void {
  if (port === 0) throw new PortError('PORT is 0, and agents must know the port: set PORT to a free one.')
  if (operatorPort === port && operatorHost === host)
    throw new PortError(`PORT and OPERATOR_PORT are both ${port}: set one of them to another port.`)
}

const apiUrlOf = ({ host, port }: Config): string => `http://${toUrlHost(host)}:${port}`
const operatorUrlOf = ({ operatorHost, operatorPort }: Config): string =>
  `http://${toUrlHost(operatorHost)}:${operatorPort}`

/** The same URL for every user of the host. */
const urlsForAll = (url = ''): Record<HostUser, string> => ({
  api: url,
  workers: url,
  doorbells: url,
  operator: url,
})

/** Waits until a URL answers with 200, for a child that was just started. @throws StartError */
async function whenAnswering(
  child: SupervisedChild,
  url: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  // Not fetch, whose code this process would hold from then on.
  const isUp = () =>
    new Promise<true | undefined>((resolve) => {
      get(url, { agent: false, signal: AbortSignal.timeout(2_000) }, (answer) => {
        answer.resume()
        resolve(answer.statusCode === 200 ? true : undefined)
      }).once('error', () => resolve(undefined))
    })
  await whenUp(child, `The ${child.name} process`, isUp, { limitMs: READY_LIMIT_MS, signal })
}

/** What the screen says once the network is up: where it answers, where its data is, and what to try. */
function describeNetwork({ config, operatorTokenFile }: Network): string {
  const token =
    operatorTokenFile === undefined
      ? 'is the one in OPERATOR_TOKEN'
      : `is in ${path.relative(process.cwd(), operatorTokenFile)}`
  const operatorLine = `For its operator:    ${operatorUrlOf(config)}   (the token ${token})`
  return [
    '',
    `The network is up:   ${apiUrlOf(config)}/api/v1`,
    ...(config.operatorPort === 0 ? [] : [operatorLine]),
    `Logs and data:       ${path.relative(process.cwd(), config.dataDir) || config.dataDir}`,
    '',
    'Ctrl-C stops it. To register an agent, in another terminal:',
    '',
    `  npm run --silent agent -- register --url ${apiUrlOf(config)}`,
    '',
  ].join('\n')
}

/**
 * The command `npm start`: runs the network until SIGINT, SIGTERM or SIGHUP comes, and ends the process with
 * 0, or with 1 if it could not start. A second signal kills everything and ends it with 130.
 */
export async function runStart(scripts = SCRIPTS): Promise<void> {
  // Files that this process and its children write are readable only by its user.
  process.umask(0o077)
  // Writing to a closed terminal fails; the SIGHUP that comes with it stops the network.
  process.stdout.on('error', () => undefined)
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  const report = (line: string) => say(`start: ${line}`)
  const abort = new AbortController()
  let network: Network | undefined
  let signalledAt: number | undefined
  const onSignal = () => {
    const now = performance.now()
    if (signalledAt !== undefined) {
      if (now - signalledAt < SAME_SIGNAL_MS) return
      report('killing everything')
      network?.kill()
      process.exit(130)
    }
    signalledAt = now
    report('stopping (a second Ctrl-C kills)')
    abort.abort(new StartError('stopped before it was up'))
    // While it is still starting, startNetwork itself stops what it has started.
    if (up) void network?.stop().then(() => process.exit(0))
  }
  let up = false
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal)
  // npm hands a signal to the shell that it runs us in; if that shell ends without handing it on, or npm
  // itself is killed, nobody is left to stop us. Without npm we may outlive who started us, under nohup for
  // example.
  if (process.env.npm_lifecycle_event !== undefined) {
    const parent = process.ppid
    const watching = setInterval(() => {
      if (process.ppid === parent) return
      clearInterval(watching)
      if (signalledAt === undefined) onSignal()
    }, PARENT_CHECK_MS)
    watching.unref()
  }

  const isSandbox = process.argv.includes('--sandbox')
  const startedAt = performance.now()
  try {
    network = await startNetwork({
      env: process.env,
      report,
      scripts,
      signal: abort.signal,
      sandbox: isSandbox,
      onStarting: (starting) => (network = starting),
    })
  } catch (error) {
    if (signalledAt !== undefined) process.exit(0)
    if (!(error instanceof ConfigError || error instanceof StartError)) throw error
    console.error(error.message)
    process.exit(1)
  }
  up = true
  if (signalledAt !== undefined) {
    await network.stop()
    process.exit(0)
  }
  report(`ready after ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  say(describeNetwork(network))
  if (isSandbox)
    say('This is a sandbox: its Nano is play money, which "npm run --silent agent -- fund" gives away.\n')
}

if (import.meta.main) await runStart()
