import { hash } from 'node:crypto'
import { createApp } from '../../api/app.ts'
import type { Route } from '../../api/http/route.ts'
import { createLimitedServer } from '../../api/http/server.ts'
import { listen } from '../../shared/platform/listen.ts'
import { solvePuzzle } from '../../client/puzzle-solver.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context, type ContextOptions } from '../../shared/context.ts'
import { createLog, type Log } from '../../shared/platform/log.ts'
import { startPool, type Intervals } from '../../workers/pool.ts'
import { openWorkerContext, type WorkerContext } from '../../workers/worker-context.ts'
import { QUEUE_NAMES, type QueueName } from '../../shared/platform/queue-table.ts'
import { createAnswerCheck, type AnswerCheck } from './check-answers.ts'
import { PATIENCE_MS } from './patience.ts'
import { isolate, leaveDatabase, PATIENT } from './servers.ts'

export const CHALLENGE_SECRET = 'c0'.repeat(32)
const SERVED_LIMIT = { limitMs: PATIENCE_MS, everyMs: 250 }

/**
 * The queues without the ledger's: pending entries stay where they were written, and nothing is written but
 * what is asked for.
 */
export const WITHOUT_LEDGER: readonly QueueName[] = ['verify-shares', 'sweep']

export interface Answer {
  status: number
  headers: Headers
  json: Record<string, unknown> & { ok?: boolean; error?: string; field?: string; message?: string }
}

export interface TestAgent {
  id: string
  token: string
}

export interface CallOptions {
  body?: unknown
  /** Sent as it is, in place of `body`. */
  rawBody?: string | Uint8Array<ArrayBuffer>
  token?: string
  headers?: Record<string, string>
}

export interface TestApi {
  /** `http://127.0.0.1:PORT`. */
  url: string
  ctx: Context
  routes: readonly Route[]
  /** How many callers wait for something. */
  countWaits(): number
  /**
   * One request below `/api/v1`, or at the root where the path begins with `//`. The answer is checked
   * against its route.
   */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
}

export interface TestService extends TestApi {
  /** Everything logged so far, one JSON line an event. */
  logged(): string
  /** Another API on the same database and queues, as a second process would be; stopped with the service. */
  addApi(): Promise<TestApi & { close(): Promise<void> }>
  register(fields?: { handle?: string; ref?: string }): Promise<TestAgent>
  /** A registered agent whose pass ends in a year. */
  registerWithPass(fields?: { handle?: string; ref?: string }): Promise<TestAgent>
  /** Moves the service's clock on. */
  advance(ms: number): void
  stop(): Promise<void>
}

export interface ServiceOptions {
  /**
   * Settings beyond those of a fast test: no free period, 4 bits for a registration, 8 for a share, 5 shares
   * a day.
   */
  env?: Record<string, string>
  /** Which queues are served in this process; all where absent. */
  queues?: readonly QueueName[]
  /** How often regular jobs come, where no setting says it. */
  intervals?: Intervals
  /**
   * Servers of the test's own, on which the two parts have users of their own, and the test has one that may
   * do everything.
   */
  servers?: { api: Record<string, string>; workers: Record<string, string>; test: Record<string, string> }
}

/** The real API and the real workers in this process, on a database and queues of their own. */
export async function startService(options: ServiceOptions = {}): Promise<TestService> {
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  const env: Record<string, string> = {
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: queuePrefix,
    ...PATIENT,
    CHALLENGE_SECRET,
    FREE_UNTIL: 'none',
    REGISTER_BITS: '4',
    SHARE_BITS: '8',
    SHARES_PER_DAY: '5',
    SWEEP_SECONDS: '1',
    DISPUTE_HOLD_MINUTES: '0',
    // No test asks a real exchange.
    RATE_SOURCES: ['xno', 'xmr']
      .flatMap((coin) => [9, 10].map((port) => `${coin}=http://127.0.0.1:${port}/#price`))
      .join(','),
    ...options.env,
    ...options.servers?.api,
  }
  const lines: string[] = []
  const log = createLog('test', env['LOG_LEVEL'] ?? 'debug', {
    write: (line: string) => void lines.push(line),
  })
  let shiftMs = 0
  const now = () => Date.now() + shiftMs
  const first = await startApi(env, log, { now })
  // To ask for every index again costs as much as to connect. Users of their own make each their part.
  const allIsMade = options.servers === undefined
  const { url, routes, call, countWaits } = first
  const testCtx =
    options.servers === undefined
      ? undefined
      : openContext(readConfig({ ...env, ...options.servers.test }, 'api'), log, { now })
  await testCtx?.database.whenReady()
  const ctx = testCtx ?? first.ctx
  const apis = [first]
  const queues = options.queues ?? QUEUE_NAMES
  const openWorkers = () =>
    openWorkerContext(readConfig({ ...env, ...options.servers?.workers }, 'workers'), log, {
      now,
      databaseTimeoutMs: 30_000,
      changesNothing: allIsMade,
    })
  // Most tests need a service that serves none.
  const workers =
    queues.length === 0 ? undefined : await serveQueues(openWorkers(), queues, options.intervals)
  const register = (fields: { handle?: string; ref?: string } = {}) => registerOver(call, fields)
  return {
    url,
    ctx,
    routes,
    countWaits,
    call,
    register,
    logged: () => lines.join(''),
    async addApi() {
      const api = await startApi(env, log, { now, changesNothing: allIsMade })
      apis.push(api)
      return api
    },
    async registerWithPass(fields = {}) {
      const agent = await register(fields)
      await ctx.agents.movePassEnd(agent.id, undefined, now() + 365 * 86_400_000, [])
      return agent
    },
    advance(ms) {
      shiftMs += ms
    },
    async stop() {
      for (const api of apis) await api.close()
      await workers?.close()
      const others = apis.map((api) => api.ctx).filter((other) => other !== ctx)
      await Promise.all(others.map((other) => closeContext(other)))
      await leaveDatabase(ctx.database.connection)
      await closeContext(ctx)
    },
  }
}

/** Serves queues until it is closed, with its context. */
async function serveQueues(
  ctx: WorkerContext,
  names: readonly QueueName[],
  intervals?: Intervals,
): Promise<{ close(): Promise<void> }> {
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  const pool = startPool(ctx, names, intervals)
  return {
    async close() {
      await pool.close()
      await closeContext(ctx)
    },
  }
}

interface StartedApi extends TestApi {
  close(): Promise<void>
}

async function startApi(env: Record<string, string>, log: Log, options: ContextOptions): Promise<StartedApi> {
  const ctx = openContext(readConfig(env, 'api'), log, options)
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  const app = createApp(ctx)
  const { routes, waits } = app
  const server = createLimitedServer(app.listener, app)
  const url = `http://127.0.0.1:${await listen(server.http, 0, '127.0.0.1')}`
  const check = createAnswerCheck(routes)
  return {
    url,
    ctx,
    routes,
    countWaits: waits.count,
    call: (method, path, options = {}) => callService(url, method, path, options, check),
    close: async () => {
      waits.end()
      await server.close()
    },
  }
}

/** Sends one request to a running service, reads its JSON and checks it. */
export async function callService(
  url: string,
  method: string,
  path: string,
  options: CallOptions = {},
  check?: AnswerCheck,
): Promise<Answer> {
  const body = options.rawBody ?? (options.body === undefined ? undefined : JSON.stringify(options.body))
  const target = path.startsWith('//') ? url + path.slice(1) : `${url}/api/v1${path}`
  const response = await fetch(target, {
    method,
    headers: {
      // Packing and unpacking would take an eighth of the work of a test that reads lists.
      'Accept-Encoding': 'identity',
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...(options.token === undefined ? {} : { Authorization: `Bearer ${options.token}` }),
      ...options.headers,
    },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
  const answer = {
    status: response.status,
    headers: response.headers,
    json: (text === '' || !isJson ? {} : JSON.parse(text)) as Answer['json'],
  }
  if (method !== 'HEAD' && method !== 'OPTIONS') check?.(method, new URL(target).pathname, answer)
  return answer
}

/**
 * Workers may take longer for a verdict than a request waits for it; an order's days and its agent's pass
 * move together.
 */
export const untilCredited = (ctx: Context, orderId: string, days: number): Promise<true> =>
  waitFor(
    'the credit',
    async () => ((await ctx.work.findOrder(orderId))?.credited_days === days ? true : undefined),
    SERVED_LIMIT,
  )

/** The first decimal nonce from `from` on that is a share. Independent of the code under test. */
export function findNonce(prefix: string, bits: number, from = 0): string {
  for (let nonce = from; ; nonce++) {
    if (BigInt(`0x${hash('sha256', `${prefix}:${nonce}`, 'hex')}`) >> BigInt(256 - bits) === 0n)
      return String(nonce)
  }
}

/** `count` different shares, as decimal nonces. */
export function findNonces(prefix: string, bits: number, count: number): string[] {
  const nonces: string[] = []
  for (let from = 0; nonces.length < count;) {
    const nonce = findNonce(prefix, bits, from)
    nonces.push(nonce)
    from = Number(nonce) + 1
  }
  return nonces
}

interface ChallengeAnswer {
  challenge_id: string
  puzzle: { kind: string; question: string; answer_format: string }
  pow: { prefix: string; difficulty_bits: number }
}

/** A challenge with its right answer and valid work, not yet sent. */
export async function solveChallenge(
  call: TestService['call'],
): Promise<{ challenge_id: string; answer: string; pow: string }> {
  const { json } = await whenServed(() => call('GET', '/challenge'))
  const challenge = json as unknown as ChallengeAnswer
  return {
    challenge_id: challenge.challenge_id,
    answer: solvePuzzle(challenge.puzzle),
    pow: findNonce(challenge.pow.prefix, challenge.pow.difficulty_bits),
  }
}

/**
 * The answer to what is asked again while the service says that it is not available: tests run beside tests
 * that burden their servers. What is asked may have been done by then, and is done once more.
 */
export function whenServed(ask: () => Promise<Answer>): Promise<Answer> {
  return waitFor(
    'an answer other than 503',
    async () => ask().then((answer) => (answer.status === 503 ? undefined : answer)),
    SERVED_LIMIT,
  )
}

export async function registerOver(
  call: TestService['call'],
  fields: { handle?: string; ref?: string } = {},
): Promise<TestAgent> {
  const { status, json } = await whenServed(async () =>
    call('POST', '/register', { body: { ...(await solveChallenge(call)), ...fields } }),
  )
  if (status !== 201) throw new Error(`registration answered ${status}: ${JSON.stringify(json)}`)
  return { id: String(json['agent_id']), token: String(json['token']) }
}
