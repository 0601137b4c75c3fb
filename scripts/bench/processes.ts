import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { startServers, type TemporaryServers } from '../embedded/temporary.ts'

export interface BenchStack {
  url: string
  mongodbUrl: string
  redisUrl: string
  servers: TemporaryServers
  stop(): Promise<void>
}

const API = fileURLToPath(new URL('../../api/main.ts', import.meta.url))
const WORKERS = fileURLToPath(new URL('../../workers/main.ts', import.meta.url))

/** The real service for a benchmark: its own MongoDB and Redis, one API process and `workers` worker processes. */
export async function startStack(env: Record<string, string>, workers = 1): Promise<BenchStack> {
  const servers = await startServers(() => undefined, 1)
  const mongodbUrl = new URL(servers.mongod.url)
  mongodbUrl.pathname = '/bench'
  const processes: ChildProcess[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(processes.map(end))
    await servers.stop()
  }
  try {
    const common = {
      ...process.env,
      MONGODB_URL: mongodbUrl.href,
      REDIS_URL: servers.redis.url,
      CHALLENGE_SECRET: 'be'.repeat(32),
      OPERATOR_PORT: '0',
      PORT: '0',
      LOG_LEVEL: 'info',
      FREE_UNTIL: 'none',
      ...env,
    }
    const api = await startProcess(API, common)
    processes.push(api.child)
    for (let index = 0; index < workers; index++) processes.push((await startProcess(WORKERS, common)).child)
    return { url: `http://127.0.0.1:${api.port}`, mongodbUrl: mongodbUrl.href, redisUrl: servers.redis.url, servers, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Starts a part and waits for the log line that says it is up. */
async function startProcess(script: string, env: NodeJS.ProcessEnv): Promise<{ child: ChildProcess; port: number }> {
  const child = spawn(process.execPath, [script], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await new Promise<number>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`${script} ended with ${code} before it was up`)))
    child.stdout.setEncoding('utf8')
    let rest = ''
    child.stdout.on('data', (chunk: string) => {
      rest += chunk
      const line = rest.split('\n').find((text) => /"msg":"(the API listens|the workers work)"/.test(text))
      if (line !== undefined) resolve(Number((JSON.parse(line) as { port?: number }).port ?? 0))
    })
  })
  return { child, port }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  await gone
}
