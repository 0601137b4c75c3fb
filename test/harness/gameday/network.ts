import fs from 'node:fs'
import path from 'node:path'
import { openContext, type Context } from '../../../shared/context.ts'
import { readConfig } from '../../../shared/platform/config.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { ed25519PublicKey } from '../../../shared/crypto/ed25519.ts'
import { NOTE_KEY } from '../../../shared/crypto/note.ts'
import { readSealKey } from '../../../shared/ledger/seal-key.ts'
import { QUEUES_TOGETHER, queueRow, type QueueName } from '../../../shared/platform/queue-table.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { numbersFor } from '../world/numbers.ts'
import type { Network } from '../run.ts'
import type { Part } from '../testbed/part.ts'
import type { startWitness } from '../testbed/witness.ts'
import { ask, newAgent, newWorld, registerWithPass, type Agent, type World } from '../world/agent.ts'
import { buyDay } from '../world/coin-actions.ts'
import { runOperatorJson, type Operated } from '../world/operate.ts'

export const ORIGIN = 'gameday.example/log'
/** How long `status` waits for each server: a busy machine needs more than its default of a second. */
const STATUS_WAIT_SECONDS = '4'

/**
 * Shown for an hour after a worker fell silent at a job, as those do that a mishap kills or freezes: nothing is lost
 * by it, and nothing is to be mended.
 */
const LASTS_AN_HOUR = 'jobs_stalled'

/** A finding as `status --json` shows it. */
export interface ShownFinding {
  kind: string
  about?: string
  severity: string
  command: string
}

/** A running network of real processes, and its operator. */
export interface Gameday extends Network {
  readonly ctx: Context
  readonly witness: Witness
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
  operator(argv: readonly string[], settings?: Record<string, string>): Promise<Operated>
  /** What `status` finds now, without LASTS_AN_HOUR. */
  findings(settings?: Record<string, string>): Promise<ShownFinding[]>
  /** Publishes a post. @returns its id */
  post(): Promise<string>
  hasPost(postId: string): Promise<boolean>
}

type Witness = Awaited<ReturnType<typeof startWitness>>

/** The path of a file in the network's folder. */
export const fileIn = ({ testbed }: Pick<Gameday, 'testbed'>, name: string): string =>
  path.join(testbed.folder, name)

/** The queues by pool: each pool is a process of its own, which a mishap can befall. Doorbells are off. */
export const queuesByPool = (): Record<string, QueueName[]> =>
  Object.groupBy(QUEUES_TOGETHER, (name) => queueRow(name).pool)

/** Makes a network on which all is well: an agent with a pass, money in the treasury, a backup noted. */
export async function openGameday(
  plain: Network,
  witness: Witness,
  rates: Gameday['rates'],
): Promise<Gameday> {
  const { testbed } = plain
  const key = readSealKey(fileIn(plain, 'seal-key')) ?? new Uint8Array(32)
  witness.trust({ name: ORIGIN, type: NOTE_KEY.signer, publicKey: ed25519PublicKey(key) })
  fs.writeFileSync(fileIn(plain, 'operator-token'), `${'0d'.repeat(32)}\n`, { mode: 0o600 })
  const env = { ...testbed.env }
  const ctx = openContext(readConfig(env, 'workers'), createLog('gameday', 'silent'), {
    changesNothing: true,
  })
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  const world = newWorld({ ...plain, apis: 1 })
  const agent = newAgent('kept', numbersFor(1, 'gameday'))
  await registerWithPass(world, agent, undefined, 30)
  const workers = new Map(testbed.workers.map((part) => [part.name.replace(/-0$/, ''), part]))
  let started = 0
  const network: Gameday = {
    ...plain,
    ctx,
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
      const part = testbed.start(`${group}-${++started}`, 'workers/main.ts', ['--queues', queues], settings)
      workers.set(group, part)
      await waitFor(`the start of ${part.name}`, () => part.upAtMs(), { limitMs: 60_000 })
      return part
    },
    operator: (argv, settings = {}) => runOperatorJson(argv, { ...env, ...settings }),
    async findings(settings = {}) {
      const { json } = await network.operator(['status', '--wait', STATUS_WAIT_SECONDS], settings)
      return (json['findings'] as ShownFinding[]).filter(({ kind }) => kind !== LASTS_AN_HOUR)
    },
    async post() {
      const body = { body: 'kept' }
      const { status, json } = await ask(world, agent, 'post', 'POST', '/post', { body })
      if (status !== 201) throw new Error(`a post was answered ${status}: ${JSON.stringify(json)}`)
      return String(json['id'])
    },
    hasPost: async (id) => (await ask(world, agent, 'read', 'GET', `/post/${id}`)).status === 200,
  }
  await fillTreasury(world, agent, ctx)
  // `status` reports a network that was not backed up within its first day.
  await network.operator(['backup', '--noted'])
  return network
}

/** Pays for a day with Nano, and waits until the money is in the treasury. */
async function fillTreasury(world: World, agent: Agent, context: Context): Promise<void> {
  await buyDay(world, agent, 'xno')
  await waitFor(
    'the money in the treasury',
    async () => {
      const confirmed = await context.payouts.transfers.list('xno', ['confirmed'], 10)
      return confirmed.some(({ kind }) => kind === 'sweep') ? true : undefined
    },
    { limitMs: 90_000, everyMs: 500 },
  )
}
