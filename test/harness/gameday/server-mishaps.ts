import { FAULTS, type FaultKind } from '../faults/table.ts'
import { emptyDisk, fillDisk } from '../testbed/disk.ts'
import { signal } from '../testbed/kept-process.ts'
import type { Mishap } from './play.ts'
import type { Gameday } from './network.ts'

const GB = 1e9

type ChildOf = (network: Gameday) => { pid(): number | undefined }

/** Kills a process, which its supervisor then starts again. */
const killForRestart = (childOf: ChildOf) => (network: Gameday) => signal(childOf(network), 'SIGKILL')
const mongod = ({ testbed }: Gameday) => {
  const [member] = testbed.mongo.members
  if (member === undefined) throw new Error('there is no MongoDB')
  return member.child
}
const redis = ({ testbed }: Gameday) => testbed.redis.child
/** Causes a fault of the table, which the remedy ends. */
export const fault = (kind: FaultKind) => (network: Gameday) =>
  FAULTS[kind].cause(network.testbed, { lastsMs: 0, dice: 0 })

/** MongoDB's disk. @throws Error if it has none of its own */
function mongoDisk({ testbed }: Gameday): string {
  if (testbed.mongoDisk === undefined) throw new Error('this user may not mount a disk for MongoDB')
  return testbed.mongoDisk
}
const makeRoom = (network: Gameday): void => emptyDisk(mongoDisk(network))

export const SERVER_MISHAPS: readonly Mishap[] = [
  {
    name: 'MongoDB is frozen',
    kinds: ['mongodb_away'],
    isQuick: true,
    cause: fault('mongo-pause-primary'),
    remedy: { act: killForRestart(mongod) },
  },
  {
    name: 'the way to MongoDB is cut',
    kinds: ['mongodb_away'],
    cause: fault('mongo-cut-primary'),
    remedy: { act: ({ testbed }) => testbed.mongo.members[0]?.gate.heal() },
  },
  {
    name: 'Redis is frozen',
    kinds: ['redis_away'],
    isQuick: true,
    cause: fault('redis-pause'),
    remedy: { act: killForRestart(redis) },
  },
  {
    name: 'Redis has lost its data',
    kinds: ['redis_emptied'],
    isQuick: true,
    cause: fault('redis-flush'),
  },
  {
    name: "MongoDB's disk is full",
    kinds: ['disk_low'],
    cause: (network) => fillDisk(mongoDisk(network), 8e6),
    remedy: { act: makeRoom },
  },
  {
    name: "MongoDB's disk fills up",
    kinds: ['disk_filling'],
    async cause(network) {
      const now = Math.floor(Date.now() / 1000)
      const free = (await network.ctx.database.freeDiskBytes()) ?? 0
      await network.ctx.operation.watch.noteDisk({ at: now - 7_200, free })
      fillDisk(mongoDisk(network), free - 0.02 * GB)
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
