import { hash } from 'node:crypto'
import fs from 'node:fs'
import http from 'node:http'
import type net from 'node:net'
import path from 'node:path'
import { solvePuzzle } from '../../../client/puzzle-solver.ts'
import { openContext, type Context } from '../../../shared/context.ts'
import { readConfig } from '../../../shared/platform/config.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { ed25519PublicKey } from '../../../shared/crypto/ed25519.ts'
import { NOTE_KEY } from '../../../shared/crypto/note.ts'
import { readSealKey } from '../../../shared/ledger/seal-key.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from '../../../shared/platform/queues.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { runOperator } from '../../../scripts/operator/run.ts'
import { startCoins, type Coins } from '../testbed/coins.ts'
import { startStack, type Part, type Stack } from '../testbed/testbed.ts'
import { startWitness } from '../testbed/witness.ts'

const ORIGIN = 'gameday.example/log'
/** How long `status` waits for each server: a busy machine needs more than its default of a second. */
const STATUS_WAIT_SECONDS = '4'

/** A finding as `status --json` shows it. */
export interface ShownFinding {
  kind: string
  about?: string
  severity: string
  command: string
}

/** How an operator's command ended, and what it printed with `--json`. */
export interface CommandResult {
  exitCode: number
  json: Record<string, unknown> & { message?: string }
}

/** A running network of real processes, and its operator. */
export interface Network {
  readonly stack: Stack
  readonly ctx: Context
  readonly coins: Coins
  readonly witness: Awaited<ReturnType<typeof startWitness>>
  /** The exchanges that are asked for rates answer 500 while `isBroken`. */
  readonly rates: { isBroken: boolean }
  /** The settings of the operator's commands; a mishap may change them. */
  readonly env: Record<string, string>
  /** The process that now serves a group of queues. @throws Error if there is no such group */
  worker(group: string): Part
  /** Kills a group's process, and ends its supervision, as if its machine had gone. */
  kill(group: string): Promise<void>
  /** Starts a process of workers, which from now on is the group's, and waits until it is up. */
  startWorkers(group: string, queues: string, settings?: Record<string, string>): Promise<Part>
  /** Runs an operator's command. */
  operator(argv: readonly string[], settings?: Record<string, string>): Promise<CommandResult>
  /** What `status` finds now. */
  findings(settings?: Record<string, string>): Promise<ShownFinding[]>
  /** Publishes a post. @returns its id */
  post(): Promise<string>
  hasPost(postId: string): Promise<boolean>
  stop(): Promise<void>
}

/** The path of a file in the network's folder. */
export const fileIn = ({ stack }: Network, name: string): string => path.join(stack.folder, name)

/** The queues by pool: each pool is a process of its own, which a mishap can befall. */
const queuesByPool = (): Record<string, QueueName[]> =>
  Object.groupBy(QUEUE_NAMES, (name) => queueRow(name).pool)

/** Starts a network on which all is well: an agent with a pass, money in the treasury, a backup noted. */
export async function startNetwork(report: (line: string) => void): Promise<Network> {
  const coins = await startCoins()
  const witness = await startWitness('gameday.example/w1')
  const rates = { isBroken: false }
  const exchange = http.createServer((_, response) =>
    response.writeHead(rates.isBroken ? 500 : 200).end(JSON.stringify({ price: '1.00' })),
  )
  await new Promise<void>((resolve) => exchange.listen(0, '127.0.0.1', resolve))
  const { port } = exchange.address() as net.AddressInfo
  const sources = ['127.0.0.1', 'localhost'].map((host) => `xno=http://${host}:${port}/#price`)
  const closeStandIns = async (): Promise<void> => {
    exchange.close()
    await Promise.all([coins.close(), witness.stop()])
  }
  const stack = await startStack({
    members: 1,
    each: 1,
    coins,
    report,
    groups: queuesByPool(),
    mongoDiskSize: '1200m',
    env: {
      XNO_USD: '',
      RATE_SOURCES: sources.join(','),
      WITNESSES: witness.setting,
      WITNESS_QUORUM: '1',
      LEDGER_ORIGIN: ORIGIN,
      MIN_FREE_DISK_GB: '0.02',
      ACCEPT_HOURS: '1',
      PAY_BY_MINUTES: '60',
    },
  }).catch(async (error: unknown) => {
    await closeStandIns()
    throw error
  })
  const key = readSealKey(path.join(stack.folder, 'seal-key')) ?? new Uint8Array(32)
  witness.trust({ name: ORIGIN, type: NOTE_KEY.signer, publicKey: ed25519PublicKey(key) })
  fs.writeFileSync(path.join(stack.folder, 'operator-token'), `${'0d'.repeat(32)}\n`, { mode: 0o600 })
  const env = { ...stack.env }
  const ctx = openContext(readConfig(env, 'workers'), createLog('gameday', 'silent'), {
    changesNothing: true,
  })
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  const [url = ''] = stack.urls
  const token = await register(url)
  const workers = new Map(stack.workers.map((part) => [part.name.replace(/-0$/, ''), part]))
  let started = 0
  const network: Network = {
    stack,
    ctx,
    coins,
    witness,
    rates,
    env,
    worker(group) {
      const part = workers.get(group)
      if (part === undefined) throw new Error(`there is no process ${group}`)
      return part
    },
    async kill(group) {
      network.worker(group).child.kill()
      await network.worker(group).child.stop()
    },
    async startWorkers(group, queues, settings = {}) {
      const part = stack.start(`${group}-${++started}`, 'workers/main.ts', ['--queues', queues], settings)
      workers.set(group, part)
      await waitFor(`the start of ${part.name}`, () => part.upAtMs(), { limitMs: 60_000 })
      return part
    },
    async operator(argv, settings = {}) {
      let stdout = ''
      const exitCode = await runOperator({
        argv: [...argv, '--json'],
        env: { ...env, ...settings },
        stdout: { write: (text) => (stdout += text) },
        stderr: { write: () => true },
      })
      return { exitCode, json: JSON.parse(stdout) as CommandResult['json'] }
    },
    async findings(settings = {}) {
      const { json } = await network.operator(['status', '--wait', STATUS_WAIT_SECONDS], settings)
      return json['findings'] as ShownFinding[]
    },
    async post() {
      const { status, json } = await call(url, 'POST', '/post', { body: 'kept' }, token)
      if (status !== 201) throw new Error(`a post was answered ${status}: ${JSON.stringify(json)}`)
      return String(json['id'])
    },
    hasPost: async (postId) => (await call(url, 'GET', `/post/${postId}`)).status === 200,
    async stop() {
      await ctx.close()
      await stack.stop()
      await closeStandIns()
    },
  }
  await buyPass(network, url, token)
  // `status` reports a network that was not backed up within its first day.
  await network.operator(['backup', '--noted'])
  return network
}

/** Sends a request to the API, as the token's agent if there is one. @returns the status and the JSON */
async function call(url: string, method: string, route: string, body?: unknown, token?: string) {
  const answer = await fetch(`${url}/api/v1${route}`, {
    method,
    headers: {
      'Content-Type': 'application/json',
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(10_000),
  })
  return { status: answer.status, json: (await answer.json()) as Record<string, unknown> }
}

/** Registers an agent. @returns its token */
async function register(url: string): Promise<string> {
  const { json } = await call(url, 'GET', '/challenge')
  const { challenge_id, puzzle, pow } = json as {
    challenge_id: string
    puzzle: Parameters<typeof solvePuzzle>[0]
    pow: { prefix: string; difficulty_bits: number }
  }
  let nonce = 0
  const shift = BigInt(256 - pow.difficulty_bits)
  while (BigInt(`0x${hash('sha256', `${pow.prefix}:${nonce}`, 'hex')}`) >> shift > 0n) nonce++
  const answer = { challenge_id, answer: solvePuzzle(puzzle), pow: String(nonce) }
  const { status, json: registered } = await call(url, 'POST', '/register', answer)
  if (status !== 201) throw new Error(`registration answered ${status}: ${JSON.stringify(registered)}`)
  return String(registered['token'])
}

/** Buys 30 days with Nano for the token's agent, and waits until the money is in the treasury. */
async function buyPass({ coins, ctx }: Network, url: string, token: string): Promise<void> {
  const { address, amount_raw: raw } = await waitFor(
    'an invoice',
    async () => {
      const { status, json } = await call(url, 'POST', '/invoice', { currency: 'xno', days: 30 }, token)
      return status === 201 || status === 200 ? json : undefined
    },
    { limitMs: 90_000, everyMs: 500 },
  )
  coins.pay(String(address), BigInt(String(raw)))
  await waitFor(
    'the pass',
    async () =>
      (await call(url, 'GET', '/me', undefined, token)).json['pass_active'] === true ? true : undefined,
    { limitMs: 90_000, everyMs: 500 },
  )
  await waitFor(
    'the money in the treasury',
    async () => {
      const transfers = await ctx.payouts.listTransfers('xno', ['confirmed'], 10)
      return transfers.some(({ kind }) => kind === 'sweep') ? true : undefined
    },
    { limitMs: 90_000, everyMs: 500 },
  )
}
