import fs from 'node:fs'
import path from 'node:path'
import { Redis } from 'ioredis'
import type { Mishap } from './play.ts'
import type { Network } from './network.ts'

const FILLER_CHUNK = Buffer.alloc(2 ** 20, 0x61)
const GB = 1e9

type ChildOf = (network: Network) => { pid(): number | undefined }

/** Kills a process, which its supervisor then starts again. */
const killForRestart = (childOf: ChildOf) => (network: Network) => {
  const pid = childOf(network).pid()
  if (pid !== undefined) process.kill(pid, 'SIGKILL')
}
const mongod = ({ stack }: Network) => {
  const [member] = stack.mongo.members
  if (member === undefined) throw new Error('there is no MongoDB')
  return member.child
}
const redis = ({ stack }: Network) => stack.redis.child
const freeze = (childOf: ChildOf) => (network: Network) =>
  process.kill(childOf(network).pid() ?? 0, 'SIGSTOP')

/** The file that takes the room on MongoDB's disk. */
const filler = ({ stack }: Network): string => path.join(stack.mongoDisk ?? '', 'filler')
const makeRoom = (network: Network): void => fs.rmSync(filler(network), { force: true })

/** Fills MongoDB's disk until `leftBytes` are free. @throws Error if it has no disk of its own */
function fillDisk(network: Network, leftBytes: number): void {
  if (network.stack.mongoDisk === undefined) throw new Error('this user may not mount a disk for MongoDB')
  const handle = fs.openSync(filler(network), 'w')
  for (;;) {
    const { bavail, bsize } = fs.statfsSync(network.stack.mongoDisk)
    if (bavail * bsize <= leftBytes) break
    fs.writeSync(handle, FILLER_CHUNK)
  }
  fs.closeSync(handle)
}

export const SERVER_MISHAPS: readonly Mishap[] = [
  {
    name: 'MongoDB is frozen',
    kinds: ['mongodb_away'],
    isQuick: true,
    cause: freeze(mongod),
    remedy: { act: killForRestart(mongod) },
  },
  {
    name: 'the way to MongoDB is cut',
    kinds: ['mongodb_away'],
    cause: ({ stack }) => stack.mongo.members[0]?.gate.cut(),
    remedy: { act: ({ stack }) => stack.mongo.members[0]?.gate.heal() },
  },
  {
    name: 'Redis is frozen',
    kinds: ['redis_away'],
    isQuick: true,
    cause: freeze(redis),
    remedy: { act: killForRestart(redis) },
  },
  {
    name: 'Redis has lost its data',
    kinds: ['redis_emptied'],
    isQuick: true,
    async cause({ stack }) {
      const client = new Redis(stack.redis.url)
      await client.flushall()
      client.disconnect()
    },
  },
  {
    name: "MongoDB's disk is full",
    kinds: ['disk_low'],
    cause: (network) => fillDisk(network, 8e6),
    remedy: { act: makeRoom },
  },
  {
    name: "MongoDB's disk fills up",
    kinds: ['disk_filling'],
    async cause(network) {
      const now = Math.floor(Date.now() / 1000)
      const free = (await network.ctx.database.freeDiskBytes()) ?? 0
      await network.ctx.watch.noteDisk({ at: now - 7_200, free })
      fillDisk(network, free - 0.02 * GB)
    },
    remedy: { act: makeRoom },
  },
  {
    name: 'a queue is paused on the board',
    kinds: ['queue_paused'],
    isQuick: true,
    cause: ({ ctx }) => ctx.queues.get('sequence').pause(),
  },
  {
    name: 'a queue is limited on the board',
    kinds: ['queue_limited'],
    isQuick: true,
    cause: ({ ctx }) => ctx.queues.get('make-seal').setGlobalRateLimit(1, 3_600_000),
  },
]
