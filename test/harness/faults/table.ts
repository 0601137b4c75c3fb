import {
  cutGate,
  delayGates,
  divideParties,
  fillMongoDisk,
  fillRedisDisk,
  fillRedisMemory,
  flushRedis,
  hangGate,
  jumpClock,
  killPart,
  lieOnce,
  ofCoin,
  ofPrimary,
  runOtherVersion,
  setServerClock,
  signalChild,
} from './causes.ts'
import { pick, type Fault } from './fault.ts'
import {
  hideNewestSend,
  mistype,
  ofMarket,
  refuseBlocks,
  replaceNewestSend,
  restore,
  switchCoinOff,
} from './market.ts'
import { endOrKill, lockNextPayment, loseAnswers, ofMonero, reorganise, repeatAnswerOnce } from './monero.ts'
import { mistypePaid, mistypeSettle } from '../money/operator.ts'
import type { Part } from '../testbed/part.ts'
import type { Testbed } from '../testbed/testbed.ts'

/** Of a fault that ends by itself. */
const NO_TIME = [0, 0] as const
const anyPart = ({ apis, workers }: Testbed, dice: number): Part | undefined =>
  pick([...apis, ...workers], dice)

/** Every fault by its name, which says what it does. Seeds draw from them in this order. */
const TABLE = {
  /** The treasury's newest send, though confirmed, is gone from the node, and then back. */
  gone: {
    lastsMs: [2_000, 8_000],
    needs: 'market',
    cause: ofMarket((market) => hideNewestSend(market, true)),
  },
  /** Gone for good, unless its sender publishes it again. */
  lost: {
    lastsMs: [1_000, 2_000],
    needs: 'market',
    cause: ofMarket((market) => hideNewestSend(market, false)),
  },
  /** Another block is confirmed in the place of a payout, and later the payout again. */
  rival: { lastsMs: [3_000, 8_000], needs: 'market', cause: ofMarket(replaceNewestSend) },
  /** The node refuses valid blocks, and by the workers' clock it does so for a long time. */
  refused: { lastsMs: [4_000, 6_000], needs: 'market', cause: ofMarket(refuseBlocks) },
  'coin-off': { lastsMs: [3_000, 12_000], needs: 'market', cause: ofMarket(switchCoinOff) },
  /** A copy of the database, from the beginning of the fault, is put in its place. */
  restore: { lastsMs: [8_000, 16_000], needs: 'market', cause: ofMarket(restore) },
  'wrong-settle': { lastsMs: NO_TIME, needs: 'market', cause: ofMarket(mistype(mistypeSettle)) },
  'wrong-paid': { lastsMs: NO_TIME, needs: 'market', cause: ofMarket(mistype(mistypePaid)) },

  'kill-api': { lastsMs: NO_TIME, cause: ({ testbed }, { dice }) => killPart(pick(testbed.apis, dice)) },
  'kill-worker': {
    lastsMs: NO_TIME,
    cause: ({ testbed }, { dice }) => killPart(pick(testbed.workers, dice)),
  },
  'pause-worker': {
    lastsMs: [3_000, 9_000],
    cause: ({ testbed }, { dice }) => signalChild(pick(testbed.workers, dice)?.child, 'SIGSTOP'),
  },
  'jump-clock': {
    lastsMs: [2_000, 6_000],
    cause: ({ testbed }, { dice }) => jumpClock(anyPart(testbed, dice), dice),
  },

  'mongo-stepdown': {
    lastsMs: NO_TIME,
    cause: ofPrimary(async ({ child }, index, mongo) => {
      // The command's own connection may be cut by what it does.
      await mongo.command(index, { replSetStepDown: 2, force: true }).catch(() => undefined)
      return { target: child.name }
    }),
  },
  'mongo-kill-primary': { lastsMs: NO_TIME, cause: ofPrimary(({ child }) => signalChild(child, 'SIGKILL')) },
  'mongo-kill-secondary': {
    lastsMs: NO_TIME,
    async cause({ testbed: { mongo } }, { dice }) {
      const primary = await mongo.findPrimary()
      const secondaries = mongo.members.filter((_, index) => index !== primary)
      return signalChild(pick(secondaries, dice)?.child, 'SIGKILL')
    },
  },
  'mongo-kill-all': {
    lastsMs: NO_TIME,
    cause({ testbed: { mongo } }) {
      for (const { child } of mongo.members) signalChild(child, 'SIGKILL')
      return { target: 'every mongod' }
    },
  },
  'mongo-pause-primary': {
    lastsMs: [2_000, 6_000],
    cause: ofPrimary(({ child }) => signalChild(child, 'SIGSTOP')),
  },
  'mongo-cut-primary': {
    lastsMs: [1_000, 4_000],
    cause: ofPrimary(({ child, gate }) => cutGate(child.name, gate)),
  },
  'mongo-hang-primary': {
    lastsMs: [1_000, 5_000],
    cause: ofPrimary(({ child, gate }) => hangGate(child.name, gate)),
  },
  'mongo-delay': {
    lastsMs: [2_000, 5_000],
    cause: ({ testbed: { mongo } }, { dice }) =>
      delayGates(
        'every mongod',
        mongo.members.map(({ gate }) => gate),
        dice,
      ),
  },
  'mongo-disk-full': { lastsMs: NO_TIME, needs: 'prlimit', cause: ofPrimary(fillMongoDisk) },

  'redis-kill': { lastsMs: NO_TIME, cause: ({ testbed }) => signalChild(testbed.redis.child, 'SIGKILL') },
  'redis-flush': { lastsMs: NO_TIME, cause: ({ testbed }) => flushRedis(testbed.redis.url) },
  'redis-pause': {
    lastsMs: [1_000, 6_000],
    cause: ({ testbed }) => signalChild(testbed.redis.child, 'SIGSTOP'),
  },
  'redis-full': { lastsMs: [1_000, 4_000], cause: ({ testbed }) => fillRedisMemory(testbed.redis.url) },
  'redis-cut': { lastsMs: [1_000, 4_000], cause: ({ testbed }) => cutGate('redis', testbed.redisGate) },
  'redis-hang': { lastsMs: [1_000, 5_000], cause: ({ testbed }) => hangGate('redis', testbed.redisGate) },
  'redis-delay': {
    lastsMs: [2_000, 5_000],
    cause: ({ testbed }, { dice }) => delayGates('redis', [testbed.redisGate], dice),
  },
  'redis-disk-full': {
    lastsMs: [1_000, 4_000],
    needs: 'a disk',
    cause: ({ testbed }) => fillRedisDisk(testbed.redisDisk),
  },

  'coin-down': {
    lastsMs: [1_000, 6_000],
    needs: 'coin',
    cause: ofCoin(async ({ node }) => {
      await node.setDown(true)
      return { target: 'the node', heal: () => node.setDown(false) }
    }),
  },
  'coin-hang': {
    lastsMs: [1_000, 6_000],
    needs: 'coin',
    cause: ofCoin(({ node }) => {
      node.setHanging(true)
      return { target: 'the node', heal: () => node.setHanging(false) }
    }),
  },
  /** Each block is published, but the answer is lost, as in a time-out after a broadcast. */
  'coin-lost-answers': {
    lastsMs: [1_000, 4_000],
    needs: 'coin',
    cause: ofCoin((coins) => {
      coins.lie(({ action }) => (action === 'process' ? { cutAfterBytes: 0 } : undefined))
      return { target: 'the node', heal: () => coins.lie(null) }
    }),
  },
  'coin-lies-once': { lastsMs: [1_000, 4_000], needs: 'coin', cause: ofCoin(lieOnce) },

  'partition-pair': {
    lastsMs: [1_000, 5_000],
    cause: ({ testbed }, { dice }) => divideParties(testbed, dice, 'both'),
  },
  'partition-oneway': {
    lastsMs: [1_000, 5_000],
    cause: ({ testbed }, { dice }) => divideParties(testbed, dice, 'answers'),
  },
  'mongo-clock': {
    lastsMs: [2_000, 6_000],
    needs: 'libfaketime',
    cause({ testbed }, { dice }) {
      const member = pick(testbed.mongo.members, dice)
      return setServerClock(member?.child.name, member?.clock, dice)
    },
  },
  'redis-clock': {
    lastsMs: [2_000, 6_000],
    needs: 'libfaketime',
    cause: ({ testbed }, { dice }) => setServerClock('redis', testbed.redisClock, dice),
  },
  'other-version': {
    lastsMs: [4_000, 9_000],
    needs: 'another version',
    cause: ({ testbed }, { dice }) => runOtherVersion(anyPart(testbed, dice), testbed.otherVersion),
  },

  'monero-down': { lastsMs: [1_000, 6_000], needs: 'monero', cause: ofMonero(endOrKill) },
  'monero-hang': {
    lastsMs: [1_000, 6_000],
    needs: 'monero',
    cause: ofMonero(({ gate }) => {
      gate.setHanging(true)
      return { target: 'the wallet', heal: () => gate.setHanging(false) }
    }),
  },
  'monero-lost-answers': { lastsMs: [1_000, 4_000], needs: 'monero', cause: ofMonero(loseAnswers) },
  'monero-lies-once': { lastsMs: [1_000, 4_000], needs: 'monero', cause: ofMonero(repeatAnswerOnce) },
  'monero-reorganise': { lastsMs: NO_TIME, needs: 'monero', cause: ofMonero(reorganise) },
  'monero-lock': { lastsMs: NO_TIME, needs: 'monero', cause: ofMonero(lockNextPayment) },
} as const satisfies Record<string, Fault>

export type FaultKind = keyof typeof TABLE
export const FAULTS: Readonly<Record<FaultKind, Fault>> = TABLE
export const FAULT_KINDS = Object.keys(TABLE) as FaultKind[]

/** Those that need no market: the faults of a storm. Those of Monero are among them. */
export const WITHOUT_MARKET = FAULT_KINDS.filter((kind) => FAULTS[kind].needs !== 'market')
/** Only if it is named: `mongo-clock` shifts the members' monotonic clocks too. */
const NAMED_ONLY: readonly FaultKind[] = ['mongo-clock']
/** Those of a storm that is told no others. */
export const usualKinds = (hasMonero: boolean): readonly FaultKind[] =>
  WITHOUT_MARKET.filter(
    (kind) => !NAMED_ONLY.includes(kind) && (hasMonero || FAULTS[kind].needs !== 'monero'),
  )
