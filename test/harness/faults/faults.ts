import { spawnSync } from 'node:child_process'
import { Redis } from 'ioredis'
import { findClientPorts, type Process } from '../testbed/client-ports.ts'
import type { Coins } from '../testbed/coins.ts'
import type { Gate, Held } from '../testbed/gate.ts'
import { injectMonero } from './monero.ts'
import { isOfMonero, type FaultKind, type PlannedFault } from './plan.ts'
import type { ServerClock } from '../testbed/server-clock.ts'
import type { SupervisedChild } from '../../../scripts/embedded/supervise.ts'
import { emptyDisk, fillDisk } from '../testbed/disk.ts'
import { signal } from '../testbed/kept-process.ts'
import type { Part } from '../testbed/part.ts'
import type { Testbed } from '../testbed/testbed.ts'

/** A fault under way. */
export interface Injected {
  /** The process or server that was hit, in words. */
  target: string
  /**
   * Ends the fault, or waits until a supervisor has restarted what was killed.
   *
   * @throws TimeoutError if it is not restarted in time
   */
  heal(): Promise<void> | void
}

/** How far a clock jumps, forwards or back. */
const JUMPS_MS = [30_000, 600_000, 7_200_000]
/**
 * Of a server's clock: by MongoDB's all is decided, and what is dated more than 5 minutes ahead of it is not
 * signed until then.
 */
const SERVER_JUMPS_SECONDS = [5, 30, 120]

/**
 * Causes a fault, which lasts until it is healed or ends by itself.
 *
 * @returns undefined if this machine can't cause it, or there is nothing to hit at this moment: see
 *   reasonNotCaused()
 */
export async function inject(
  testbed: Testbed,
  { kind, dice }: Pick<PlannedFault, 'kind' | 'dice'>,
): Promise<Injected | undefined> {
  const { mongo, redis, redisGate, apis, workers, redisDisk, coins } = testbed
  const pick = <T>(items: readonly T[]): T | undefined => items[dice % items.length]
  const findPrimary = async () => {
    const index = await mongo.findPrimary()
    return index === undefined ? undefined : { index, member: mongo.members[index] }
  }
  switch (kind) {
    case 'kill-api':
      return killPart(pick(apis))
    case 'kill-worker':
      return killPart(pick(workers))
    case 'pause-worker':
      return signalChild(pick(workers)?.child, 'SIGSTOP')
    case 'jump-clock':
      return jumpClock(pick([...apis, ...workers]), dice)
    case 'mongo-stepdown': {
      const primary = await findPrimary()
      if (primary === undefined) return undefined
      // The command's own connection may be cut by what it does.
      await mongo.command(primary.index, { replSetStepDown: 2, force: true }).catch(() => undefined)
      return { target: `mongod-${primary.index}`, heal: () => undefined }
    }
    case 'mongo-kill-primary':
      return signalChild((await findPrimary())?.member?.child, 'SIGKILL')
    case 'mongo-kill-secondary': {
      const index = (await findPrimary())?.index
      return signalChild(pick(mongo.members.filter((_, place) => place !== index))?.child, 'SIGKILL')
    }
    case 'mongo-kill-all':
      for (const { child } of mongo.members) signalChild(child, 'SIGKILL')
      return { target: 'every mongod', heal: () => undefined }
    case 'mongo-pause-primary':
      return signalChild((await findPrimary())?.member?.child, 'SIGSTOP')
    case 'mongo-cut-primary':
    case 'mongo-hang-primary': {
      const primary = await findPrimary()
      const gate = primary?.member?.gate
      if (primary === undefined || gate === undefined) return undefined
      if (kind === 'mongo-cut-primary') gate.cut()
      else gate.hang()
      return { target: `mongod-${primary.index}`, heal: () => gate.heal() }
    }
    case 'mongo-delay':
      for (const { gate } of mongo.members) gate.delay(20 + (dice % 130))
      return {
        target: 'every mongod',
        heal() {
          for (const { gate } of mongo.members) gate.heal()
        },
      }
    case 'mongo-disk-full': {
      const primary = await findPrimary()
      const pid = primary?.member?.child.pid()
      // No file of the process may grow any more, which is like a full disk. A restarted process has no such
      // limit.
      if (pid === undefined || spawnSync('prlimit', ['--pid', String(pid), '--fsize=4096:4096']).status !== 0)
        return undefined
      return { target: `mongod-${primary?.index}`, heal: () => undefined }
    }
    case 'redis-kill':
      return signalChild(redis.child, 'SIGKILL')
    case 'redis-pause':
      return signalChild(redis.child, 'SIGSTOP')
    case 'redis-flush':
      try {
        await askRedis(redis.url, (client) => client.flushall())
      } catch (error) {
        // A Redis whose disk is full refuses this write too.
        if (error instanceof Error && error.message.startsWith('MISCONF')) return undefined
        throw error
      }
      return { target: 'redis', heal: () => undefined }
    case 'redis-full':
      await askRedis(redis.url, (client) => client.config('SET', 'maxmemory', '1'))
      return {
        target: 'redis',
        heal: () => askRedis(redis.url, (client) => client.config('SET', 'maxmemory', '0')),
      }
    case 'redis-cut':
    case 'redis-hang':
      if (kind === 'redis-cut') redisGate.cut()
      else redisGate.hang()
      return { target: 'redis', heal: () => redisGate.heal() }
    case 'redis-delay':
      redisGate.delay(20 + (dice % 130))
      return { target: 'redis', heal: () => redisGate.heal() }
    case 'redis-disk-full':
      if (redisDisk === undefined) return undefined
      fillDisk(redisDisk)
      return { target: "redis's disk", heal: () => emptyDisk(redisDisk) }
    case 'coin-down':
      if (coins === undefined) return undefined
      await coins.node.setDown(true)
      return { target: 'the node', heal: () => coins.node.setDown(false) }
    case 'coin-hang':
      if (coins === undefined) return undefined
      coins.node.setHanging(true)
      return { target: 'the node', heal: () => coins.node.setHanging(false) }
    case 'coin-lost-answers':
      if (coins === undefined) return undefined
      // The block is published, but the answer is lost, as in a time-out after a broadcast.
      coins.lie(({ action }) => (action === 'process' ? { cutAfterBytes: 0 } : undefined))
      return { target: 'the node', heal: () => coins.lie(null) }
    case 'coin-lies-once':
      return coins === undefined ? undefined : lieOnce(coins)
    case 'partition-pair':
    case 'partition-oneway':
      return divideParties(testbed, dice, kind === 'partition-pair' ? 'both' : 'answers')
    case 'mongo-clock': {
      const member = pick(mongo.members)
      return setServerClock(member?.child.name, member?.clock, dice)
    }
    case 'redis-clock':
      return setServerClock('redis', testbed.redisClock, dice)
    case 'other-version':
      return runOtherVersion(pick([...apis, ...workers]), testbed.otherVersion)
    case 'monero-down':
    case 'monero-hang':
    case 'monero-lost-answers':
    case 'monero-lies-once':
    case 'monero-reorganise':
    case 'monero-lock':
      return testbed.monero === undefined ? undefined : injectMonero(testbed.monero, kind, dice)
  }
}

/** A gate, and the process whose connections through it are to be divided from the server behind. */
interface Way {
  gate: Gate
  from: Process
}

/**
 * Divides two parties: a process of the service and a server or MongoDB member that it talks to, or two
 * members. With `answers` only what the one at the far end sends is lost.
 */
function divideParties(testbed: Testbed, dice: number, what: Held): Injected | undefined {
  const { mongo, redisGate, coinGate, apis, workers } = testbed
  const at = Math.floor(dice / PAIRS)
  const pick = <T>(items: readonly T[], place = at): T | undefined => items[place % items.length]
  const [api, worker] = [pick(apis)?.child, pick(workers)?.child]
  const wallet = pick(workers.filter(({ name }) => name.startsWith('coins-')))?.child
  const member = pick(mongo.members, at >> 4)
  const other = pick(
    mongo.members.filter((one) => one !== member),
    at >> 8,
  )
  const ways: [string, Gate | undefined, Process | undefined][] = [
    [member?.child.name ?? '', member?.gate, api],
    [member?.child.name ?? '', member?.gate, worker],
    [member?.child.name ?? '', member?.gate, other?.child],
    ['redis', redisGate, api],
    ['redis', redisGate, worker],
    ['the node', coinGate, wallet],
  ]
  const way = ways[dice % PAIRS]
  if (way === undefined) return undefined
  const [to, gate, from] = way
  if (gate === undefined || from === undefined) return undefined
  const all: Way[] = [{ gate, from }]
  // Two members connect to each other.
  if (from === other?.child && member !== undefined && what === 'both')
    all.push({ gate: other.gate, from: member.child })
  const ends = all.map((one) => one.gate.divide(() => findClientPorts(one.gate.port, [one.from]), what))
  return {
    target: `${from.name} and ${to}`,
    heal() {
      // A network that was away may give what it held after all, or have lost it.
      for (const end of ends) end(dice & (2 ** 19) ? 'reset' : 'go-on')
    },
  }
}
/** How many kinds of pairs there are. */
const PAIRS = 6

/** Sets a server's clock wrong: it jumps, or goes too fast or too slowly. */
function setServerClock(
  name: string | undefined,
  clock: ServerClock | undefined,
  dice: number,
): Injected | undefined {
  if (name === undefined || clock === undefined) return undefined
  const jumpSeconds = (SERVER_JUMPS_SECONDS[dice % SERVER_JUMPS_SECONDS.length] ?? 0) * (dice & 8 ? 1 : -1)
  if (dice & 16) {
    clock.shift(jumpSeconds)
    return { target: `${name} by ${jumpSeconds} s`, heal: () => clock.shift(0) }
  }
  const rate = dice & 32 ? 1.2 : 0.8
  const startedAt = performance.now()
  const drifting = setInterval(
    () => clock.shift(((rate - 1) * (performance.now() - startedAt)) / 1_000),
    DRIFT_EVERY_MS,
  )
  return {
    target: `${name}, ${rate} times as fast`,
    heal() {
      clearInterval(drifting)
      clock.shift(0)
    },
  }
}
const DRIFT_EVERY_MS = 50

/** Has the node tell another amount and another confirmation, in one answer. */
function lieOnce(coins: Coins): Injected {
  let hasLied = false
  coins.lie(({ answerText }) => {
    if (hasLied) return undefined
    const lie = answerText
      .replace(/("(?:amount|balance|pending|receivable)":\s*"[1-9]\d*)"/g, '$10"')
      .replace(/("confirmed":\s*)"false"/g, '$1"true"')
    if (lie === answerText) return undefined
    hasLied = true
    return lie
  })
  return { target: 'the node', heal: () => coins.lie(null) }
}

/**
 * Stops a process in order and starts it with the code of another version; `heal` does the same with the
 * present code, and waits until that is up.
 */
function runOtherVersion(part: Part | undefined, root: string | undefined): Injected | undefined {
  if (part === undefined || root === undefined) return undefined
  const replace = (code: string | undefined): Promise<void> => {
    part.useCode(code)
    return part.restart()
  }
  const started = replace(root)
  started.catch(() => undefined) // told when it is healed
  return {
    target: part.name,
    async heal() {
      try {
        await started
      } finally {
        await replace(undefined)
      }
    },
  }
}

/** The likely reason why inject() could not cause a kind of fault, in words for the report. */
export function reasonNotCaused(kind: FaultKind): string {
  if (kind === 'redis-disk-full') return 'this user may not mount a disk of its own for Redis'
  if (kind.endsWith('-clock') && kind !== 'jump-clock') return 'there is no libfaketime here'
  if (kind === 'other-version') return 'this is no checkout with the commit before'
  if (kind.startsWith('coin-')) return 'no coin is configured'
  if (isOfMonero(kind)) return 'the run is without --monero, or it was down at that moment'
  if (kind === 'redis-flush') return 'its disk was full'
  if (kind === 'mongo-disk-full') return 'there is no prlimit here, or there was no primary'
  return 'there was nothing to hit at that moment'
}

/**
 * Kills a process, or stops it until the fault is healed. Undefined if it does not run.
 */
function signalChild(child: SupervisedChild | undefined, name: 'SIGKILL' | 'SIGSTOP'): Injected | undefined {
  if (child === undefined || signal(child, name) === undefined) return undefined
  // One that was killed meanwhile, and restarted, is not stopped.
  return { target: child.name, heal: () => void (name === 'SIGSTOP' && signal(child, 'SIGCONT')) }
}

/**
 * Kills a process; `heal` waits until it logs that it is up again.
 *
 * @returns undefined if it does not run
 */
export function killPart(part: Part | undefined): Injected | undefined {
  const upAtMs = part?.upAtMs()
  if (part === undefined || signal(part.child, 'SIGKILL') === undefined) return undefined
  return { target: part.name, heal: () => part.whenUpAgain(upAtMs) }
}

/** Shifts a process's clock forwards or back by one of JUMPS_MS; undefined if there is no process. */
function jumpClock(part: Part | undefined, dice: number): Injected | undefined {
  if (part === undefined) return undefined
  const jumpMs = JUMPS_MS[dice % JUMPS_MS.length] ?? 0
  const shiftMs = dice & 8 ? jumpMs : -jumpMs
  part.shiftClock(shiftMs)
  return { target: `${part.name} by ${shiftMs / 1_000} s`, heal: () => part.shiftClock(0) }
}

/** Sends a command to Redis directly, not through its gate; retries while Redis is down. */
async function askRedis(url: string, ask: (client: Redis) => Promise<unknown>): Promise<void> {
  const client = new Redis(url, { maxRetriesPerRequest: 50, retryStrategy: () => 100 })
  client.on('error', () => undefined) // each failure is retried
  try {
    await ask(client)
  } finally {
    client.disconnect()
  }
}
