import { z } from 'zod'
import type { Config } from './config.ts'
import { FIND_RINGS_EVERY_MS, REFRESH_RATES_EVERY_MS, SEQUENCE_EVERY_MS } from './limits.ts'

/** The pools of workers that an operator scales by themselves. A user of the servers is made for each. */
export const POOLS = ['shares', 'ledger', 'signer', 'payments', 'doorbells', 'sweep'] as const
export type PoolName = (typeof POOLS)[number]

/**
 * What jobs cannot do without: a queue is served only by a process that has it, and waits for that process.
 */
export type Need =
  'seal key' | 'nano node' | 'nano node and seed' | 'monero wallet' | 'doorbells' | 'doorbell key'

interface QueueRow {
  /** Ids only. */
  payload: z.ZodObject
  /** Jobs under way at once in one process. */
  concurrency: number
  /** Jobs begun in a second by all processes together; as many as come if absent. */
  perSecond?: number
  attempts: number
  pool: PoolName
  /** Who else puts jobs on it. */
  addedBy?: readonly ('api' | 'ledger')[]
  needs?: Need
  /** How often a regular job is put on it, in ms, by the processes that serve it. */
  every?: (config: Config) => number
  /**
   * Every network needs its regular jobs. Those of a coin are missed only once some were done: only the
   * processes that have the coin's node, wallet or seed know that it is in use.
   */
  isAlwaysDue?: true
  /** What its jobs do, for the board. */
  does: string
}

const NOTHING = z.object({})
const ONE_AT_A_TIME = { payload: NOTHING, concurrency: 1, attempts: 1 } as const
/** One at a time, with other tries: nobody else brings its work back soon. */
const SEALING = { ...ONE_AT_A_TIME, attempts: 8 } as const
const WITH_COIN = {
  ...ONE_AT_A_TIME,
  pool: 'payments',
  every: ({ paymentPollMs }: Config) => paymentPollMs,
} as const
/** A fresh look at one invoice, because its owner asked, or at one transaction, because the operator did. */
const LOOK = z.object({ invoice_id: z.string().optional(), tx: z.string().optional() })
const CHECK = { payload: LOOK, attempts: 2, pool: 'payments', addedBy: ['api'] } as const
/** Which process asks for addresses, if one does, and the highest index that it has given out. */
const STOCK = z.object({ holder: z.string().optional(), given: z.int().min(-1).optional() })
const FILL = { ...WITH_COIN, payload: STOCK, attempts: 3, addedBy: ['api'] } as const
/** The id of the request, which is done once; the treasury that the operator takes over, if it is another one. */
const RECONCILIATION = z.object({
  reconciliation_id: z.string().optional(),
  take_over: z.string().optional(),
})
/** Its next try is in MongoDB, whatever becomes of the job. */
const RING = {
  payload: z.object({ agent_id: z.string() }),
  attempts: 1,
  pool: 'doorbells',
  addedBy: ['api'],
  needs: 'doorbell key',
} as const
/** The process that has just lost the wallet may have taken the job. */
const RECONCILE = { ...ONE_AT_A_TIME, attempts: 5, payload: RECONCILIATION, pool: 'payments' } as const

/**
 * Every queue: the queue's name is its job's name, the payload holds ids only. MongoDB is the truth and Redis
 * a to-do list that may be lost at any moment: a handler reads MongoDB again, and the sweep enqueues what is
 * due once more. What each runs is in workers/handlers.ts, where a missing one does not compile.
 */
export const QUEUES = {
  sweep: {
    ...ONE_AT_A_TIME,
    pool: 'sweep',
    every: ({ sweepMs }) => sweepMs,
    isAlwaysDue: true,
    does: 'looks in MongoDB for work that Redis has lost',
  },
  // Batches that a process holds at once are verified together.
  'verify-shares': {
    payload: z.object({ batch_id: z.string() }),
    concurrency: 64,
    attempts: 5,
    pool: 'shares',
    addedBy: ['api'],
    does: 'verifies batches of work and credits their days',
  },
  sequence: {
    ...ONE_AT_A_TIME,
    pool: 'ledger',
    every: () => SEQUENCE_EVERY_MS,
    isAlwaysDue: true,
    does: 'gives ledger entries their numbers',
  },
  'make-seal': { ...SEALING, pool: 'ledger', does: 'seals the entries since the last seal' },
  'sign-seals': { ...SEALING, pool: 'signer', addedBy: ['ledger'], needs: 'seal key', does: 'signs seals' },
  // Offers the last checkpoint to the witnesses of this process; again at each turn, until all have cosigned
  // it.
  cosign: {
    ...ONE_AT_A_TIME,
    pool: 'signer',
    every: ({ sweepMs }) => sweepMs,
    does: 'asks the witnesses to cosign the last checkpoint',
  },
  'sign-announcement': {
    ...SEALING,
    payload: z.object({ announcement_id: z.string() }),
    pool: 'signer',
    needs: 'seal key',
    does: 'signs an announcement',
  },
  'check-chain': { ...ONE_AT_A_TIME, attempts: 3, pool: 'ledger', does: 'verifies the chain of seals anew' },
  'refresh-rates': {
    ...ONE_AT_A_TIME,
    pool: 'payments',
    every: () => REFRESH_RATES_EVERY_MS,
    does: 'asks the exchanges for rates',
  },
  // A round over every open address of the coin.
  'watch-nano': { ...WITH_COIN, needs: 'nano node', does: 'looks at every open address of Nano' },
  'watch-monero': { ...WITH_COIN, needs: 'monero wallet', does: 'looks at every open address of Monero' },
  'check-nano': { ...CHECK, concurrency: 8, needs: 'nano node', does: 'looks at one invoice in Nano' },
  // Those that a process holds at once share one look at the wallet.
  'check-monero': {
    ...CHECK,
    concurrency: 64,
    needs: 'monero wallet',
    does: 'looks at one invoice in Monero',
  },
  'fill-nano': { ...FILL, needs: 'nano node and seed', does: 'makes addresses of Nano ahead' },
  'fill-monero': { ...FILL, needs: 'monero wallet', does: 'makes addresses of Monero ahead' },
  'sweep-nano': {
    ...WITH_COIN,
    needs: 'nano node and seed',
    does: 'sweeps payments into the treasury of Nano',
  },
  'send-nano': { ...WITH_COIN, needs: 'nano node and seed', does: 'sends payouts in Nano' },
  'send-monero': { ...WITH_COIN, needs: 'monero wallet', does: 'sends payouts in Monero' },
  'reconcile-nano': {
    ...RECONCILE,
    needs: 'nano node and seed',
    does: 'compares the wallet of Nano with the chain',
  },
  'reconcile-monero': {
    ...RECONCILE,
    needs: 'monero wallet',
    does: 'compares the wallet of Monero with the chain',
  },
  'find-rings': {
    ...ONE_AT_A_TIME,
    pool: 'sweep',
    every: () => FIND_RINGS_EVERY_MS,
    needs: 'doorbells',
    does: 'finds the agents with new events whose doorbells are to ring',
  },
  doorbells: { ...RING, concurrency: 1_024, does: 'rings doorbells' },
  // Apart, so that they keep nobody else waiting; each takes up to 3 ms of the core that all rings share.
  'slow-doorbells': {
    ...RING,
    concurrency: 256,
    perSecond: 100,
    does: 'rings doorbells that failed or were slow last time',
  },
  // Acts on the market orders whose deadline is this second.
  'order-deadlines': {
    payload: z.object({ due_at: z.int().min(0) }),
    concurrency: 4,
    attempts: 3,
    pool: 'payments',
    addedBy: ['api'],
    does: 'moves market orders on whose deadline has passed',
  },
} as const satisfies Record<string, QueueRow>

export type QueueName = keyof typeof QUEUES
export type Payload<Name extends QueueName> = z.output<(typeof QUEUES)[Name]['payload']>
export const QUEUE_NAMES = Object.keys(QUEUES) as QueueName[]
/** A queue's row, with what it leaves out as undefined. */
export const queueRow = (name: QueueName): QueueRow => QUEUES[name]

/**
 * Doorbells are rung by a process that does nothing else: it alone connects to hosts that strangers name, so it
 * reads no secret but its own.
 */
export const isOfDoorbells = (name: QueueName): boolean => queueRow(name).pool === 'doorbells'
/** All queues that one process may serve together. */
export const QUEUES_TOGETHER = QUEUE_NAMES.filter((name) => !isOfDoorbells(name))

/**
 * A killed worker's job is handed on after at most lock + stalled check = 10 s. A job whose worker was killed
 * often is still good work: only a failure that the handler threw uses up an attempt.
 */
export const WORKER_TIMING = {
  lockDuration: 5_000,
  stalledInterval: 5_000,
  maxStalledCount: 1_000,
  // A job wakes whoever waits for one; this is how often an idle worker asks again, in seconds.
  drainDelay: 10,
} as const

/** The prefix of one queue's keys, which share a hash slot of Redis Cluster by its braces. */
export function queuePrefix(prefix: string, name: QueueName): string {
  return `{${prefix}.${name}}`
}
