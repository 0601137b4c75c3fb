import { spawnSync } from 'node:child_process'
import { Redis } from 'ioredis'
import { findClientPorts, type Process } from '../testbed/client-ports.ts'
import type { Coins } from '../testbed/coins.ts'
import { emptyDisk, fillDisk } from '../testbed/disk.ts'
import type { Gate, Held } from '../testbed/gate.ts'
import { signal } from '../testbed/kept-process.ts'
import type { MongoMember, MongoSet } from '../testbed/mongo-set.ts'
import type { Part } from '../testbed/part.ts'
import type { ServerClock } from '../testbed/server-clock.ts'
import type { Testbed } from '../testbed/testbed.ts'
import type { SupervisedChild } from '../../../scripts/embedded/supervise.ts'
import { pick, type Cause, type Injected } from './fault.ts'

/** How far a clock jumps, forwards or back. */
const JUMPS_MS = [30_000, 600_000, 7_200_000]
/**
 * Of a server's clock: by MongoDB's all is decided, and what is dated more than 5 minutes ahead of it is not
 * signed until then.
 */
const SERVER_JUMPS_SECONDS = [5, 30, 120]

/** Causes a fault of the member of MongoDB that takes writes. */
export const ofPrimary =
  (begin: (member: MongoMember, index: number, mongo: MongoSet) => ReturnType<Cause>) =>
  async ({ mongo }: Testbed): Promise<Injected | undefined> => {
    const index = await mongo.findPrimary()
    const member = index === undefined ? undefined : mongo.members[index]
    return index === undefined || member === undefined ? undefined : begin(member, index, mongo)
  }

/** A process of the service. */
export const pickPart = ({ apis, workers }: Testbed, dice: number): Part | undefined =>
  pick([...apis, ...workers], dice)

export async function stepDown({ child }: MongoMember, index: number, mongo: MongoSet): Promise<Injected> {
  // The command's own connection may be cut by what it does.
  await mongo.command(index, { replSetStepDown: 2, force: true }).catch(() => undefined)
  return { target: child.name }
}

export async function killSecondary(mongo: MongoSet, dice: number): Promise<Injected | undefined> {
  const primary = await mongo.findPrimary()
  const secondaries = mongo.members.filter((_, index) => index !== primary)
  return signalChild(pick(secondaries, dice)?.child, 'SIGKILL')
}

export function killMembers({ members }: MongoSet): Injected {
  for (const { child } of members) signalChild(child, 'SIGKILL')
  return { target: 'every mongod' }
}

export const gatesOf = ({ members }: MongoSet): Gate[] => members.map(({ gate }) => gate)

export async function takeNodeDown({ node }: Coins): Promise<Injected> {
  await node.setDown(true)
  return { target: 'the node', heal: () => node.setDown(false) }
}

export function hangNode({ node }: Coins): Injected {
  node.setHanging(true)
  return { target: 'the node', heal: () => node.setHanging(false) }
}

/** Each block is published, but the answer is lost, as in a time-out after a broadcast. */
export function losePublished(coins: Coins): Injected {
  coins.lie(({ action }) => (action === 'process' ? { cutAfterBytes: 0 } : undefined))
  return { target: 'the node', heal: () => coins.lie(null) }
}

export function cutGate(target: string, gate: Gate): Injected {
  gate.cut()
  return { target, heal: () => gate.heal() }
}

export function hangGate(target: string, gate: Gate): Injected {
  gate.hang()
  return { target, heal: () => gate.heal() }
}

export function delayGates(target: string, gates: readonly Gate[], dice: number): Injected {
  for (const gate of gates) gate.delay(20 + (dice % 130))
  return {
    target,
    heal() {
      for (const gate of gates) gate.heal()
    },
  }
}

/**
 * From now on no file of a mongod may grow, which is like a full disk; once it is restarted, it has no such
 * limit.
 */
export function fillMongoDisk({ child }: MongoMember): Injected | undefined {
  const pid = child.pid()
  if (pid === undefined || spawnSync('prlimit', ['--pid', String(pid), '--fsize=4096:4096']).status !== 0)
    return undefined
  return { target: child.name }
}

/** Undefined if its disk is full: then Redis refuses this write too. */
export async function flushRedis(url: string): Promise<Injected | undefined> {
  try {
    await askRedis(url, (client) => client.flushall())
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('MISCONF')) return undefined
    throw error
  }
  return { target: 'redis' }
}

export async function fillRedisMemory(url: string): Promise<Injected> {
  const limitTo = (bytes: string): Promise<void> =>
    askRedis(url, (client) => client.config('SET', 'maxmemory', bytes))
  await limitTo('1')
  return { target: 'redis', heal: () => limitTo('0') }
}

export function fillRedisDisk(disk: string | undefined): Injected | undefined {
  if (disk === undefined) return undefined
  fillDisk(disk)
  return { target: "redis's disk", heal: () => emptyDisk(disk) }
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
export function divideParties(testbed: Testbed, dice: number, what: Held): Injected | undefined {
  const { mongo, redisGate, coinGate, apis, workers } = testbed
  const at = Math.floor(dice / PAIRS)
  const api = pick(apis, at)?.child
  const worker = pick(workers, at)?.child
  const coinWorkers = workers.filter(({ name }) => name.startsWith('coins-'))
  const wallet = pick(coinWorkers, at)?.child
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
export function setServerClock(
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
export function lieOnce(coins: Coins): Injected {
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
export function runOtherVersion(part: Part | undefined, root: string | undefined): Injected | undefined {
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

/**
 * Kills a process, or stops it until the fault is healed. Undefined if it does not run.
 */
export function signalChild(
  child: SupervisedChild | undefined,
  name: 'SIGKILL' | 'SIGSTOP',
): Injected | undefined {
  if (child === undefined || signal(child, name) === undefined) return undefined
  if (name === 'SIGKILL') return { target: child.name }
  // One that was killed meanwhile, and restarted, is not stopped.
  return { target: child.name, heal: () => void signal(child, 'SIGCONT') }
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
export function jumpClock(part: Part | undefined, dice: number): Injected | undefined {
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
