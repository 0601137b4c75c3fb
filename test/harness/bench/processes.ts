import { startServers, type TemporaryServers } from '../../../scripts/embedded/temporary.ts'
import { startProcess as startProgram } from '../../support/processes.ts'

export interface BenchStack {
  url: string
  port: number
  mongodbUrl: string
  redisUrl: string
  servers: TemporaryServers
  api: BenchProcess
  workers: readonly BenchProcess[]
  stop(): Promise<void>
}

export interface BenchProcess {
  /** Where it serves HTTP; 0 for workers. */
  port: number
  pid: number
  /** Measures the process now. Never resolves unless the stack was started with `isProbed`. */
  readVitals(): Promise<Vitals>
  stop(): Promise<void>
}

/** A process's memory and open handles, and the p99 of its event loop's delay since the last reading. */
export interface Vitals {
  rssBytes: number
  heapBytes: number
  handles: number
  lagP99Ms: number
}

/** The environment of a process that collects its garbage on SIGUSR2 and then says what it holds, by probe.ts. */
export const PROBED_ENV: Readonly<Record<string, string>> = {
  NODE_OPTIONS: `--expose-gc --import ${new URL('probe.ts', import.meta.url).href}`,
}

export interface StackOptions {
  /** How many worker processes, each serving all queues; 1 if absent. */
  workers?: number
  /** Whether readVitals() works; loads probe.ts into the processes. */
  isProbed?: boolean
  /** The database's name, and the queues' prefix; `bench` if absent. */
  database?: string
  /** The API's limit of open files; the system's if absent. */
  openFiles?: number
  /** Settings of the API alone. */
  apiEnv?: Record<string, string>
  /** Servers to use, which stop() leaves running; if absent, a pair of its own. */
  servers?: TemporaryServers
}

/**
 * Starts the real service for a benchmark: MongoDB and Redis, one API process and `workers` worker processes.
 *
 * @param env settings of the processes, beside those that lead them to the servers
 */
export async function startStack(
  env: Record<string, string>,
  options: StackOptions = {},
): Promise<BenchStack> {
  const { workers = 1, isProbed = false, database = 'bench' } = options
  const servers = options.servers ?? (await startServers(() => undefined, { cacheGb: 1 }))
  const mongodbUrl = databaseUrl(servers.mongod.url, database)
  const processes: BenchProcess[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(processes.map((one) => one.stop()))
    if (options.servers === undefined) await servers.stop()
  }
  try {
    const common = {
      ...process.env,
      MONGODB_URL: mongodbUrl,
      REDIS_URL: servers.redis.url,
      QUEUE_PREFIX: database,
      CHALLENGE_SECRET: 'be'.repeat(32),
      OPERATOR_PORT: '0',
      PORT: '0',
      LOG_LEVEL: 'info',
      FREE_UNTIL: 'none',
      ...(isProbed ? PROBED_ENV : {}),
      ...env,
    }
    const api = await startProcess('api/main.ts', { ...common, ...options.apiEnv }, options.openFiles)
    processes.push(api)
    for (let index = 0; index < workers; index++)
      processes.push(await startProcess('workers/main.ts', common))
    const url = `http://127.0.0.1:${api.port}`
    const { redis } = servers
    return {
      url,
      port: api.port,
      mongodbUrl,
      redisUrl: redis.url,
      servers,
      api,
      workers: processes.slice(1),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The URL of another database of the same MongoDB. */
export function databaseUrl(mongodbUrl: string, name: string): string {
  const url = new URL(mongodbUrl)
  url.pathname = `/${name}`
  return url.href
}

/**
 * Starts reference-child.ts, the hand-written implementation of the same routes, on a database of its own.
 */
export async function startReference(
  mongodbUrl: string,
): Promise<{ port: number; mongodbUrl: string; stop(): Promise<void> }> {
  const url = databaseUrl(mongodbUrl, 'reference')
  const { port, stop } = await startProcess('test/harness/bench/reference-child.ts', {
    ...process.env,
    MONGODB_URL: url,
  })
  return { port, mongodbUrl: url, stop }
}

/** Starts bare-child.ts, a server that answers with the bytes that it was given. */
export const startBare = (): Promise<BenchProcess> =>
  startProcess('test/harness/bench/bare-child.ts', process.env)

/** Starts a program of node and waits until it says that it is up. @throws Error if it ends before that */
async function startProcess(
  script: string,
  env: NodeJS.ProcessEnv,
  openFiles?: number,
): Promise<BenchProcess> {
  const started = startProgram(script, env, [], openFiles)
  const up = JSON.parse(await started.waitForLine(/"msg":"(the API listens|the workers work)"/))
  let readings = 0
  return {
    port: (up as { port?: number }).port ?? 0,
    pid: started.pid,
    async readVitals() {
      started.kill('SIGUSR2')
      const answer = await started.waitForLine('"msg":"vitals"', ++readings)
      return (JSON.parse(answer) as { vitals: Vitals }).vitals
    },
    stop: () => started.stop(),
  }
}
