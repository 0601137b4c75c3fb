import type { Market } from '../money/world.ts'
import { mistypePaid, mistypeSettle } from '../money/operator.ts'
import type { Coins } from '../testbed/coins.ts'
import type { Monero } from '../testbed/monero.ts'
import type { Testbed } from '../testbed/testbed.ts'
import * as cause from './causes.ts'
import { pick, type Cause, type Drawn, type Fault } from './fault.ts'
import { hideNewestSend, refuseBlocks, replaceNewestSend, restore, switchCoinOff } from './market.ts'
import { leaveNoMemory } from './out-of-memory.ts'
import {
  endOrKill,
  hangWallet,
  lockNextPayment,
  loseAnswers,
  reorganise,
  repeatAnswerOnce,
} from './monero.ts'

type Lasts = Fault['lastsMs']
/** Of a fault that ends by itself. */
const BY_ITSELF: Lasts = [0, 0]

type Caused = ReturnType<Cause>

const fault = (
  lastsMs: Lasts,
  begin: (testbed: Testbed, dice: number) => Caused,
  needs?: Fault['needs'],
): Fault => ({ lastsMs, needs, cause: (testbed, { dice }) => begin(testbed, dice) })
const ofCoin = (lastsMs: Lasts, begin: (coins: Coins) => Caused): Fault =>
  fault(lastsMs, ({ coins }) => coins && begin(coins), 'a coin')
const ofMonero = (lastsMs: Lasts, begin: (monero: Monero, dice: number) => Caused): Fault =>
  fault(lastsMs, ({ monero }, dice) => monero && begin(monero, dice), 'Monero')
/** Only a run which knows the market can judge it. */
const ofMarket = (lastsMs: Lasts, begin: (market: Market, drawn: Drawn) => Caused): Fault => ({
  ...{ lastsMs, needs: 'a market' },
  cause: (_, drawn, market) => market && begin(market, drawn),
})

/** Every fault by its name, which says what it does. Seeds draw from them in this order. */
const TABLE = {
  /** The treasury's newest send, though confirmed, is gone from the node, and then back. */
  gone: ofMarket([2_000, 8_000], (market) => hideNewestSend(market, true)),
  /** Gone for good, unless its sender publishes it again. */
  lost: ofMarket([1_000, 2_000], (market) => hideNewestSend(market, false)),
  /** Another block is confirmed in the place of a payout, and later the payout again. */
  rival: ofMarket([3_000, 8_000], replaceNewestSend),
  /** The node refuses valid blocks, and by the workers' clock it does so for a long time. */
  refused: ofMarket([4_000, 6_000], refuseBlocks),
  'coin-off': ofMarket([3_000, 12_000], switchCoinOff),
  /** A copy of the database, from the beginning of the fault, is put in its place. */
  restore: ofMarket([8_000, 16_000], restore),
  'wrong-settle': ofMarket(BY_ITSELF, mistypeSettle),
  'wrong-paid': ofMarket(BY_ITSELF, mistypePaid),

  'kill-api': fault(BY_ITSELF, ({ apis }, dice) => cause.killPart(pick(apis, dice))),
  'kill-worker': fault(BY_ITSELF, ({ workers }, dice) => cause.killPart(pick(workers, dice))),
  'worker-oom': fault(
    BY_ITSELF,
    ({ workers }, dice) => leaveNoMemory(pick(workers, dice)),
    'control groups of memory',
  ),
  'pause-worker': fault([3_000, 9_000], (testbed, dice) =>
    cause.signalChild(pick(testbed.workers, dice)?.child, 'SIGSTOP'),
  ),
  'jump-clock': fault([2_000, 6_000], (testbed, dice) =>
    cause.jumpClock(cause.pickPart(testbed, dice), dice),
  ),

  'mongo-stepdown': fault(BY_ITSELF, cause.ofPrimary(cause.stepDown)),
  'mongo-kill-primary': fault(
    BY_ITSELF,
    cause.ofPrimary(({ child }) => cause.signalChild(child, 'SIGKILL')),
  ),
  'mongo-kill-secondary': fault(BY_ITSELF, (testbed, dice) => cause.killSecondary(testbed.mongo, dice)),
  'mongo-kill-all': fault(BY_ITSELF, (testbed) => cause.killMembers(testbed.mongo)),
  'mongo-pause-primary': fault(
    [2_000, 6_000],
    cause.ofPrimary(({ child }) => cause.signalChild(child, 'SIGSTOP')),
  ),
  'mongo-cut-primary': fault(
    [1_000, 4_000],
    cause.ofPrimary(({ child, gate }) => cause.cutGate(child.name, gate)),
  ),
  'mongo-hang-primary': fault(
    [1_000, 5_000],
    cause.ofPrimary(({ child, gate }) => cause.hangGate(child.name, gate)),
  ),
  'mongo-delay': fault([2_000, 5_000], (testbed, dice) =>
    cause.delayGates('every mongod', cause.gatesOf(testbed.mongo), dice),
  ),
  'mongo-disk-full': fault(BY_ITSELF, cause.ofPrimary(cause.fillMongoDisk), 'prlimit'),

  'redis-kill': fault(BY_ITSELF, (testbed) => cause.signalChild(testbed.redis.child, 'SIGKILL')),
  'redis-flush': fault(BY_ITSELF, (testbed) => cause.flushRedis(testbed.redis.url)),
  'redis-pause': fault([1_000, 6_000], (testbed) => cause.signalChild(testbed.redis.child, 'SIGSTOP')),
  'redis-full': fault([1_000, 4_000], (testbed) => cause.fillRedisMemory(testbed.redis.url)),
  'redis-cut': fault([1_000, 4_000], (testbed) => cause.cutGate('redis', testbed.redisGate)),
  'redis-hang': fault([1_000, 5_000], (testbed) => cause.hangGate('redis', testbed.redisGate)),
  'redis-delay': fault([2_000, 5_000], (testbed, dice) =>
    cause.delayGates('redis', [testbed.redisGate], dice),
  ),
  'redis-disk-full': fault(
    [1_000, 4_000],
    (testbed) => cause.fillRedisDisk(testbed.redisDisk),
    "a disk of Redis's own",
  ),

  'coin-down': ofCoin([1_000, 6_000], cause.takeNodeDown),
  'coin-hang': ofCoin([1_000, 6_000], cause.hangNode),
  'coin-lost-answers': ofCoin([1_000, 4_000], cause.losePublished),
  'coin-lies-once': ofCoin([1_000, 4_000], cause.lieOnce),

  'partition-pair': fault([1_000, 5_000], (testbed, dice) => cause.divideParties(testbed, dice, 'both')),
  'partition-oneway': fault([1_000, 5_000], (testbed, dice) => cause.divideParties(testbed, dice, 'answers')),
  'mongo-clock': fault(
    [2_000, 6_000],
    (testbed, dice) => {
      const member = pick(testbed.mongo.members, dice)
      return cause.setServerClock(member?.child.name, member?.clock, dice)
    },
    'libfaketime',
  ),
  'redis-clock': fault(
    [2_000, 6_000],
    (testbed, dice) => cause.setServerClock('redis', testbed.redisClock, dice),
    'libfaketime',
  ),
  'other-version': fault(
    [4_000, 9_000],
    (testbed, dice) => cause.runOtherVersion(cause.pickPart(testbed, dice), testbed.otherVersion),
    'a commit before this one',
  ),

  'monero-down': ofMonero([1_000, 6_000], endOrKill),
  'monero-hang': ofMonero([1_000, 6_000], hangWallet),
  'monero-lost-answers': ofMonero([1_000, 4_000], loseAnswers),
  'monero-lies-once': ofMonero([1_000, 4_000], repeatAnswerOnce),
  'monero-reorganise': ofMonero(BY_ITSELF, reorganise),
  'monero-lock': ofMonero(BY_ITSELF, lockNextPayment),
} as const satisfies Record<string, Fault>

export type FaultKind = keyof typeof TABLE
export const FAULTS: Readonly<Record<FaultKind, Fault>> = TABLE
export const FAULT_KINDS = Object.keys(TABLE) as FaultKind[]

/** The faults of a storm, which has no market. */
export const WITHOUT_MARKET = FAULT_KINDS.filter((kind) => FAULTS[kind].needs !== 'a market')
/** Only if it is named: `mongo-clock` shifts the members' monotonic clocks too. */
const NAMED_ONLY: readonly FaultKind[] = ['mongo-clock']
/** Those of a storm that is told no others. */
export const usualKinds = (hasMonero: boolean): readonly FaultKind[] =>
  WITHOUT_MARKET.filter(
    (kind) => !NAMED_ONLY.includes(kind) && (hasMonero || FAULTS[kind].needs !== 'Monero'),
  )
