import fs from 'node:fs'
import path from 'node:path'
import { Redis } from 'ioredis'
import type { Mishap } from './play.ts'
import type { Network } from './network.ts'

const FILLER_CHUNK = Buffer.alloc(2 ** 20, 0x61)
const GB = 1e9

/** Its supervisor, systemd or npm start, starts it again. */
const startAgain = (child: (network: Network) => { pid(): number | undefined }) => (network: Network) => {
  const pid = child(network).pid()
  if (pid !== undefined) process.kill(pid, 'SIGKILL')
}
const mongod = ({ stack }: Network) => {
  const [member] = stack.mongo.members
  if (member === undefined) throw new Error('there is no MongoDB')
  return member.child
}
const redis = ({ stack }: Network) => stack.redis.child
const freeze = (child: (network: Network) => { pid(): number | undefined }) => (network: Network) =>
  process.kill(child(network).pid() ?? 0, 'SIGSTOP')

const filler = ({ stack }: Network): string => path.join(stack.mongoDisk ?? '', 'filler')
const makeRoom = (network: Network): void => fs.rmSync(filler(network), { force: true })

/** Leaves so many bytes. */
function fill(network: Network, leftBytes: number): void {
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
    happens: freeze(mongod),
    hand: { does: startAgain(mongod) },
  },
  {
    name: 'the way to MongoDB is cut',
    kinds: ['mongodb_away'],
    happens: ({ stack }) => stack.mongo.members[0]?.gate.cut(),
    hand: { does: ({ stack }) => stack.mongo.members[0]?.gate.heal() },
  },
  {
    name: 'Redis is frozen',
    kinds: ['redis_away'],
    isQuick: true,
    happens: freeze(redis),
    hand: { does: startAgain(redis) },
  },
  {
    name: 'Redis has lost its data',
    kinds: ['redis_emptied'],
    isQuick: true,
    async happens({ stack }) {
      const client = new Redis(stack.redis.url)
      await client.flushall()
      client.disconnect()
    },
  },
  {
    name: "MongoDB's disk is full",
    kinds: ['disk_low'],
    happens: (network) => fill(network, 8e6),
    hand: { does: makeRoom },
  },
  {
    name: "MongoDB's disk fills up",
    kinds: ['disk_filling'],
    async happens(network) {
      const now = Math.floor(Date.now() / 1000)
      const free = (await network.ctx.database.freeDiskBytes()) ?? 0
      await network.ctx.watch.noteDisk({ at: now - 7_200, free })
      fill(network, free - 0.02 * GB)
    },
    hand: { does: makeRoom },
  },
  {
    name: 'a queue is paused on the board',
    kinds: ['queue_paused'],
    isQuick: true,
    happens: ({ ctx }) => ctx.queues.get('sequence').pause(),
  },
  {
    name: 'a queue is limited on the board',
    kinds: ['queue_limited'],
    isQuick: true,
    happens: ({ ctx }) => ctx.queues.get('make-seal').setGlobalRateLimit(1, 3_600_000),
  },
]
